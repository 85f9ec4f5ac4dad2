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
  /** @type {(number | undefined)[]} */
  #places = [];
  /** @type {bigint[] | null} null where no value has prior zero */
  #edges = null;

  /** @param {Prior} prior */
  constructor({ support, weights, total }) {
    for (const [place, x] of support.entries()) this.#places[x] = place;
    if (support.length < weights.length)
      this.#edges = runningSums(support.map((x) => weights[x])).map((part) => (part << BigInt(STAND_IN_BITS)) / total);
  }

  /** The place of x, or of its stand-in, in the support. @param {number} x @param {RandomWords} words */
  one(x, words) {
    if (this.#edges === null) return x;
    // Where the prior has zeros every answer takes a word and looks for a stand-in: neither depends on the answer.
    const standIn = rank(this.#edges, words.integer(STAND_IN_BITS));
    return this.#places[x] ?? standIn;
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
