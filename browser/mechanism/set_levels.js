/** Which privacy a mechanism gives for every prior of a set: `tacit.mechanism.set_levels`, without its witnesses. */

import { atMostExp, fraction, larger, largest, least, over } from "../exact.js";

/** @typedef {import("../exact.js").Fraction} Fraction */
/** @typedef {import("../prior.js").PriorSet} PriorSet */

/** Both sides of LIP at their worst over a set of priors: exact ratios or bounds of them; null is unbounded. */
export class SetLevels {
  /**
   * @param {Fraction | null} upper how far a report can raise a belief
   * @param {Fraction | null} lower how far it can lower one
   */
  constructor(upper, lower) {
    this.upper = upper;
    this.lower = lower;
  }

  /** The worse of the two sides. */
  get lip() {
    return worse(this.upper, this.lower);
  }

  /** Whether both levels are at most ε, exactly. @param {Fraction} epsilon */
  holds(epsilon) {
    return this.lip !== null && atMostExp(this.lip, epsilon);
  }
}

/**
 * The exact levels of a table: with w a column, over all priors P of the set,
 *
 *     upper = max over w of  max_x w_x / min P·w,      lower = max over w of  max P·w / min_x w_x
 *
 * where x runs over the support and w over the reports that are sent there.
 *
 * @param {readonly (readonly bigint[])[]} rows
 * @param {PriorSet} priorSet
 */
export function setLiftLevels(rows, priorSet) {
  const { support, weights } = priorSet.prior;
  if (rows.length !== weights.length) throw new RangeError("This channel was made for another prior.");
  /** @type {[Fraction | null, Fraction | null]} */
  let [upper, lower] = [fraction(0n), fraction(0n)];
  for (const y of rows[0].keys()) {
    const column = rows.map((row) => row[y]);
    const inside = support.map((x) => column[x]);
    const most = largest(inside);
    if (!most) continue;
    const [low, high] = priorSet.extremes(column);
    upper = worse(upper, over(fraction(most), low));
    lower = worse(lower, over(high, fraction(least(inside))));
  }
  return new SetLevels(upper, lower);
}

/** The larger of two ratios, of which null is unbounded. @param {Fraction | null} a @param {Fraction | null} b */
const worse = (a, b) => a && b && larger(a, b);
