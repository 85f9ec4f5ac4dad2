/** A group of a plan: its prior, its budget and its mechanism, and the audit of its promise. */

import { CoreTail } from "./core_tail.js";
import { PlanError } from "./errors.js";
import { atMostExp, fraction, larger, toNumber } from "./exact.js";
import { Prior } from "./prior.js";
import { quoted } from "./promise.js";
import { expect, object, oneOf, rational, text } from "./read.js";
import { Table } from "./table.js";

/** @typedef {Table | CoreTail} Mechanism */
/** @typedef {import("./exact.js").Fraction} Fraction */
/** @typedef {{epsilon: Fraction, notion: typeof NOTIONS[number], prior: Prior, mechanism: Mechanism}} Group */

/** Larger budgets are refused: e^100 bounds no belief that anybody holds. */
const MAX_EPSILON = 100n;
/** Notions other than ldp are audited as lip, which implies them. */
const NOTIONS = /** @type {const} */ (["lip", "ldp", "pml", "min_lift", "mip"]);

/**
 * A group's name and what it holds.
 *
 * @param {unknown} data
 * @param {string} where
 * @param {number} size
 * @param {import("./read.js").Meter} spend
 * @returns {[string | null, Group]}
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
  const mechanism = object(group.mechanism, `${where}.mechanism`);
  const kind = oneOf(mechanism.kind, `${where}.mechanism.kind`, ["table", "core-tail"]);
  const Mechanism = kind === "table" ? Table : CoreTail;
  return [name, { epsilon, notion, prior, mechanism: new Mechanism(mechanism, `${where}.mechanism`, prior, spend) }];
}

/** A group for the page. @param {string | null} name @param {Group} group */
export const describe = (name, { epsilon, notion, mechanism }) =>
  Object.freeze({ name, epsilon: toNumber(epsilon), notion, kind: mechanism.kind, nReports: mechanism.nReports });

/**
 * Throw a PlanError unless the group's mechanism keeps its promise, decided exactly.
 *
 * @param {string | null} name
 * @param {Group} group
 */
export function audit(name, { epsilon, notion, mechanism }) {
  const ratio = notion === "ldp" ? mechanism.odds : lift(mechanism);
  if (ratio && atMostExp(ratio, epsilon)) return;
  const level = ratio ? Math.log(toNumber(ratio)).toPrecision(6) : "∞";
  const whose = name === null ? "this plan" : `group ${quoted(name)}`;
  const stated = `${notion.toUpperCase()} ε = ${toNumber(epsilon)}`;
  throw new PlanError(`The promise is not kept: ${whose} states ${stated} but reaches ${level}.`);
}

/** How far a report can move a belief, up or down, as a factor; null if unbounded. @param {Mechanism} mechanism */
function lift({ lifts: { highest, lowest } }) {
  return lowest.n ? larger(highest, fraction(lowest.d, lowest.n)) : null;
}
