/**
 * The orders of a plane: values are points of a finite plane, and an order is a direction in it.
 *
 * Its formulas: docs/plan.md; _plane.py. Under order o piece j stands in the slot u_{o+j} of p slots, u a linear
 * recurrence mod p. In a slot lie first all light pieces that stand there, as one stretch, a line; then the others.
 */

import { Circle } from "./circle.js";
import { expect, integer } from "../../read.js";

const MAX_SLOTS = 251;
/** Limits for collectors: places of stretches that are computed in advance, and steps to compute J. */
const MOST_PLACES = 2 ** 23;
const MOST_WORK = 2 ** 28;
/** The groups of a plan mostly share one recurrence: the last ones are kept. @type {Map<string, Uint16Array>} */
const KNOWN = new Map();
const MOST_KNOWN = 16;

/** A circle in the orders of a plane. */
export class PlaneCircle extends Circle {
  /**
   * @param {readonly number[]} cells
   * @param {import("./circle.js").Rule} rule
   * @param {object} plane
   * @param {number} plane.slots p
   * @param {Uint16Array} plane.terms u_0, …, as many as one period
   * @param {number} plane.light values of fewer cells share the stretch of their line
   */
  constructor(cells, rule, { slots, terms, light }) {
    super(cells, rule);
    this.slots = slots;
    this.light = light;
    this.orders = terms.length / 2;
    this.#terms = terms;
    /** The value of every piece. */
    this.owners = this.pieces.flatMap((count, inside) => Array.from({ length: count }, () => inside));
  }

  #terms;

  /**
   * The circle that a plan holds.
   *
   * @param {Record<string, unknown>} data
   * @param {readonly number[]} cells
   * @param {import("./circle.js").Rule} rule
   * @param {string} where
   * @param {import("../../read.js").Meter} spend
   */
  static fromDict(data, cells, rule, where, spend) {
    const slots = integer(data.slots, `${where}.slots`, 3, MAX_SLOTS);
    expect(isPrime(slots), `${where}.slots`, "an odd prime");
    const first = integer(data.first, `${where}.first`, 0, slots - 1);
    const second = integer(data.second, `${where}.second`, 0, slots - 1);
    const light = integer(data.light, `${where}.light`, 0, rule.arc);
    const terms = knownTerms(slots, first, second, spend);
    if (terms === null) expect(false, `${where}.first`, "a coefficient with which the recurrence meets all states");
    const circle = new PlaneCircle(cells, rule, { slots, terms: /** @type {Uint16Array} */ (terms), light });
    expect(circle.orders <= 2 ** rule.seedBits, `${where}.seed_bits`, "enough to reach all orders");
    const own = circle.owners.filter((inside) => !circle.isLight(inside)).length;
    const stretches = own + (own < circle.owners.length ? slots : 0);
    const places = circle.orders * stretches;
    const work = (BigInt(places * stretches) * circle.arc) / circle.circle;
    const holds = circle.owners.length < slots * slots && places <= MOST_PLACES && work <= MOST_WORK;
    expect(holds, `${where}.slots`, "enough, and not too many");
    return circle;
  }

  /** Whether a value shares its stretch; it is in one piece then. @param {number} inside */
  isLight(inside) {
    return this.cells[inside] < this.light;
  }

  /** The slot of a piece under an order. @param {number} order @param {number} piece */
  slotOf(order, piece) {
    return this.#terms[(order + piece) % this.#terms.length];
  }

  /**
   * The line of a light value, or the value's own pieces.
   *
   * @override
   * @param {number} inside
   * @param {number} order
   * @returns {readonly import("./circle.js").Stretch[]}
   */
  stretches(inside, order) {
    const lines = new Array(this.slots).fill(0);
    const inSlots = new Array(this.slots).fill(0);
    for (const [j, n] of this.pieceCells.entries()) {
      const slot = this.slotOf(order, j);
      inSlots[slot] += n;
      if (this.isLight(this.owners[j])) lines[slot] += n;
    }
    let before = 0;
    const starts = inSlots.map((n) => (before += n) - n);
    const first = this.firstPieces[inside];
    /** @type {import("./circle.js").Stretch[]} */
    const found = [];
    const next = starts.map((start, slot) => start + lines[slot]);
    for (const [j, n] of this.pieceCells.entries()) {
      if (this.isLight(this.owners[j])) continue;
      const slot = this.slotOf(order, j);
      if (this.owners[j] === inside) found.push([next[slot], n, this.offset(inside, j - first)]);
      next[slot] += n;
    }
    const line = this.slotOf(order, first);
    return this.isLight(inside) ? [[starts[line], lines[line], 0]] : found;
  }
}

/** @param {number} number */
function isPrime(number) {
  for (let divisor = 2; divisor * divisor <= number; divisor++) if (number % divisor === 0) return false;
  return number > 1;
}

/**
 * `termsOf`, which spends what it costs, unless they are known.
 *
 * @param {number} slots
 * @param {number} first
 * @param {number} second
 * @param {import("../../read.js").Meter} spend
 */
function knownTerms(slots, first, second, spend) {
  const name = [slots, first, second].join();
  const known = KNOWN.get(name);
  if (known) return known;
  spend(slots * slots);
  const terms = termsOf(slots, first, second);
  if (terms !== null) {
    if (KNOWN.size === MOST_KNOWN) KNOWN.clear();
    KNOWN.set(name, terms);
  }
  return terms;
}

/**
 * One period of the recurrence u_{n+2} = first·u_n + second·u_{n+1} mod p from 0, 1 on; null if it returns too early.
 *
 * @param {number} slots
 * @param {number} first
 * @param {number} second
 */
function termsOf(slots, first, second) {
  const period = slots * slots - 1;
  const terms = new Uint16Array(period);
  let [here, next] = [0, 1];
  for (let n = 0; n < period; n++) {
    if (n > 0 && here === 0 && next === 1) return null;
    terms[n] = here;
    [here, next] = [next, (first * here + second * next) % slots];
  }
  return here === 0 && next === 1 ? terms : null;
}
