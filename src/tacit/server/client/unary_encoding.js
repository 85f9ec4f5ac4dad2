/**
 * The mechanism `unary-encoding`: a bit for each value, the sender's own fair, the others set with a small chance.
 *
 * Its formulas: docs/plan.md; the reasons: unary_encoding.py.
 */

import { fraction } from "./exact.js";
import { PureProtocol } from "./pure_protocol.js";
import { expect, integer, onlyFields } from "./read.js";

/** @typedef {import("./mechanism.js").Mechanism} Mechanism */
/** @typedef {import("./prior.js").Prior} Prior */

/** Reports are below 2^53. */
const MAX_VALUES = 52;
const MAX_DIGITS = 32;

/** Unary encoding of the values of one prior. @implements {Mechanism} */
export class UnaryEncoding extends PureProtocol {
  static kind = "unary-encoding";
  kind = UnaryEncoding.kind;

  /** @param {Prior} prior @param {number} chance of 2^digits @param {number} digits */
  constructor(prior, chance, digits) {
    const size = prior.weights.length;
    super(prior, fraction(BigInt(2 ** digits - chance), BigInt(chance)), 2 ** size, [0, size]);
    this.chance = chance;
    this.digits = digits;
    /** A bit for each value. */
    this.wordBits = size;
    /** One for each digit, and one for the sender's own bit. */
    this.wordsPerReport = digits + 1;
  }

  /**
   * The encoding that a plan holds.
   *
   * @param {Record<string, unknown>} data
   * @param {Prior} prior
   * @param {string} where
   * @param {import("./read.js").Meter} spend
   */
  static fromDict(data, prior, where, spend) {
    onlyFields(data, where, ["kind", "chance", "digits"]);
    const size = prior.weights.length;
    expect(size > 1 && size <= MAX_VALUES, where, `for 2 to ${MAX_VALUES} values`);
    const digits = integer(data.digits, `${where}.digits`, 1, MAX_DIGITS);
    const chance = integer(data.chance, `${where}.chance`, 1, 2 ** MAX_DIGITS);
    expect(2 * chance < 2 ** digits, `${where}.chance`, "below a half");
    spend(size);
    return new UnaryEncoding(prior, chance, digits);
  }

  /**
   * The report of value x: a pure function of the words.
   *
   * @param {number} x
   * @param {readonly bigint[]} words
   */
  draw(x, words) {
    let bits = 0n;
    for (let digit = 0; digit < this.digits; digit++) {
      const isSet = (BigInt(this.chance) >> BigInt(digit)) & 1n;
      bits = isSet ? words[digit] | bits : words[digit] & bits;
    }
    const mine = 1n << BigInt(x);
    return Number((bits & ~mine) | (words[this.digits] & mine));
  }

  /** Pr(report | x), exactly. @param {number} x @param {number} report */
  likelihood(x, report) {
    const others = BigInt(report) & ~(1n << BigInt(x));
    const ones = BigInt(others.toString(2).replaceAll("0", "").length);
    const zeros = BigInt(this.wordBits - 1) - ones;
    const { n, d } = fraction(BigInt(this.chance), 1n << BigInt(this.digits));
    return fraction(n ** ones * (d - n) ** zeros, 2n * d ** (ones + zeros));
  }
}
