/**
 * What the circles have in common: an arc of a circle on which a public order puts the values.
 *
 * Their formulas: docs/plan.md; the proof: circle_rule.py. A report is order · 2^B + position, with M cells on the circle;
 * the arc of L cells that starts there covers a part of the cells of each value, which lie on stretches of it. `inside`
 * and `cells` count the values with positive prior only.
 */

import { ceilDivide, fraction, larger, largest, least, minus, order, over, plus, smaller, sum } from "../../exact.js";
import { Audit, boundedAudit, boundedBelief, inverse } from "../levels.js";
import { expect, integer } from "../../read.js";
import { SetLevels } from "../set_levels.js";

/** @typedef {import("../../exact.js").Fraction} Fraction */
/** @typedef {import("../levels.js").Notion} Notion */
/** @typedef {import("../../prior.js").Prior} Prior */

/** A report holds an order and a position, in so many bits. */
const REPORT_BITS = 52;
const MAX_CELL_BITS = 30;
const MAX_SEED_BITS = 32;
const MAX_WORD_BITS = 64;

/** @typedef {object} Rule the integers of a circle
 * @property {number} arc L, the cells that a report covers
 * @property {number} step how many α lead to each cell of the arc
 * @property {number} cellBits
 * @property {number} seedBits
 * @property {number} wordBits
 */

/** @typedef {readonly [start: number, size: number, first: number]} Stretch a run of consecutive cells on the circle:
 * where it starts, its length, and the first of the value's cells on it */

/** A circle for one prior; `orders` and `stretches` are what kinds differ in. */
export class Circle {
  wordsPerReport = 2;
  /** Orders and positions are too many to be listed. */
  nPossibleReports = null;
  #prior;

  /**
   * @param {Prior} prior
   * @param {Rule} rule
   */
  constructor(prior, { arc, step, cellBits, seedBits, wordBits }) {
    this.#prior = prior;
    this.arc = BigInt(arc);
    this.step = BigInt(step);
    this.cellBits = cellBits;
    this.seedBits = seedBits;
    this.wordBits = wordBits;
    /** How many orders there are: one for each seed, unless a kind has fewer. */
    this.orders = 2 ** seedBits;
    /** W, the bits of a word beside the seed's. */
    this.choiceBits = wordBits - seedBits / 2;
    /** M, the cells of the circle: one for each value, or else at least twice as many. */
    this.circle = BigInt(circleOf(prior.support.length, cellBits));
    /** How many α of 2^W ignore the value. */
    this.base = (1n << BigInt(this.choiceBits)) - this.arc * this.step;
    const weights = prior.support.map((x) => prior.weights[x]);
    /** n_x, the cells of every value, each below 2^31. */
    this.cells = layOut(weights, this.circle);
    const more = sum(this.cells.map((n, x) => largest([0n, BigInt(n) * prior.total - weights[x] * this.circle])));
    /** δ = ½ Σ |n_x/M − P_x|. */
    this.cellError = fraction(more, this.circle * prior.total);
    const limit = Math.max(arc, Math.floor(Number(this.circle) / (2 * rootAbove(this.cells.length))));
    /** k_x, into how many pieces the cells of every value are cut: none is longer than the limit. */
    this.pieces = this.cells.map((n) => Math.ceil(n / limit));
    /** The number of every value's first piece. */
    this.firstPieces = runningCounts(this.pieces);
    /** The cells of every piece. */
    this.pieceCells = this.cells.flatMap((n, x) => Array.from({ length: this.pieces[x] }, (_, i) => this.#size(x, i, n)));
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

  /** ⌊2^W/M⌋: so many β, or one more, give each position to those who ignore the value. */
  get uniformWords() {
    return (1n << BigInt(this.choiceBits)) / this.circle;
  }

  /** A bound of the ratio of the likelihoods of two values. */
  get odds() {
    const ignored = this.base * this.uniformWords;
    return fraction(ignored + (this.step << BigInt(this.choiceBits)), ignored);
  }

  /** δ + 2^−W max k_x: how far the covered mass can be from m. */
  get slack() {
    const most = this.pieces.reduce((found, count) => Math.max(found, count));
    return plus(this.cellError, fraction(BigInt(most), 1n << BigInt(this.choiceBits)));
  }

  /**
   * Bounds of the lifts under every prior within total variation `radius`; `CircleRule.lift_range` proves them.
   *
   * @param {Fraction} [radius]
   */
  liftRange(radius = fraction(0n)) {
    const off = plus(radius, this.slack);
    const share = fraction(this.arc, this.circle);
    const fewest = larger(fraction(0n), minus(share, off));
    const most = smaller(fraction(1n), plus(share, off));
    // A likelihood, of which a value has the share `covered` of its words on the arc, or the mean of all has.
    const all = this.step << BigInt(this.choiceBits);
    const mean = (/** @type {Fraction} */ covered) =>
      fraction(this.base * this.uniformWords * covered.d + all * covered.n, covered.d);
    const highest = /** @type {Fraction} */ (over(mean(fraction(1n)), mean(fewest)));
    const lowest = /** @type {Fraction} */ (over(mean(fraction(0n)), mean(most)));
    return { highest, lowest };
  }

  /** Bounds of the levels. @param {Prior} prior */
  audit(prior) {
    this.#checkPrior(prior);
    const { highest, lowest } = this.liftRange();
    return new Audit({ ...boundedAudit(prior, highest, lowest), ldp: this.odds });
  }

  /** Whether the bounds keep a promise. @param {Prior} prior @param {Notion} notion @param {Fraction} epsilon */
  keeps(prior, notion, epsilon) {
    return this.audit(prior).holds(notion, epsilon);
  }

  /**
   * Bounds of the levels under every prior as far from the nominal one as the set reaches.
   *
   * @param {import("../../prior_set.js").PriorSet} priorSet
   */
  setLevels(priorSet) {
    this.#checkPrior(priorSet.prior);
    const { highest, lowest } = this.liftRange(priorSet.radius);
    return new SetLevels(highest, inverse(lowest));
  }

  /** A range in which a report can put the belief in value x. @param {Prior} prior @param {number} x */
  belief(prior, x) {
    this.#checkPrior(prior);
    const { highest, lowest } = this.liftRange();
    return boundedBelief(prior, x, highest, lowest);
  }

  /** @param {Prior} prior */
  #checkPrior(prior) {
    if (prior !== this.#prior) throw new RangeError("This mechanism was made for another prior.");
  }

  /** Whether there are such an order and such a position. @param {number} report */
  canSend(report) {
    const size = 2 ** this.cellBits;
    return report < this.orders * size && report % size < Number(this.circle);
  }

  /** No report is the best guess of one value: it says how beliefs in all of them move. */
  label() {
    return null;
  }

  /** Pr(report | x), exactly; null for a value with prior zero. @param {number} x @param {number} report */
  likelihood(x, report) {
    const inside = this.#prior.support.indexOf(x);
    if (inside < 0) return null;
    const below = (/** @type {bigint} */ order) => ceilDivide(order << BigInt(this.seedBits), BigInt(this.orders));
    const order = BigInt(Math.floor(report / 2 ** this.cellBits));
    const seeds = below(order + 1n) - below(order);
    return fraction(seeds * this.wordPairs(inside, report), 1n << BigInt(2 * this.choiceBits + this.seedBits));
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
    const bits = BigInt(this.choiceBits);
    const below = (/** @type {bigint} */ cells, /** @type {bigint} */ length) => ceilDivide(cells << bits, length);
    const stretches = this.stretches(inside, order);
    const length = BigInt(lengthOf(stretches));
    let onArc = 0n;
    for (const [start, cells, first] of stretches) {
      for (const turn of [0n, this.circle]) {
        const ahead = BigInt(start) - position + turn;
        const begin = largest([0n, -ahead]);
        const end = least([BigInt(cells), this.arc - ahead]);
        if (begin < end) onArc += below(BigInt(first) + end, length) - below(BigInt(first) + begin, length);
      }
    }
    const uniform = below(position + 1n, this.circle) - below(position, this.circle);
    return this.base * uniform + this.step * onArc;
  }

  /**
   * The report of a value inside the support: a pure function of two words.
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

/** The cells on all stretches. @param {readonly Stretch[]} stretches */
const lengthOf = (stretches) => stretches.reduce((length, [, size]) => length + size, 0);

/**
 * The integers that a plan holds of every circle.
 *
 * @param {Record<string, unknown>} data
 * @param {Prior} prior
 * @param {string} where
 * @param {import("../../read.js").Meter} spend
 * @param {(seedBits: number) => number} orders how many orders there are
 * @returns {Rule}
 */
export function readRule(data, prior, where, spend, orders) {
  const cellBits = integer(data.cell_bits, `${where}.cell_bits`, 1, MAX_CELL_BITS);
  const seedBits = integer(data.seed_bits, `${where}.seed_bits`, 0, MAX_SEED_BITS);
  const wordBits = integer(data.word_bits, `${where}.word_bits`, 1, MAX_WORD_BITS);
  const choiceBits = wordBits - seedBits / 2;
  const circle = circleOf(prior.support.length, cellBits);
  const seedFits = seedBits % 2 === 0 && orders(seedBits) * 2 ** cellBits <= 2 ** REPORT_BITS;
  expect(seedFits, `${where}.seed_bits`, "even, and leave a position");
  expect(cellBits <= choiceBits && choiceBits <= REPORT_BITS, `${where}.word_bits`, "long enough, and not too long");
  expect(prior.support.length <= 2 ** cellBits, `${where}.cell_bits`, "enough to give every value a cell");
  const arc = integer(data.arc, `${where}.arc`, 1, circle - 1);
  const step = integer(data.step, `${where}.step`, 1, Number.MAX_SAFE_INTEGER);
  expect(BigInt(arc) * BigInt(step) < 1n << BigInt(choiceBits), `${where}.step`, "small enough to leave a base");
  spend(prior.support.length);
  return { arc, step, cellBits, seedBits, wordBits };
}

/** The fields of every circle. */
export const RULE_FIELDS = ["kind", "arc", "step", "cell_bits", "seed_bits", "word_bits"];

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

/** M: where 2^B cells leave no room to follow the prior, one for each value. @param {number} size @param {number} bits */
const circleOf = (size, bits) => (2 ** bits < 2 * size ? size : 2 ** bits);

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
