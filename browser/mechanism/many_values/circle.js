/**
 * The circle of `many-values`: an arc of a circle on which a public order puts the values.
 *
 * Its formulas: docs/plan.md; the proof: _circle.py. A report is order · 2^B + position, with M cells on the circle; the arc
 * of L cells that starts there covers a part of the cells of each value, which lie on stretches of it. `inside` and
 * `cells` count the values on the circle only.
 */

import { ceilDivide, fraction, largest, least, order, sum } from "../../exact.js";

/** @typedef {object} Rule the integers of a circle
 * @property {number} arc L, the cells that an arc covers
 * @property {number} step how many α lead to each cell of the arc
 * @property {number} cellBits
 * @property {number} seedBits
 * @property {number} wordBits
 */

/** @typedef {readonly [start: number, size: number, first: number]} Stretch a run of consecutive cells on the circle:
 * where it starts, its length, and the first of the value's cells on it */

/** @typedef {object} CircleWeights how many words make values send a report at one position
 * @property {bigint} uniform those for which an ignored answer is sent at this position
 * @property {bigint} common of every value
 * @property {bigint} onArc the most words added for a value under the arc
 * @property {import("../../exact.js").Fraction} arc how many cells that covers
 * @property {import("../../exact.js").Fraction} rounding
 * @property {number | null} bin the bin that the report covers
 * @property {bigint} inBin the words added for its values
 */

/** A circle; `orders` and `stretches` are what its families differ in. */
export class Circle {
  /**
   * @param {readonly number[]} cells n_x, the cells of every value, each below 2^31
   * @param {Rule} rule
   */
  constructor(cells, { arc, step, cellBits, seedBits, wordBits }) {
    this.cells = cells;
    this.arc = BigInt(arc);
    this.step = BigInt(step);
    this.cellBits = cellBits;
    this.seedBits = seedBits;
    this.wordBits = wordBits;
    /** How many words a report takes. */
    this.words = 2;
    /** How many orders there are: one for each seed, unless a kind has fewer. */
    this.orders = 2 ** seedBits;
    /** W, the bits of a word beside the seed's. */
    this.choiceBits = wordBits - seedBits / 2;
    const room = cells.reduce((count, n) => count + n, 0);
    /** M, the cells of the circle. */
    this.circle = BigInt(room);
    /** How many α of 2^W ignore the value. */
    this.base = (1n << BigInt(this.choiceBits)) - this.arc * this.step;
    const limit = Math.max(arc, Math.floor(room / (2 * rootAbove(cells.length))));
    /** k_x, into how many pieces the cells of every value are cut: none is longer than the limit. */
    this.pieces = cells.map((n) => Math.ceil(n / limit));
    /** The number of every value's first piece. */
    this.firstPieces = runningCounts(this.pieces);
    /** The cells of every piece. */
    this.pieceCells = cells.flatMap((n, x) => Array.from({ length: this.pieces[x] }, (_, i) => this.#size(x, i, n)));
  }

  /** The first cell of piece i among those of a value: ⌊i n/k⌋. @param {number} inside @param {number} i */
  offset(inside, i) {
    // Cells are below 2^31 and pieces at most 4⌈√d⌉, so that the product is below 2^53.
    return Math.floor((i * this.cells[inside]) / this.pieces[inside]);
  }

  /** @param {number} inside @param {number} i @param {number} n */
  #size(inside, i, n) {
    return (i + 1 < this.pieces[inside] ? this.offset(inside, i + 1) : n) - this.offset(inside, i);
  }

  /**
   * Where a value lies under an order.
   *
   * @param {number} _inside
   * @param {number} _order
   * @returns {readonly Stretch[]}
   */
  stretches(_inside, _order) {
    throw new TypeError("A kind of circle has its own orders.");
  }

  /** The order that a seed chooses. @param {bigint} seed */
  orderOf(seed) {
    return (seed * BigInt(this.orders)) >> BigInt(this.seedBits);
  }

  /** The largest k_x. */
  get mostPieces() {
    return this.pieces.reduce((found, count) => Math.max(found, count));
  }

  /** Whether there are such an order and such a position. @param {number} report */
  canSend(report) {
    const size = 2 ** this.cellBits;
    return report < this.orders * size && report % size < Number(this.circle);
  }

  /** 2^−W max k_x: how far the mass under an arc can be from what it should be for the rounding of words. */
  get rounding() {
    return fraction(BigInt(this.mostPieces), 1n << BigInt(this.choiceBits));
  }

  /**
   * A bound of what the deviations of any arc's values add up to: under some order those of one sign come together.
   *
   * @param {readonly bigint[]} deviations
   */
  mostOff(deviations) {
    return largest([sum(deviations.filter((off) => off > 0n)), -sum(deviations.filter((off) => off < 0n))]);
  }

  /** The words for which values send a report, where positions have more words and where they have less. */
  reportWeights() {
    const words = 1n << BigInt(this.choiceBits);
    const { arc, base, circle, rounding, step } = this;
    return bothSides(words, circle).map((uniform) => {
      /** @type {CircleWeights} */
      const weights = { uniform, common: base * uniform, onArc: step * words, arc: fraction(arc), rounding, bin: null, inBin: 0n };
      return weights;
    });
  }

  /** Pr(report | value), exactly. @param {number} inside @param {number} report */
  likelihood(inside, report) {
    const pairs = this.wordPairs(inside, report);
    return fraction(this.#seeds(report) * pairs, 1n << BigInt(2 * this.choiceBits + this.seedBits));
  }

  /** The chance of a report if the value is ignored. @param {number} report */
  uniformLikelihood(report) {
    const position = BigInt(report % 2 ** this.cellBits);
    if (position >= this.circle) return fraction(0n);
    return fraction(this.#seeds(report) * this.uniform(position), 1n << BigInt(this.choiceBits + this.seedBits));
  }

  /** How many seeds choose the order of a report. @param {number} report */
  #seeds(report) {
    const below = (/** @type {bigint} */ order) => ceilDivide(order << BigInt(this.seedBits), BigInt(this.orders));
    const order = BigInt(Math.floor(report / 2 ** this.cellBits));
    return below(order + 1n) - below(order);
  }

  /** How many β have ⌊β·length/2^W⌋ < cells. @param {bigint} cells @param {bigint} length */
  below(cells, length) {
    return ceilDivide(cells << BigInt(this.choiceBits), length);
  }

  /** How many β give a position if the value is ignored. @param {bigint} position */
  uniform(position) {
    return this.below(position + 1n, this.circle) - this.below(position, this.circle);
  }

  /**
   * How many pairs (α, β) of 2^2W make a value send a report once its order is drawn.
   *
   * @param {number} inside
   * @param {number} report
   */
  wordPairs(inside, report) {
    const size = 2 ** this.cellBits;
    const [order, position] = [Math.floor(report / size), BigInt(report % size)];
    if (position >= this.circle) return 0n;
    const stretches = this.stretches(inside, order);
    const length = BigInt(lengthOf(stretches));
    let onArc = 0n;
    for (const [start, cells, first] of stretches) {
      for (const turn of [0n, this.circle]) {
        const ahead = BigInt(start) - position + turn;
        const begin = largest([0n, -ahead]);
        const end = least([BigInt(cells), this.arc - ahead]);
        if (begin < end) onArc += this.below(BigInt(first) + end, length) - this.below(BigInt(first) + begin, length);
      }
    }
    return this.base * this.uniform(position) + this.step * onArc;
  }

  /**
   * The report of a value: a pure function of two words.
   *
   * @param {number} inside
   * @param {readonly bigint[]} words
   */
  draw(inside, [first, second]) {
    const half = BigInt(this.seedBits / 2);
    const bits = BigInt(this.choiceBits);
    const low = (1n << half) - 1n;
    const order = this.orderOf(((first & low) << half) | (second & low));
    const [alpha, beta] = [first >> half, second >> half];
    const uniform = (beta * this.circle) >> bits;
    // Computed also where it is not sent: the time does not tell whether a report depends on the answer.
    const back = alpha < this.base ? 0n : (alpha - this.base) / this.step;
    const own = (this.cellOf(inside, Number(order), beta) - back + this.circle) % this.circle;
    return Number((order << BigInt(this.cellBits)) | (alpha < this.base ? uniform : own));
  }

  /**
   * The cell of a value that a word of `choiceBits` bits chooses.
   *
   * @param {number} inside
   * @param {number} order
   * @param {bigint} word
   */
  cellOf(inside, order, word) {
    const stretches = this.stretches(inside, order);
    const cell = (word * BigInt(lengthOf(stretches))) >> BigInt(this.choiceBits);
    const [start, , from] = /** @type {Stretch} */ ([...stretches].reverse().find((each) => BigInt(each[2]) <= cell));
    return BigInt(start) + cell - BigInt(from);
  }
}

/** ⌊words/cells⌋ and one more, where words are not shared out evenly. @param {bigint} words @param {bigint} cells */
export const bothSides = (words, cells) => (words % cells ? [words / cells, words / cells + 1n] : [words / cells]);

/** The cells on all stretches. @param {readonly Stretch[]} stretches */
const lengthOf = (stretches) => stretches.reduce((length, [, size]) => length + size, 0);

/**
 * Cells in proportion to the weights, at least one each, by largest remainders; earlier values win ties.
 *
 * A value whose share is less than a cell gets one; the others divide what is left, until every share is a cell.
 *
 * @param {readonly bigint[]} weights
 * @param {bigint} cells
 */
export function layOut(weights, cells) {
  const rising = [...weights.keys()].sort((a, b) => order(weights[a], weights[b]));
  let [total, room, small] = [sum(weights), cells, 0];
  // Without a small value the share of a cell only grows, so that one pass from the least on finds all of them.
  for (; weights[rising[small]] * room < total; small++) {
    total -= weights[rising[small]];
    room -= 1n;
  }
  const layout = weights.map(() => 1);
  const large = rising.slice(small).sort((a, b) => a - b);
  for (const x of large) layout[x] = Number((weights[x] * room) / total);
  const remainders = new Map(large.map((x) => [x, (weights[x] * room) % total]));
  const left = Number(cells) - layout.reduce((count, n) => count + n, 0);
  const remainder = (/** @type {number} */ x) => remainders.get(x) ?? 0n;
  for (const x of large.sort((a, b) => order(remainder(b), remainder(a))).slice(0, left)) layout[x] += 1;
  return layout;
}

/** ⌈√size⌉, for a size of at least one. @param {number} size */
function rootAbove(size) {
  let root = Math.floor(Math.sqrt(size - 1));
  while (root * root > size - 1) root--;
  while ((root + 1) * (root + 1) <= size - 1) root++;
  return root + 1;
}

/** For each count the sum of those before it. @param {readonly number[]} counts */
function runningCounts(counts) {
  let before = 0;
  return counts.map((count) => (before += count) - count);
}
