/**
 * What an audit says: exact ratios, whose logarithms are the levels, and the ranges of beliefs.
 *
 * Names are those of `tacit.mechanism.levels`, which also finds witnesses and mutual information.
 */

import { atMostExp, fraction, larger, smaller } from "../exact.js";

/** @typedef {import("../exact.js").Fraction} Fraction */
/** @typedef {import("../prior.js").Prior} Prior */
/** @typedef {typeof NOTIONS[number]} Notion what a budget bounds */
/** @typedef {{prior: Fraction, low: Fraction, high: Fraction}} Belief from `prior` to between `low` and `high` */

/** All that a plan may promise. */
export const NOTIONS = /** @type {const} */ (["lip", "ldp"]);

/** The ratios that a mechanism reaches under a prior, or bounds of them, values by position; null is unbounded. */
export class Audit {
  /**
   * @param {object} found
   * @param {Fraction | null} found.lipUpper how far a report can raise a belief
   * @param {Fraction | null} found.lipLower how far it can lower one
   * @param {Fraction | null} found.ldp how far it can move odds, for every belief
   * @param {readonly number[]} found.outside the values with prior zero, about which nothing can be promised
   * @param {readonly number[]} found.exposed those of them whose holders may send a report that no one else sends
   */
  constructor({ lipUpper, lipLower, ldp, outside, exposed }) {
    this.lipUpper = lipUpper;
    this.lipLower = lipLower;
    this.ldp = ldp;
    this.outside = outside;
    this.exposed = exposed;
  }

  /** The worse of the two sides of LIP. */
  get lip() {
    return this.lipUpper && this.lipLower && larger(this.lipUpper, this.lipLower);
  }

  /** The ratio that a notion is about. @param {Notion} notion */
  ratio(notion) {
    return notion === "ldp" ? this.ldp : this.lip;
  }

  /** Whether the level of a notion is at most ε, exactly. @param {Notion} notion @param {Fraction} epsilon */
  holds(notion, epsilon) {
    const ratio = this.ratio(notion);
    return ratio !== null && atMostExp(ratio, epsilon);
  }
}

/**
 * The audit of a mechanism of which only bounds of the lifts are known: lowest ≤ lift ≤ highest.
 *
 * A person who holds a value with prior zero sends the report of a value drawn from the prior, so no one is exposed.
 *
 * @param {Prior} prior
 * @param {Fraction} highest
 * @param {Fraction} lowest
 */
export const boundedAudit = (prior, highest, lowest) =>
  new Audit({
    lipUpper: highest,
    lipLower: inverse(lowest),
    ldp: lowest.n ? fraction(highest.n * lowest.d, highest.d * lowest.n) : null,
    outside: prior.outside,
    exposed: [],
  });

/**
 * A range in which a report can put the belief in value x, from bounds of the lifts.
 *
 * @param {Prior} prior
 * @param {number} x
 * @param {Fraction} highest
 * @param {Fraction} lowest
 * @returns {Belief}
 */
export function boundedBelief(prior, x, highest, lowest) {
  const before = prior.probability(x);
  const moved = (/** @type {Fraction} */ lift) => fraction(before.n * lift.n, before.d * lift.d);
  return { prior: before, low: moved(lowest), high: smaller(fraction(1n), moved(highest)) };
}

/** One over a ratio; null for zero. @param {Fraction} ratio */
export const inverse = ({ n, d }) => (n ? fraction(d, n) : null);

/**
 * A function of a prior that is computed once for each.
 *
 * @template T
 * @param {(prior: Prior) => T} compute
 * @returns {(prior: Prior) => T}
 */
export function once(compute) {
  /** @type {WeakMap<Prior, {found: T}>} */
  const known = new WeakMap();
  return (prior) => {
    const { found } = known.get(prior) ?? { found: compute(prior) };
    known.set(prior, { found });
    return found;
  };
}
