/**
 * The orders of seeds: a public seed puts the pieces of the values in the order of their hashed keys.
 *
 * Its formulas: docs/plan.md; _shuffled.py.
 */

import { Circle } from "./circle.js";

const MULTIPLIER = 0x846ca68b;

/** A circle that seeds shuffle. */
export class ShuffledCircle extends Circle {
  /**
   * The pieces of a value, each after the cells of all pieces with smaller keys.
   *
   * @override
   * @param {number} inside
   * @param {number} order
   * @returns {readonly import("./circle.js").Stretch[]}
   */
  stretches(inside, order) {
    return Array.from({ length: this.pieces[inside] }, (_, i) => this.#stretch(inside, order, i));
  }

  /**
   * The same as for every circle, but only the piece that the word chooses is looked for: a value of many pieces takes
   * as long as one of a single piece.
   *
   * @override
   * @param {number} inside
   * @param {number} order
   * @param {bigint} word
   */
  cellOf(inside, order, word) {
    const cell = Number((word * BigInt(this.cells[inside])) >> BigInt(this.choiceBits));
    let i = this.pieces[inside] - 1;
    while (this.offset(inside, i) > cell) i--;
    const [start, , from] = this.#stretch(inside, order, i);
    return BigInt(start + cell - from);
  }

  /**
   * The i-th piece of a value.
   *
   * @param {number} inside
   * @param {number} order
   * @param {number} i
   * @returns {import("./circle.js").Stretch}
   */
  #stretch(inside, order, i) {
    const key = keyOf(order);
    const piece = this.firstPieces[inside] + i;
    const mine = key(piece);
    let start = 0;
    for (const [j, n] of this.pieceCells.entries()) start += key(j) < mine ? n : 0;
    return [start, this.pieceCells[piece], this.offset(inside, i)];
  }
}

/** The keys under a seed: on the circle the pieces lie in increasing order of keys. @param {number} seed */
export function keyOf(seed) {
  const multiplier = mix(seed ^ 0x9e3779b9) | 1;
  const offset = mix(seed + 0x51ed270b);
  return (/** @type {number} */ x) => {
    const mixed = (Math.imul(multiplier, x) + offset) | 0;
    return Math.imul(mixed ^ (mixed >>> 15), MULTIPLIER) >>> 0;
  };
}

/** A bijection of 32-bit integers in which every bit moves every bit. @param {number} number */
function mix(number) {
  let h = number | 0;
  h = Math.imul(h ^ (h >>> 16), 0x7feb352d);
  h = Math.imul(h ^ (h >>> 15), MULTIPLIER);
  return h ^ (h >>> 16);
}
