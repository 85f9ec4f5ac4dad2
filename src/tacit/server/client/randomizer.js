/** The randomizer of a plan: answers in, reports out. Every mechanism draws by its own rule, see mechanism.js. */

import { KINDS } from "./mechanism.js";

/** @typedef {import("./group.js").Group} Group */
/** @typedef {import("./index.js").RandomWords} RandomWords */

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
