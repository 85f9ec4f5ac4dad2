/**
 * The mechanism `core-tail`: a rule for any number of values; docs/plan.md has its formulas, core_tail.py its proof.
 *
 * A report is a state, which covers some heavy values (the core), and a position on a circle of M cells on which every
 * other value (the tail) has a segment. Positions in `core` and `tail` count the values with positive prior only.
 */

import { ceilDivide, floorDivide, fraction, gcd, larger, largest, least, runningSums, smaller, sum } from "./exact.js";
import { each, expect, integer, list, rational, text } from "./read.js";

/** @typedef {import("./exact.js").Fraction} Fraction */
/** @typedef {import("./index.js").Words} Words */
/** @typedef {import("./prior.js").Prior} Prior */

/** Coverage is counted in units of 2^-48. */
const UNIT = 2 ** 48;
/** A report is state · 2^32 + position, and below 2^53. */
const POSITIONS = 2 ** 32;
const MAX_STATES = 2 ** 20;
/** A stand-in for a value of prior zero is drawn with a word of this many bits. */
const STAND_IN_BITS = 64;

/** A core-and-tail channel, read from a plan. */
export class CoreTail {
  kind = /** @type {const} */ ("core-tail");
  nReports = null;

  /**
   * @param {Record<string, unknown>} data
   * @param {string} where
   * @param {Prior} prior
   * @param {import("./read.js").Meter} spend
   */
  constructor(data, where, prior, spend) {
    this.prior = prior;
    this.weights = prior.support.map((x) => prior.weights[x]);
    const most = this.weights.length - 1;
    this.core = each(data.core, `${where}.core`, (x, at) => integer(x, at, 0, most), 0);
    const ascending = this.core.every((x, i) => i === 0 || this.core[i - 1] < x) && this.core.length <= most;
    expect(ascending, `${where}.core`, "ascending positions that leave a value to the tail");
    const inCore = new Set(this.core);
    this.tail = [...this.weights.keys()].filter((x) => !inCore.has(x));
    const share = rational(data.share, `${where}.share`);
    const growth = rational(data.growth, `${where}.growth`);
    expect(share.n > 0n && share.n < share.d, `${where}.share`, "between 0 and 1");
    expect(growth.n > 0n, `${where}.growth`, "positive");
    this.wordBits = integer(data.word_bits, `${where}.word_bits`, 2, 64);
    const count = list(data.states, `${where}.states`).length;
    expect(count <= MAX_STATES, `${where}.states`, `at most ${MAX_STATES}`);
    spend(this.weights.length + count * (this.core.length + 1));
    const states = each(data.states, `${where}.states`, (state, at) => readState(state, at, this.core.length));
    this.circle = layCircle(
      this.tail.map((x) => this.weights[x]),
      this.wordBits,
    );
    this.rule = this.#rule(states, share, growth);
    this.lifts = this.#lifts();
    this.odds = oddsOf(this.lifts);
  }

  /**
   * The words of each choice: `edges` by row (core values, then the tail) and state, `base` and `step` by state.
   *
   * @param {State[]} states
   * @param {Fraction} share
   * @param {Fraction} growth
   */
  #rule(states, share, growth) {
    const unit = BigInt(UNIT);
    const size = 1n << BigInt(this.wordBits);
    const wanted = sum(this.weights) * unit * share.n;
    const tail = states.map(({ units }) => {
      const mass = sum(this.core.map((x, place) => this.weights[x] * units[place]));
      const covered = floorDivide(wanted - mass * share.d, this.circle.total * share.d);
      return least([largest([covered, 0n]), unit]);
    });
    const coverage = [...this.core.map((_, place) => states.map(({ units }) => units[place])), tail];
    const edges = coverage.map((units) => {
      const sums = runningSums(units.map((n, j) => states[j].weight * (growth.d * unit + growth.n * n)));
      return sums.map((part) => (part * size) / sums[sums.length - 1]);
    });
    const base = tail.map((n) => ceilDivide(size * growth.d * unit, growth.d * unit + growth.n * n));
    const step = base.map((words) => ceilDivide(words * growth.n, growth.d * this.circle.cells));
    return { edges, base, step };
  }

  /** Bounds of the largest and the smallest lift, all times M; core_tail.py derives them at `CoreTail.levels`. */
  #lifts() {
    const { edges, base, step } = this.rule;
    const { cells, capped, total } = this.circle;
    const size = 1n << BigInt(this.wordBits);
    const whole = sum(this.weights);
    let [highest, lowest] = [fraction(0n), fraction(whole)];
    for (const j of base.keys()) {
      const counts = edges.map((row) => row[j + 1] - row[j]);
      const tail = counts[this.core.length];
      const rows = counts.slice(0, -1);
      const perCell = least([step[j], size - base[j]]);
      const core = sum(rows.map((words, place) => words * this.weights[this.core[place]]));
      for (const b of [floorDivide(size, cells), ceilDivide(size, cells)]) {
        const mean = cells * b * (size * core + total * tail * base[j]) + total * tail * size * (size - base[j]);
        const slack = total * tail * perCell * ((capped ? size : 0n) + cells);
        // Words too short to tell: the total is more than any lift can be.
        if (mean <= slack) return { highest: fraction(whole), lowest: fraction(0n) };
        const upper = largest([tail * (base[j] * b + perCell * size), ...rows.map((words) => size * b * words)]);
        const lower = least([tail * base[j] * b, ...rows.map((words) => size * b * words)]);
        highest = larger(highest, fraction(upper * whole * cells, mean - slack));
        lowest = smaller(lowest, fraction(lower * whole * cells, mean + slack));
      }
    }
    return { highest, lowest };
  }

  /** A range in which a report can put the belief in value x. @param {number} x */
  belief(x) {
    const { highest, lowest } = this.lifts;
    const { n, d } = this.prior.probability(x);
    const high = smaller(fraction(1n), fraction(n * highest.n, d * highest.d));
    return { low: fraction(n * lowest.n, d * lowest.d), high };
  }

  /** Nobody sends a report that others cannot: a value of prior zero sends a stand-in's. */
  exposes() {
    return false;
  }

  /**
   * The report for value x; a value of prior zero first draws a stand-in from the prior.
   *
   * @param {number} x
   * @param {Words} words
   */
  draw(x, words) {
    const inside = this.prior.weights[x] ? this.prior.support.indexOf(x) : this.#standIn(words);
    const drawn = [0, 1, 2].map(() => words.integer(this.wordBits));
    return this.report(inside, drawn);
  }

  /**
   * The report of a value inside the support: a pure function of three words.
   *
   * @param {number} inside
   * @param {readonly bigint[]} words
   */
  report(inside, [first, second, third]) {
    const { edges, base, step } = this.rule;
    const { cells, starts, lengths } = this.circle;
    const bits = BigInt(this.wordBits);
    const place = this.core.indexOf(inside);
    const state = atMost(edges[place < 0 ? this.core.length : place], first);
    let position = (third * cells) >> bits;
    if (place < 0 && second >= base[state]) {
      const at = this.tail.indexOf(inside);
      const cell = starts[at] + ((third * lengths[at]) >> bits);
      const around = (cell - (second - base[state]) / step[state]) % cells;
      position = around < 0n ? around + cells : around;
    }
    return state * POSITIONS + Number(position);
  }

  /** Whether a report can occur. @param {number} report */
  has(report) {
    return Math.floor(report / POSITIONS) < this.rule.base.length && report % POSITIONS < this.circle.cells;
  }

  /** A position in the support, drawn from the prior. @param {Words} words */
  #standIn(words) {
    const edges = runningSums(this.weights).map((part) => (part << BigInt(STAND_IN_BITS)) / this.prior.total);
    return atMost(edges, words.integer(STAND_IN_BITS));
  }
}

/** @typedef {{weight: bigint, units: bigint[]}} State a coverage of the core, in units of 2^-48, and its weight */

/**
 * The state in a plan, of a core of `size` values.
 *
 * @param {unknown} data
 * @param {string} where
 * @param {number} size
 * @returns {State}
 */
function readState(data, where, size) {
  const [weight, covered, parts] = list(data, where, 3);
  const hex = text(covered, `${where}[1]`);
  const fits = /^[0-9a-f]+$/.test(hex) && hex.length <= Math.max(1, Math.ceil(size / 4));
  expect(fits && BigInt(`0x${hex}`) < 1n << BigInt(size), `${where}[1]`, `a hexadecimal number of ${size} bits`);
  const bits = BigInt(`0x${hex}`).toString(2).padStart(size, "0");
  const units = Array.from({ length: size }, (_, place) => (bits[size - 1 - place] === "1" ? BigInt(UNIT) : 0n));
  const partly = (/** @type {unknown} */ part, /** @type {string} */ at) => {
    const [place, n] = list(part, at, 2);
    units[integer(place, `${at}[0]`, 0, size - 1)] = BigInt(integer(n, `${at}[1]`, 0, UNIT));
  };
  each(parts, `${where}[2]`, partly, 0);
  return { weight: BigInt(integer(weight, `${where}[0]`, 1, Number.MAX_SAFE_INTEGER)), units };
}

/**
 * A circle of `cells` on which each weight has a segment, from `starts` and of `lengths` at least one cell.
 *
 * @param {bigint[]} weights
 * @param {number} wordBits
 */
function layCircle(weights, wordBits) {
  const sums = runningSums(weights);
  const total = sums[weights.length];
  const units = total / gcd(weights);
  const cells = least([units, 1n << BigInt(wordBits >> 1)]);
  const starts = sums.map((part) => (cells * part) / total);
  const lengths = weights.map((_, i) => starts[i + 1] - starts[i] || 1n);
  return { cells, capped: cells < units, total, starts, lengths };
}

/** A bound of how far odds can move; null if unbounded. @param {{highest: Fraction, lowest: Fraction}} lifts */
const oddsOf = ({ highest, lowest }) => (lowest.n ? fraction(highest.n * lowest.d, highest.d * lowest.n) : null);

/**
 * How many inner edges, of those from 0 to the end, are at most a word.
 *
 * @param {readonly bigint[]} edges
 * @param {bigint} word
 */
const atMost = (edges, word) => edges.slice(1, -1).filter((edge) => edge <= word).length;
