/**
 * The mechanism `core-tail`: a rule for any number of values. Its formulas: docs/plan.md; the proof: core_tail_rule.py.
 *
 * A report is a state, which covers some heavy values (the core), and a position on a circle of M cells on which every
 * other value (the tail) has a segment. Positions in `core` and `tail` count the values with positive prior only.
 */

import {
  ceilDivide,
  floorDivide,
  fraction,
  gcd,
  larger,
  largest,
  least,
  rank,
  runningSums,
  smaller,
  sum,
} from "../../exact.js";
import { boundedAudit, boundedBelief } from "../levels.js";
import { each, expect, integer, list, onlyFields, rational, text } from "../../read.js";
import { boundedSetLevels } from "../set_levels.js";
import { RuleSampler } from "../stand_in.js";

/** @typedef {import("../../exact.js").Fraction} Fraction */
/** @typedef {import("../levels.js").Notion} Notion */
/** @typedef {import("../kinds.js").Mechanism} Mechanism */
/** @typedef {import("../../prior.js").Prior} Prior */

/** Coverage is counted in units of 2^-48. */
const COVERAGE_UNIT = 2 ** 48;
/** A report is state · 2^32 + position, and below 2^53. */
const POSITIONS = 2 ** 32;
const MAX_STATES = 2 ** 20;
const WORDS_PER_SAMPLE = 3;

/** A core-tail rule for one prior. @implements {Mechanism} */
export class CoreTail {
  static kind = "core-tail";
  wordsPerReport = WORDS_PER_SAMPLE;
  kind = CoreTail.kind;
  /** Positions on a circle are too many to be listed. */
  nPossibleReports = null;
  #prior;

  /**
   * @param {Prior} prior
   * @param {object} rule
   * @param {readonly number[]} rule.core ascending positions
   * @param {Fraction} rule.share the prior mass that a report covers
   * @param {Fraction} rule.growth a covered value is 1 + growth times as likely as an uncovered one
   * @param {readonly State[]} rule.states
   * @param {number} rule.wordBits
   */
  constructor(prior, { core, share, growth, states, wordBits }) {
    this.#prior = prior;
    this.weights = prior.support.map((x) => prior.weights[x]);
    this.core = core;
    const inCore = new Set(core);
    this.tail = [...this.weights.keys()].filter((x) => !inCore.has(x));
    this.wordBits = wordBits;
    this.circle = layCircle(
      this.tail.map((x) => this.weights[x]),
      wordBits,
    );
    this.rule = this.#rule(states, share, growth);
    this.liftRange = this.#liftRange();
  }

  /**
   * The rule that a plan holds.
   *
   * @param {Record<string, unknown>} data
   * @param {Prior} prior
   * @param {string} where
   * @param {import("../../read.js").Meter} spend
   */
  static fromDict(data, prior, where, spend) {
    onlyFields(data, where, ["kind", "core", "share", "growth", "states", "word_bits"]);
    const most = prior.support.length - 1;
    const core = each(data.core, `${where}.core`, (x, at) => integer(x, at, 0, most), 0);
    const ascending = core.every((x, i) => i === 0 || core[i - 1] < x) && core.length <= most;
    expect(ascending, `${where}.core`, "ascending positions that leave a value to the tail");
    const share = rational(data.share, `${where}.share`);
    const growth = rational(data.growth, `${where}.growth`);
    expect(share.n > 0n && share.n < share.d, `${where}.share`, "between 0 and 1");
    expect(growth.n > 0n, `${where}.growth`, "positive");
    const wordBits = integer(data.word_bits, `${where}.word_bits`, 2, 64);
    const count = list(data.states, `${where}.states`).length;
    expect(count <= MAX_STATES, `${where}.states`, `at most ${MAX_STATES}`);
    spend(prior.support.length + count * (core.length + 1));
    const states = each(data.states, `${where}.states`, (state, at) => readState(state, at, core.length));
    return new CoreTail(prior, { core, share, growth, states, wordBits });
  }

  /**
   * The randomizer of several core-tail mechanisms.
   *
   * @param {readonly CoreTail[]} mechanisms
   * @param {readonly Prior[]} priors
   */
  static sampler(mechanisms, priors) {
    return new RuleSampler(mechanisms, priors);
  }

  /**
   * The words of each choice: `edges` by row (core values, then the tail) and state, `base` and `step` by state.
   *
   * @param {readonly State[]} states
   * @param {Fraction} share
   * @param {Fraction} growth
   */
  #rule(states, share, growth) {
    const unit = BigInt(COVERAGE_UNIT);
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

  /** Bounds of the largest and the smallest lift, all times M; core_tail_rule.py proves `CoreTailRule.lift_range`. */
  #liftRange() {
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

  /** Bounds of the levels. @param {Prior} prior */
  audit(prior) {
    this.#checkPrior(prior);
    return boundedAudit(prior, this.liftRange.highest, this.liftRange.lowest);
  }

  /** Whether the bounds keep a promise. @param {Prior} prior @param {Notion} notion @param {Fraction} epsilon */
  keeps(prior, notion, epsilon) {
    return this.audit(prior).holds(notion, epsilon);
  }

  /** Bounds for the worst prior of a set. @param {import("../../prior_set.js").PriorSet} priorSet */
  setLevels(priorSet) {
    this.#checkPrior(priorSet.prior);
    return boundedSetLevels(priorSet, this.liftRange.highest, this.liftRange.lowest);
  }

  /** A range in which a report can put the belief in value x. @param {Prior} prior @param {number} x */
  belief(prior, x) {
    this.#checkPrior(prior);
    return boundedBelief(prior, x, this.liftRange.highest, this.liftRange.lowest);
  }

  /** @param {Prior} prior */
  #checkPrior(prior) {
    if (prior !== this.#prior) throw new RangeError("This mechanism was made for another prior.");
  }

  /** Whether there is such a state and such a position. @param {number} report */
  canSend(report) {
    return Math.floor(report / POSITIONS) < this.rule.base.length && report % POSITIONS < this.circle.cells;
  }

  /** No report is the best guess of one value: it says how beliefs in all of them move. */
  label() {
    return null;
  }

  /** Not written out. */
  likelihood() {
    return null;
  }

  /**
   * The report of a value inside the support: a pure function of three words.
   *
   * @param {number} inside
   * @param {readonly bigint[]} words
   */
  draw(inside, [first, second, third]) {
    const { edges, base, step } = this.rule;
    const { cells, boundaries, lengths } = this.circle;
    const bits = BigInt(this.wordBits);
    const place = this.core.indexOf(inside);
    const state = rank(edges[place < 0 ? this.core.length : place], first);
    let position = (third * cells) >> bits;
    if (place < 0 && second >= base[state]) {
      const at = this.tail.indexOf(inside);
      const cell = boundaries[at] + ((third * lengths[at]) >> bits);
      const around = (cell - (second - base[state]) / step[state]) % cells;
      position = around < 0n ? around + cells : around;
    }
    return state * POSITIONS + Number(position);
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
  const fits = /^(0|[1-9a-f][0-9a-f]*)$/.test(hex) && hex.length <= Math.max(1, Math.ceil(size / 4));
  expect(fits && BigInt(`0x${hex}`) < 1n << BigInt(size), `${where}[1]`, `a hexadecimal number of ${size} bits`);
  const bits = BigInt(`0x${hex}`).toString(2).padStart(size, "0");
  const whole = BigInt(COVERAGE_UNIT);
  const units = Array.from({ length: size }, (_, place) => (bits[size - 1 - place] === "1" ? whole : 0n));
  const partly = (/** @type {unknown} */ part, /** @type {string} */ at) => {
    const [place, n] = list(part, at, 2);
    units[integer(place, `${at}[0]`, 0, size - 1)] = BigInt(integer(n, `${at}[1]`, 0, COVERAGE_UNIT));
  };
  each(parts, `${where}[2]`, partly, 0);
  return { weight: BigInt(integer(weight, `${where}[0]`, 1, Number.MAX_SAFE_INTEGER)), units };
}

/**
 * A circle of `cells` on which each weight has a segment, from `boundaries` and of `lengths` at least one cell.
 *
 * @param {bigint[]} weights
 * @param {number} wordBits
 */
function layCircle(weights, wordBits) {
  const sums = runningSums(weights);
  const total = sums[weights.length];
  const units = total / gcd(weights);
  const cells = least([units, 1n << BigInt(wordBits >> 1)]);
  const boundaries = sums.map((part) => (cells * part) / total);
  const lengths = weights.map((_, i) => boundaries[i + 1] - boundaries[i] || 1n);
  return { cells, capped: cells < units, total, boundaries, lengths };
}
