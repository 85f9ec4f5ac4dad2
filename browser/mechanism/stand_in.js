/**
 * Drawing reports by a rule for values with positive prior.
 *
 * A value with prior zero is replaced by a value drawn from the prior: its report says nothing about the answer.
 */

import { rank, runningSums } from "../exact.js";

/** @typedef {import("../index.js").RandomWords} RandomWords */
/** @typedef {import("../prior.js").Prior} Prior */

/** A stand-in is drawn with a word of this many bits. */
const STAND_IN_BITS = 64;

/** Positions in the domain to positions in the support. */
export class StandIn {
  #prior;

  /** @param {Prior} prior */
  constructor(prior) {
    this.#prior = prior;
  }

  /** The place of x, or of its stand-in, in the support. @param {number} x @param {RandomWords} words */
  one(x, words) {
    const { support, weights, total } = this.#prior;
    if (support.length === weights.length) return x;
    // Where the prior has zeros every answer takes this word: the number of words does not depend on the answer.
    const word = words.integer(STAND_IN_BITS);
    if (weights[x]) return support.indexOf(x);
    const edges = runningSums(support.map((y) => weights[y])).map((part) => (part << BigInt(STAND_IN_BITS)) / total);
    return rank(edges, word);
  }
}

/**
 * What draws a report from a value of the support and some words of `wordBits` bits.
 *
 * @typedef {object} Rule
 * @property {number} wordBits
 * @property {number} wordsPerReport
 * @property {(inside: number, words: readonly bigint[]) => number} draw
 */

/** Rules with their stand-ins, ready to draw. */
export class RuleSampler {
  #members;

  /** @param {readonly Rule[]} rules @param {readonly Prior[]} priors */
  constructor(rules, priors) {
    this.#members = rules.map((rule, i) => ({ rule, standIn: new StandIn(priors[i]) }));
  }

  /** One respondent's report. @param {number} member @param {number} x @param {RandomWords} words */
  one(member, x, words) {
    const { rule, standIn } = this.#members[member];
    const inside = standIn.one(x, words);
    return rule.draw(
      inside,
      Array.from({ length: rule.wordsPerReport }, () => words.integer(rule.wordBits)),
    );
  }
}
