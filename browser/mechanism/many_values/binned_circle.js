/**
 * The circle for the aim `mmse`: heavy values whole in bins, the others on a ring in one order.
 *
 * Its formulas: docs/plan.md; the proof: _binned.py. A report is order · 2^B + position: order j covers bin j and an arc of the
 * ring, the last order an arc only.
 */

import { ceilDivide, fraction, largest, least, minus, plus, rank, runningSums, times } from "../../exact.js";
import { expect } from "../../read.js";
import { bothSides, Circle } from "./circle.js";

/** Each of the heavy values looks for room in the bins: at most this many looks. */
const MOST_LOOKS = 2 ** 27;

/** Bins and a ring. */
export class BinnedCircle extends Circle {
  /**
   * @param {readonly number[]} cells
   * @param {import("./circle.js").Rule} rule
   * @param {number} bins K
   * @param {number} heavy how many of the heaviest values look for room in the bins
   */
  constructor(cells, rule, bins, heavy) {
    super(cells, rule);
    this.words = 4;
    this.bins = bins;
    const room = Array.from({ length: bins }, () => rule.arc);
    /** The bin of every value; −1 on the ring. @type {number[]} */
    this.binOf = cells.map(() => -1);
    const falling = [...cells.keys()].sort((a, b) => cells[b] - cells[a] || a - b);
    for (const x of falling.slice(0, heavy)) {
      const j = room.findIndex((free) => free >= cells[x]);
      if (j < 0) continue;
      room[j] -= cells[x];
      this.binOf[x] = j;
    }
    /** ℓ, the arc of every order. */
    this.arcs = [...room, rule.arc].map(BigInt);
    let ring = 0;
    /** The first cell of every value on the ring; 0 of the others. */
    this.starts = cells.map((n, x) => (this.binOf[x] < 0 ? (ring += n) - n : 0));
    /** R, the cells of the ring. */
    this.ring = BigInt(ring);
    const one = 1n << BigInt(this.choiceBits);
    /** σ, the words τ of every cell of an arc. */
    this.steps = this.arcs.map((arc) => ceilDivide(one, arc || 1n));
    const left = this.circle - BigInt(bins) * this.arc;
    this.orders = left > 0n ? bins + 1 : bins;
    /** The first γ of every order if the answer is ignored. */
    this.forAll = this.#edges(this.arcs.map((_, j) => (j < bins ? this.arc : left)));
    /** The same for a value on the ring that is not ignored. */
    this.forRing = this.#edges(this.arcs.map((arc, j) => (j < bins ? arc : left)));
  }

  /**
   * The circle of a plan.
   *
   * @param {readonly number[]} cells
   * @param {import("./circle.js").Rule} rule
   * @param {number} bins
   * @param {number} heavy
   * @param {string} where
   * @param {import("../../read.js").Meter} spend
   */
  static of(cells, rule, bins, heavy, where, spend) {
    const room = cells.reduce((count, n) => count + n, 0);
    expect(rule.seedBits === 0, `${where}.seed_bits`, "0 with bins");
    expect(bins * rule.arc <= room, `${where}.bins`, "few enough");
    expect(heavy <= cells.length && heavy * bins <= MOST_LOOKS, `${where}.heavy`, "not too many");
    spend(heavy + bins);
    const made = new BinnedCircle(cells, rule, bins, heavy);
    const longest = largest(made.arcs.slice(0, made.orders));
    expect(made.ring > 0n && longest <= made.ring, `${where}.heavy`, "few enough to leave an arc on the ring");
    expect(least(made.#wordsOf(made.forAll)) > 0n, `${where}.word_bits`, "long enough for these bins");
    return made;
  }

  /** Where the words of each order begin that share a line. @param {readonly bigint[]} line */
  #edges(line) {
    const sums = runningSums(line.slice(0, this.orders));
    return sums.slice(0, -1).map((part) => ceilDivide(part << BigInt(this.choiceBits), sums[this.orders]));
  }

  /** How many γ lead to every order. @param {readonly bigint[]} edges */
  #wordsOf(edges) {
    return [...edges.slice(1), 1n << BigInt(this.choiceBits)].map((end, i) => end - edges[i]);
  }

  /** |e_x|/2^w. @override */
  get rounding() {
    return fraction(2n, 1n << BigInt(this.choiceBits));
  }

  /**
   * Along the ring deviations are running sums: an arc has the difference of two, or all less that.
   *
   * @override
   * @param {readonly bigint[]} deviations
   */
  mostOff(deviations) {
    let [low, high, running] = [0n, 0n, 0n];
    for (const [x, off] of deviations.entries()) {
      if (this.binOf[x] >= 0) continue;
      running += off;
      low = running < low ? running : low;
      high = running > high ? running : high;
    }
    return high - low + (running < 0n ? -running : running);
  }

  /** @override */
  reportWeights() {
    const one = 1n << BigInt(this.choiceBits);
    const kept = this.arc * this.step;
    const [ofAll, ofRing] = [this.#wordsOf(this.forAll), this.#wordsOf(this.forRing)];
    return ofAll.flatMap((forAll, order) =>
      bothSides(one, this.ring).map((b) => {
        const uniform = b * forAll * one;
        const inBin = order < this.bins;
        /** @type {import("./circle.js").CircleWeights} */
        const weights = {
          uniform,
          common: this.base * uniform,
          onArc: kept * ofRing[order] * this.steps[order] * one,
          arc: fraction(one, this.steps[order]),
          rounding: this.rounding,
          bin: inBin ? order : null,
          inBin: inBin ? kept * b * one * one : 0n,
        };
        return weights;
      }),
    );
  }

  /** Whether there are such an order and such a position. @override @param {number} report */
  canSend(report) {
    const size = 2 ** this.cellBits;
    return report < this.orders * size && report % size < Number(this.ring);
  }

  /** How many β give a position. @override @param {bigint} position */
  uniform(position) {
    return this.below(position + 1n, this.ring) - this.below(position, this.ring);
  }

  /** The chance of a report if the value is ignored. @override @param {number} report */
  uniformLikelihood(report) {
    if (!this.canSend(report)) return fraction(0n);
    const [order, position] = [Math.floor(report / 2 ** this.cellBits), BigInt(report % 2 ** this.cellBits)];
    return fraction(this.#wordsOf(this.forAll)[order] * this.uniform(position), 1n << BigInt(2 * this.choiceBits));
  }

  /** Pr(report | value), exactly. @override @param {number} inside @param {number} report */
  likelihood(inside, report) {
    const one = 1n << BigInt(this.choiceBits);
    const ignored = fraction(this.base, one);
    const whole = times(ignored, this.uniformLikelihood(report));
    if (!this.canSend(report)) return whole;
    const heard = minus(fraction(1n), ignored);
    const [order, position] = [Math.floor(report / 2 ** this.cellBits), BigInt(report % 2 ** this.cellBits)];
    if (this.binOf[inside] >= 0) {
      return order === this.binOf[inside] ? plus(whole, times(heard, fraction(this.uniform(position), one))) : whole;
    }
    const step = this.steps[order];
    const [cells, rest] = [one / step, one % step];
    const pairs = step * this.#onto(inside, position, cells) + rest * this.#onto(inside, position + cells, 1n);
    return plus(whole, times(heard, fraction(this.#wordsOf(this.forRing)[order] * pairs, one * one * one)));
  }

  /**
   * How many β pick a cell of a value on an arc of the ring.
   *
   * @param {number} inside
   * @param {bigint} position
   * @param {bigint} arc
   */
  #onto(inside, position, arc) {
    const size = BigInt(this.cells[inside]);
    let words = 0n;
    for (const turn of [0n, this.ring]) {
      const first = BigInt(this.starts[inside]) - (position % this.ring) + turn;
      const [begin, end] = [largest([0n, -first]), least([size, arc - first])];
      if (begin < end) words += this.below(end, size) - this.below(begin, size);
    }
    return words;
  }

  /**
   * The report of a value: a pure function of four words. All ways are computed: the time does not depend on the answer.
   *
   * @override
   * @param {number} inside
   * @param {readonly bigint[]} words
   */
  draw(inside, [alpha, beta, gamma, tau]) {
    const bits = BigInt(this.choiceBits);
    const own = this.binOf[inside];
    const [ofAll, ofRing] = [rank(this.forAll, gamma), rank(this.forRing, gamma)];
    const uniform = (beta * this.ring) >> bits;
    const cell = BigInt(this.starts[inside]) + ((beta * BigInt(this.cells[inside])) >> bits);
    const onto = (((cell - tau / this.steps[ofRing]) % this.ring) + this.ring) % this.ring;
    const ignored = alpha < this.base;
    const order = ignored ? ofAll : own >= 0 ? own : ofRing;
    return order * 2 ** this.cellBits + Number(ignored || own >= 0 ? uniform : onto);
  }
}
