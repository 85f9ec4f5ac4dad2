/** Whoever holds a value with prior zero reports for a value drawn from the prior: that report says nothing. */

import { rank, runningSums } from "./exact.js";

/** @typedef {import("./index.js").RandomWords} RandomWords */
/** @typedef {import("./prior.js").Prior} Prior */

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
    if (weights[x]) return support.indexOf(x);
    const edges = runningSums(support.map((y) => weights[y])).map((part) => (part << BigInt(STAND_IN_BITS)) / total);
    return rank(edges, words.integer(STAND_IN_BITS));
  }
}
