/** A group of a plan: its prior, its budget and its mechanism, and the check of its promise. */

import { PlanError } from "./errors.js";
import { compare, smaller, toNumber } from "./exact.js";
import { NOTIONS } from "./mechanism/levels.js";
import { readMechanism } from "./mechanism/kinds.js";
import { Layers } from "./mechanism/repeated.js";
import { Prior, readSet } from "./prior.js";
import { quoted } from "./promise.js";
import { expect, object, oneOf, onlyFields, rational, name as readName } from "./read.js";

/** @typedef {import("./exact.js").Fraction} Fraction */
/** @typedef {import("./mechanism/levels.js").Notion} Notion */

/**
 * @typedef {object} Group
 * @property {string | null} name
 * @property {Prior} prior
 * @property {Fraction} epsilon
 * @property {Notion} notion
 * @property {Fraction | null} ldpCap an LDP level that is promised as well
 * @property {import("./prior.js").PriorSet | null} priorSet the priors for all of which the promise holds
 * @property {import("./mechanism/kinds.js").Mechanism} mechanism what a wave sends
 * @property {Layers | null} layers where devices store a report of each answer
 */

/** Larger budgets are refused: e^100 does not limit any realistic belief. */
const MAX_EPSILON = 100n;
const FIELDS = ["group", "epsilon", "notion", "ldp_cap", "prior", "prior_set", "weight", "offset", "mechanism", "layers"];

/**
 * The group in a plan.
 *
 * @param {unknown} data
 * @param {string} where
 * @param {number} size
 * @param {import("./read.js").Meter} spend
 * @returns {Group}
 */
export function readGroup(data, where, size, spend) {
  const group = object(data, where);
  const name = group.group === null ? null : readName(group.group, `${where}.group`);
  onlyFields(group, where, FIELDS);
  const epsilon = readBudget(group.epsilon, `${where}.epsilon`);
  const ldpCap = "ldp_cap" in group ? readBudget(group.ldp_cap, `${where}.ldp_cap`) : null;
  const notion = oneOf(group.notion, `${where}.notion`, NOTIONS);
  rational(group.weight, `${where}.weight`);
  rational(group.offset, `${where}.offset`);
  const prior = new Prior(group.prior, `${where}.prior`, size);
  const priorSet = "prior_set" in group ? readSet(group.prior_set, prior, `${where}.prior_set`, spend) : null;
  const mechanism = readMechanism(group.mechanism, prior, `${where}.mechanism`, spend);
  const layers = "layers" in group ? Layers.fromDict(group, mechanism, prior, `${where}.layers`, spend, readBudget) : null;
  expect(!layers || (!ldpCap && compare(layers.lifelong, epsilon) >= 0), `${where}.layers`, "a lifelong level of at least ε, and no LDP cap beside it");
  expect(!priorSet || notion === "lip", `${where}.notion`, "lip where there is a set of priors");
  const others = priorSet && "candidates" in priorSet ? priorSet.candidates.length : 0;
  spend((mechanism.nPossibleReports ?? 1) * others * size);
  return { name, prior, epsilon, notion, ldpCap, priorSet, mechanism, layers };
}

/** A budget in a plan. @param {unknown} data @param {string} where */
export function readBudget(data, where) {
  const budget = rational(data, where);
  expect(budget.n >= 0n && budget.n <= MAX_EPSILON * budget.d, where, `between 0 and ${MAX_EPSILON}`);
  return budget;
}

/** A group for the page. @param {Group} group */
export const describe = ({ name, epsilon, notion, ldpCap, priorSet, mechanism: { kind, nPossibleReports } }) =>
  Object.freeze({
    name,
    epsilon: toNumber(epsilon),
    notion,
    ldpCap: ldpCap && toNumber(ldpCap),
    priorSet: priorSet && priorSet.kind,
    kind,
    nPossibleReports,
  });

/** All that is promised: a level for each notion. @param {Group} group */
function promised({ epsilon, notion, ldpCap }) {
  /** @type {Map<Notion, Fraction>} */
  const levels = new Map([[notion, epsilon]]);
  // Beside a promise of LDP a cap can only tighten it.
  if (ldpCap) levels.set("ldp", notion === "ldp" ? smaller(epsilon, ldpCap) : ldpCap);
  return levels;
}

/**
 * Throw a PlanError unless the group's mechanism keeps its promise, for every prior of its set, decided exactly.
 *
 * @param {Group} group
 */
export function check(group) {
  checkMechanism(group);
  const { layers } = group;
  if (layers) checkMechanism({ ...group, epsilon: layers.lifelong, mechanism: layers.stored });
}

/** The same for one mechanism. @param {Group} group */
function checkMechanism(group) {
  const { prior, priorSet, mechanism } = group;
  for (const [notion, level] of promised(group)) {
    if (!mechanism.keeps(prior, notion, level))
      throw broken(group, notion, level, mechanism.audit(prior).ratio(notion));
    // LDP holds for every prior already.
    if (!priorSet || notion === "ldp") continue;
    const reached = mechanism.setLevels(priorSet);
    if (!reached.holds(level)) throw broken(group, notion, level, reached.lip, " for a set of priors");
  }
}

/**
 * @param {Group} group
 * @param {Notion} notion
 * @param {Fraction} level
 * @param {Fraction | null} ratio
 * @param {string} whom
 */
function broken({ name }, notion, level, ratio, whom = "") {
  const reached = ratio ? Math.log(toNumber(ratio)).toPrecision(6) : "∞";
  const whose = name === null ? "this plan" : `group ${quoted(name)}`;
  const stated = `${notion.toUpperCase()} ε = ${toNumber(level)}${whom}`;
  return new PlanError(`The promise is not kept: ${whose} states ${stated} but reaches ${reached}.`);
}
