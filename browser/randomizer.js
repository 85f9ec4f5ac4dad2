/** The randomizer of a plan: answers in, reports out. Every mechanism draws by its own rule, see mechanism.js. */

import { KINDS } from "./mechanism/kinds.js";

/** @typedef {import("./group.js").Group} Group */
/** @typedef {import("./index.js").RandomWords} RandomWords */

/** Numbers are rounded with a word of this many bits, of which the leading bits that a float can hold count. */
const ROUNDING_BITS = 64;
const FLOAT_BITS = 53;

/** The groups of a plan, ready to randomize: mechanisms of one kind share a sampler. */
export class Randomizer {
  /** @type {Map<number, (x: number, words: RandomWords) => number>} */
  #draws = new Map();

  /** @param {readonly Group[]} groups */
  constructor(groups) {
    for (const kind of Object.values(KINDS)) {
      const places = [...groups.keys()].filter((place) => groups[place].mechanism.kind === kind.kind);
      const members = places.map((place) => groups[place]);
      const sampler = kind.sampler(
        members.map((group) => group.mechanism),
        members.map((group) => group.prior),
      );
      for (const [member, place] of places.entries())
        this.#draws.set(place, (x, words) => sampler.one(member, x, words));
    }
  }

  /**
   * The report for value x of the group at a place in the plan.
   *
   * @param {number} place
   * @param {number} x
   * @param {RandomWords} words
   */
  report(place, x, words) {
    const draw = this.#draws.get(place);
    if (!draw) throw new RangeError("This plan has no group at that place.");
    return draw(x, words);
  }
}

/**
 * The position of the knot that a number between two of them is rounded to, at random, so that the mean is kept.
 *
 * With a ≤ x ≤ b the neighbours and u a word of 64 bits, x becomes b if ⌊u/2¹¹⌋ < ⌊2⁵³·(x − a)/(b − a)⌋, else a.
 *
 * @param {readonly number[]} knots ascending
 * @param {number} number from the first of them to the last
 * @param {RandomWords} words
 */
export function rounded(knots, number, words) {
  const below = placeBelow(knots, number);
  const part = (number - knots[below]) / (knots[below + 1] - knots[below]);
  const drawn = Number(words.integer(ROUNDING_BITS) >> BigInt(ROUNDING_BITS - FLOAT_BITS));
  return below + Number(drawn < Math.floor(part * 2 ** FLOAT_BITS));
}

/**
 * The positions of the knots that a number can become: its own, or two neighbours.
 *
 * @param {readonly number[]} knots
 * @param {number} number
 */
export function neighbours(knots, number) {
  const below = placeBelow(knots, number);
  return [below, below + 1].filter((_, i, both) => number !== knots[both[1 - i]]);
}

/**
 * The position of the last knot that is at most the number and not the last of all.
 *
 * @param {readonly number[]} knots
 * @param {number} number
 */
const placeBelow = (knots, number) =>
  Math.min(knots.filter((knot) => knot <= number).length - 1, knots.length - 2);
