/**
 * The one interface of all mechanisms, under the names of `tacit.mechanism.protocol`, and the kinds that plans hold.
 *
 * Adding a mechanism means adding a folder with a class that has these members, and a line in `KINDS`. A mechanism is
 * made for one prior and does not change; a report is an integer that only the mechanism interprets. Values are positions.
 */

import { BlockDesign } from "./block_design/block_design.js";
import { ManyValues } from "./many_values/many_values.js";
import { object, oneOf } from "../read.js";
import { Channel } from "./table/table.js";
import { Tiers } from "./tiers/tiers.js";

/** @typedef {import("../exact.js").Fraction} Fraction */
/** @typedef {import("../index.js").RandomWords} RandomWords */
/** @typedef {import("./levels.js").Audit} Audit */
/** @typedef {import("./levels.js").Belief} Belief */
/** @typedef {import("./levels.js").Notion} Notion */
/** @typedef {import("../prior.js").Prior} Prior */
/** @typedef {import("../prior.js").PriorSet} PriorSet */
/** @typedef {import("../read.js").Meter} Meter */
/** @typedef {import("./set_levels.js").SetLevels} SetLevels */

/**
 * @typedef {object} Mechanism how an answer becomes a report
 * @property {string} kind its name in a plan
 * @property {number | null} nPossibleReports how many different reports there are; null where they are too many to list
 * @property {(prior: Prior) => Audit} audit the levels under the prior
 * @property {(prior: Prior, notion: Notion, epsilon: Fraction) => boolean} keeps whether it keeps a promise, exactly
 * @property {(priorSet: PriorSet) => SetLevels} setLevels both sides of LIP for the worst prior of a set around its own
 * @property {(prior: Prior, x: number) => Belief} belief a range in which a report can put the belief in value x
 * @property {(report: number) => boolean} canSend whether there is such a report, of integers from 0
 * @property {(report: number) => number | null} label the value that is the best guess after a report, or null
 * @property {(x: number, report: number) => Fraction | null} likelihood Pr(report | x), or null if not written out
 */

/**
 * @typedef {object} Sampler the mechanisms of one kind in a plan, ready to draw reports
 * @property {(member: number, x: number, words: RandomWords) => number} one the report of the member-th for value x
 */

/**
 * @typedef {object} Kind a class of mechanisms
 * @property {string} kind
 * @property {(data: Record<string, unknown>, prior: Prior, where: string, spend: Meter) => Mechanism} fromDict the
 *   mechanism that a plan holds; it spends what the audit will cost, and throws a PlanError for what can be none
 * @property {(mechanisms: readonly any[], priors: readonly Prior[]) => Sampler} sampler the randomizer of several
 */

/** @type {Readonly<Record<string, Kind>>} Every mechanism that a plan can hold. A new one is a folder and a line here. */
export const KINDS = Object.freeze({
  [Channel.kind]: Channel,
  [ManyValues.kind]: ManyValues,
  [BlockDesign.kind]: BlockDesign,
  [Tiers.kind]: Tiers,
});

/**
 * The mechanism in a plan.
 *
 * @param {unknown} data
 * @param {Prior} prior
 * @param {string} where
 * @param {Meter} spend
 */
export function readMechanism(data, prior, where, spend) {
  const mechanism = object(data, where);
  const kind = oneOf(mechanism.kind, `${where}.kind`, Object.keys(KINDS));
  return KINDS[kind].fromDict(mechanism, prior, where, spend);
}
