/** A group of a plan: its prior, its budget and its mechanism, and the check of its promise. */

import { PlanError } from "./errors.js";
import { toNumber } from "./exact.js";
import { NOTIONS } from "./levels.js";
import { readMechanism } from "./mechanism.js";
import { Prior } from "./prior.js";
import { quoted } from "./promise.js";
import { expect, object, oneOf, rational, text } from "./read.js";

/**
 * @typedef {object} Group
 * @property {string | null} name
 * @property {Prior} prior
 * @property {import("./exact.js").Fraction} epsilon
 * @property {import("./levels.js").Notion} notion
 * @property {import("./mechanism.js").Mechanism} mechanism
 */

/** Larger budgets are refused: e^100 bounds no belief that anybody holds. */
const MAX_EPSILON = 100n;

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
  const name = group.group === null ? null : text(group.group, `${where}.group`);
  const epsilon = rational(group.epsilon, `${where}.epsilon`);
  expect(epsilon.n >= 0n && epsilon.n <= MAX_EPSILON * epsilon.d, `${where}.epsilon`, `between 0 and ${MAX_EPSILON}`);
  const notion = oneOf(group.notion, `${where}.notion`, NOTIONS);
  rational(group.weight, `${where}.weight`);
  rational(group.offset, `${where}.offset`);
  const prior = new Prior(group.prior, `${where}.prior`, size);
  const mechanism = readMechanism(group.mechanism, prior, `${where}.mechanism`, spend);
  return { name, prior, epsilon, notion, mechanism };
}

/** A group for the page. @param {Group} group */
export const describe = ({ name, epsilon, notion, mechanism: { kind, nPossibleReports } }) =>
  Object.freeze({ name, epsilon: toNumber(epsilon), notion, kind, nPossibleReports });

/** Throw a PlanError unless the group's mechanism keeps its promise, decided exactly. @param {Group} group */
export function check({ name, prior, epsilon, notion, mechanism }) {
  if (mechanism.keeps(prior, notion, epsilon)) return;
  const ratio = mechanism.audit(prior).ratio(notion);
  const level = ratio ? Math.log(toNumber(ratio)).toPrecision(6) : "∞";
  const whose = name === null ? "this plan" : `group ${quoted(name)}`;
  const stated = `${notion.toUpperCase()} ε = ${toNumber(epsilon)}`;
  throw new PlanError(`The promise is not kept: ${whose} states ${stated} but reaches ${level}.`);
}
