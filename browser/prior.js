/** The prior, known before the answers: integer weights, probability = weight / total. */

import { fraction, gcd, order, sum } from "./exact.js";
import { bigInteger, each, expect } from "./read.js";

/** A prior, read from a plan. */
export class Prior {
  /** @param {unknown} data @param {string} where @param {number} size the number of values */
  constructor(data, where, size) {
    this.weights = each(data, where, bigInteger);
    this.total = sum(this.weights);
    expect(this.weights.length === size, where, `one weight for each of the ${size} values`);
    expect(this.total > 0n, where, "a list with a positive weight");
    expect(gcd(this.weights) === 1n, where, "weights without a common divisor");
    /** Positions of the values that a promise about beliefs covers. */
    this.support = [...this.weights.keys()].filter((x) => this.weights[x] > 0n);
    /** Positions of the others. */
    this.outside = [...this.weights.keys()].filter((x) => !this.weights[x]);
  }

  /** Whether all values are believed equally likely. */
  get isUniform() {
    return this.weights.every((weight) => weight === this.weights[0]);
  }

  /** P(x), exactly. @param {number} x */
  probability(x) {
    return fraction(this.weights[x], this.total);
  }

  /**
   * The first `count` positions of the support, or of some of it, the least likely first.
   *
   * @param {number} count
   */
  rarest(count, positions = this.support) {
    return [...positions].sort((a, b) => order(this.weights[a], this.weights[b])).slice(0, count);
  }
}
