/**
 * The mechanism `table`: a row of integers over 2^w for each value, a column for each report.
 *
 * With A the rows, P the prior's integers over W and Λ_y = Σ P_x A_xy, the lift of x at y is A_xy·W / Λ_y.
 */

import { compare, fraction, larger, largest, least, runningSums, smaller, sum } from "./exact.js";
import { bigInteger, each, expect, integer, list } from "./read.js";

/** @typedef {import("./exact.js").Fraction} Fraction */
/** @typedef {import("./index.js").Words} Words */
/** @typedef {import("./prior.js").Prior} Prior */

/** Denominators are powers of two up to this exponent. */
const MAX_BITS = 1024;

/** A channel written out, read from a plan. */
export class Table {
  kind = /** @type {const} */ ("table");

  /**
   * @param {Record<string, unknown>} data
   * @param {string} where
   * @param {Prior} prior
   * @param {import("./read.js").Meter} spend
   */
  constructor(data, where, prior, spend) {
    const size = prior.weights.length;
    const denominator = bigInteger(data.denominator, `${where}.denominator`);
    this.bits = denominator.toString(2).length - 1;
    const isPower = denominator === 1n << BigInt(this.bits) && this.bits <= MAX_BITS;
    expect(isPower, `${where}.denominator`, `a power of two, at most 2^${MAX_BITS}`);
    this.labels = each(data.labels, `${where}.labels`, (label, at) => integer(label, at, 0, size - 1));
    spend(size * this.labels.length);
    expect(list(data.rows, `${where}.rows`).length === size, `${where}.rows`, `one row for each of the ${size} values`);
    this.rows = each(data.rows, `${where}.rows`, (row, at) => {
      const cells = each(row, at, bigInteger);
      expect(cells.length === this.labels.length, at, `as long as the labels, ${this.labels.length}`);
      expect(sum(cells) === denominator, at, "integers that sum to the denominator");
      return cells;
    });
    this.denominator = denominator;
    this.prior = prior;
    /** Λ_y for each report. */
    this.marginal = this.labels.map((_, y) => sum(prior.support.map((x) => prior.weights[x] * this.rows[x][y])));
    /** The reports that somebody can be expected to send. */
    this.sent = [...this.labels.keys()].filter((y) => this.marginal[y] > 0n);
  }

  /** How many different reports there are. */
  get nReports() {
    return this.labels.length;
  }

  /** The largest and the smallest lift, over values with positive prior and reports that are sent. */
  get lifts() {
    const { support, total } = this.prior;
    let [highest, lowest] = [fraction(0n), fraction(total)];
    for (const y of this.sent) {
      const column = support.map((x) => this.rows[x][y]);
      highest = larger(highest, fraction(largest(column) * total, this.marginal[y]));
      lowest = smaller(lowest, fraction(least(column) * total, this.marginal[y]));
    }
    return { highest, lowest };
  }

  /** The largest ratio of two answers' chances of one report, whatever is believed; null if unbounded. */
  get odds() {
    let worst = fraction(1n);
    for (const y of this.labels.keys()) {
      const column = this.rows.map((row) => row[y]);
      const most = largest(column);
      if (!most) continue;
      if (!least(column)) return null;
      worst = larger(worst, fraction(most, least(column)));
    }
    return worst;
  }

  /** The range in which a report can put the belief in value x. @param {number} x */
  belief(x) {
    const posteriors = this.sent.map((y) => fraction(this.prior.weights[x] * this.rows[x][y], this.marginal[y]));
    posteriors.sort(compare);
    return { low: posteriors[0], high: posteriors[posteriors.length - 1] };
  }

  /** Whether value x can send a report that nobody inside the guarantee sends. @param {number} x */
  exposes(x) {
    return this.rows[x].some((cell, y) => cell > 0n && !this.marginal[y]);
  }

  /**
   * The report for value x: the number of running sums of its row that are at most the word.
   *
   * @param {number} x
   * @param {Words} words
   * @param {number} wordBits the length of a word; of a longer one the leading bits count
   */
  draw(x, words, wordBits) {
    const word = words.integer(wordBits);
    const shift = BigInt(wordBits - this.bits);
    return runningSums(this.rows[x])
      .slice(1)
      .filter((edge) => edge << shift <= word).length;
  }

  /** Whether a report can occur. @param {number} report */
  has(report) {
    return report < this.labels.length;
  }

  /** Pr(report | x), exactly. @param {number} x @param {number} report @returns {Fraction} */
  chance(x, report) {
    return fraction(this.rows[x][report], this.denominator);
  }
}
