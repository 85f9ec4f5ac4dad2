/**
 * The mechanism `many-values`: a table of heavy values, and arcs of a circle in public orders for the others.
 *
 * Its formulas: docs/plan.md; the proof: _rule.py. A report below `withArc` has an arc, (row · orders + order) · 2^B + position;
 * the next ones are the rows without. `inside` counts the values with positive prior only.
 */

import { fraction, larger, largest, minus, over, plus, smaller, sum, times } from "../../exact.js";
import { expect, integer, list, onlyFields } from "../../read.js";
import { Audit, boundedAudit, boundedBelief, inverse } from "../levels.js";
import { SetLevels } from "../set_levels.js";
import { RuleSampler } from "../stand_in.js";
import { BinnedCircle } from "./binned_circle.js";
import { layOut } from "./circle.js";
import { PlaneCircle } from "./plane_circle.js";
import { ShuffledCircle } from "./shuffled_circle.js";

/** @typedef {import("../../exact.js").Fraction} Fraction */
/** @typedef {import("../kinds.js").Mechanism} Mechanism */
/** @typedef {import("../levels.js").Notion} Notion */
/** @typedef {import("../../prior.js").Prior} Prior */

/** The bits of a report: a state, an order and a position. */
const REPORT_BITS = 52;
const MAX_CELL_BITS = 30;
const MAX_SEED_BITS = 32;
const MAX_WORD_BITS = 64;
const FIELDS = [
  "kind", "giants", "covered", "arc", "step", "cell_bits", "seed_bits", "word_bits", "slots", "first", "second", "light",
  "bins", "heavy", "margin", "rows",
];
/** The words of rows add up to at most 2 to this power. */
const ROW_BITS = 52;
/** `margin` counts in parts of this. */
const MARGIN_UNIT = 1n << 52n;

/** @typedef {object} Row a row of the table
 * @property {bigint} words how many γ give it if the answer is ignored
 * @property {boolean} arc whether it has one
 * @property {readonly (readonly [giant: number, cells: bigint])[]} parts what it covers of giants
 */

/** @typedef {object} Weights how many words make values send a report at one position
 * @property {bigint} common of every value
 * @property {bigint} onArc the most words added for a value on the circle
 * @property {Fraction} part its mean under P, as a part of `onArc`, up to `slack`
 * @property {Fraction} slack
 * @property {readonly (readonly [more: bigint, weight: bigint])[]} held words added for other values, and their weight
 */

/** A table of giants and a circle for one prior. @implements {Mechanism} */
export class ManyValues {
  static kind = "many-values";
  kind = ManyValues.kind;
  /** Orders and positions are too many to be listed. */
  nPossibleReports = null;
  #prior;

  /**
   * @param {Prior} prior
   * @param {object} made
   * @param {readonly number[]} made.cells n_x of every value of the support
   * @param {readonly number[]} made.named the giants, in the order of the values
   * @param {readonly Row[]} made.rows those with an arc first
   * @param {number} made.covered L, the cells that a report covers
   * @param {PlaneCircle | ShuffledCircle | BinnedCircle} made.circle the circle of the others
   * @param {number} made.margin 2^52 μ, of the slack
   */
  constructor(prior, { cells, named, rows, covered, circle, margin }) {
    this.#prior = prior;
    this.circle = circle;
    this.wordBits = circle.wordBits;
    /** W, the bits of α, the first of the first word. */
    this.choiceBits = circle.choiceBits;
    this.wordsPerReport = circle.words + (named.length ? 1 : 0);
    this.named = named;
    this.covered = BigInt(covered);
    /** M, the cells of all values. */
    this.total = sum(cells.map(BigInt));
    this.rows = rows;
    /** v, the bits of γ. */
    this.rowBits = BigInt(Math.min(this.wordBits, ROW_BITS));
    /** How many rows have an arc; 1 without giants. */
    this.arcRows = named.length ? rows.filter((row) => row.arc).length : 1;
    /** How many γ, of 2^v, give each row to a value on the circle whose answer is not ignored. */
    this.ofOthers = shares(rows.map((row) => (row.arc ? row.words : 0n)), 1n << this.rowBits);
    const covering = named.map(() => /** @type {Map<number, bigint>} */ (new Map()));
    for (const [y, { words, parts }] of rows.entries()) for (const [i, k] of parts) covering[i].set(y, words * k);
    /** How many give it to each giant whose answer is not ignored, for the rows that cover it. */
    this.ofGiants = covering.map((parts) => {
      const found = shares([...parts.values()], 1n << this.rowBits);
      return new Map([...parts.keys()].map((y, i) => [y, found[i]]));
    });
    const weights = prior.support.map((x) => prior.weights[x]);
    this.weights = weights;
    /** μ of the slack. */
    this.margin = fraction(BigInt(margin), MARGIN_UNIT);
    const rest = { more: 0n, less: 0n };
    /** The prior's weight of every bin. */
    this.binWeights = circle instanceof BinnedCircle ? Array.from({ length: circle.bins }, () => 0n) : [];
    /** @type {bigint[]} */
    const off = [];
    const giants = new Set(named);
    /** The place of a value on the circle; −1−i of giant i. @type {number[]} */
    this.places = [];
    let place = 0;
    for (const [x, n] of cells.entries()) {
      if (giants.has(x)) {
        this.places.push(-1 - named.indexOf(x));
        continue;
      }
      const bin = circle instanceof BinnedCircle ? circle.binOf[place] : -1;
      if (bin >= 0) this.binWeights[bin] += weights[x];
      this.places.push(place++);
      const laid = BigInt(n) * prior.total;
      const real = weights[x] * this.total;
      off.push(real - laid);
      const beyond = (real > laid ? real - laid : laid - real) * MARGIN_UNIT - BigInt(margin) * laid;
      if (beyond > 0n) rest[real > laid ? "more" : "less"] += beyond;
    }
    /** S, what deviates by more than μ. */
    this.rest = fraction(largest([rest.more, rest.less]), this.total * prior.total * MARGIN_UNIT);
    /** δ', what P_x − P̃_x add up to for any arc, at most. */
    this.together = fraction(circle.mostOff(off), this.total * prior.total);
  }

  /**
   * The mechanism that a plan holds.
   *
   * @param {Record<string, unknown>} data
   * @param {Prior} prior
   * @param {string} where
   * @param {import("../../read.js").Meter} spend
   */
  static fromDict(data, prior, where, spend) {
    onlyFields(data, where, FIELDS);
    const size = prior.support.length;
    const cellBits = integer(data.cell_bits, `${where}.cell_bits`, 1, MAX_CELL_BITS);
    const seedBits = integer(data.seed_bits, `${where}.seed_bits`, 0, MAX_SEED_BITS);
    const wordBits = integer(data.word_bits, `${where}.word_bits`, 1, MAX_WORD_BITS);
    const choiceBits = wordBits - seedBits / 2;
    expect(seedBits % 2 === 0, `${where}.seed_bits`, "even");
    expect(cellBits <= choiceBits && choiceBits <= REPORT_BITS, `${where}.word_bits`, "long enough, and not too long");
    expect(size <= 2 ** cellBits, `${where}.cell_bits`, "enough to give every value a cell");
    spend(size);
    const total = 2 ** cellBits < 2 * size ? size : 2 ** cellBits;
    const cells = layOut(prior.support.map((x) => prior.weights[x]), BigInt(total));
    const giants = integer(data.giants, `${where}.giants`, 0, Math.max(size - (data.bins === 0 ? 2 : 1), 0));
    const falling = [...cells.keys()].sort((a, b) => cells[b] - cells[a] || a - b);
    const named = falling.slice(0, giants).sort((a, b) => a - b);
    const held = new Set(named);
    const around = cells.filter((_, x) => !held.has(x));
    const room = around.reduce((count, n) => count + n, 0);
    const arc = integer(data.arc, `${where}.arc`, 1, room - 1);
    const covered = integer(data.covered, `${where}.covered`, arc, giants ? total : arc);
    const step = integer(data.step, `${where}.step`, 1, Number.MAX_SAFE_INTEGER);
    expect(BigInt(arc) * BigInt(step) < 1n << BigInt(choiceBits), `${where}.step`, "small enough to leave a base");
    const rule = { arc, step, cellBits, seedBits, wordBits };
    const bins = integer(data.bins, `${where}.bins`, 0, Number.MAX_SAFE_INTEGER);
    const heavy = integer(data.heavy, `${where}.heavy`, 0, bins ? size : 0);
    for (const name of bins || data.slots === 0 ? ["slots", "first", "second", "light"] : [])
      integer(data[name], `${where}.${name}`, 0, 0);
    expect(!bins || covered === arc, `${where}.arc`, "all that is covered, with bins");
    const circle = bins
      ? BinnedCircle.of(around, rule, bins, heavy, where, spend)
      : data.slots === 0
        ? new ShuffledCircle(around, rule)
        : PlaneCircle.fromDict(data, around, rule, where, spend);
    const margin = integer(data.margin, `${where}.margin`, 0, Number.MAX_SAFE_INTEGER);
    const rows = readRows(data.rows, `${where}.rows`, named.map((x) => cells[x]), { covered, arc, total, wordBits }, spend);
    const made = new ManyValues(prior, { cells, named, rows, covered, circle, margin });
    expect(made.withArc <= 2 ** REPORT_BITS, `${where}.cell_bits`, "few enough to leave room for rows and orders");
    return made;
  }

  /**
   * The randomizer of several mechanisms of this kind.
   *
   * @param {readonly ManyValues[]} mechanisms
   * @param {readonly Prior[]} priors
   */
  static sampler(mechanisms, priors) {
    return new RuleSampler(mechanisms, priors);
  }

  /** The words for which values send reports, of every row, and where positions have more words or less. */
  reportWeights() {
    const { circle, named, rows, ofOthers, ofGiants } = this;
    const alpha = circle.arc * circle.step;
    const nothing = fraction(0n);
    const arcs = circle.reportWeights().map(({ uniform, common, onArc, arc, rounding, bin, inBin }) => {
      const part = times(arc, fraction(1n, this.total));
      const slack = plus(smaller(this.together, plus(times(this.margin, part), this.rest)), rounding);
      /** @type {[more: bigint, weight: bigint][]} */
      const held = bin === null ? [] : [[inBin, this.binWeights[bin]]];
      return { uniform, common, onArc, part, slack, held };
    });
    /** @type {Weights[]} */
    const found = named.length ? [] : arcs;
    for (const [y, { words, arc, parts }] of rows.entries()) {
      const giants = parts.map(([i]) => ({ more: alpha * (ofGiants[i].get(y) ?? 0n), weight: this.weights[named[i]] }));
      if (!arc) {
        const held = giants.map(({ more, weight }) => /** @type {const} */ ([more, weight]));
        found.push({ common: circle.base * words, onArc: 0n, part: nothing, slack: nothing, held });
      }
      for (const { uniform, common, onArc, part, slack, held } of arc ? arcs : []) {
        const all = [
          ...giants.map(({ more, weight }) => /** @type {const} */ ([more * uniform, weight])),
          ...held.map(([more, weight]) => /** @type {const} */ ([more * ofOthers[y], weight])),
        ];
        found.push({ common: common * words, onArc: onArc * ofOthers[y], part, slack, held: all });
      }
    }
    return found;
  }

  /** A bound of the ratio of the likelihoods of two values. */
  get odds() {
    const ratios = this.reportWeights().map((each) => fraction(each.common + mostOf(each), each.common));
    return ratios.reduce(larger, fraction(1n));
  }

  /**
   * Bounds of the lifts under every prior within total variation `radius`; `ManyValuesRule.lift_range` proves them.
   *
   * @param {Fraction} [radius]
   */
  liftRange(radius = fraction(0n)) {
    let [highest, lowest] = [fraction(1n), fraction(1n)];
    for (const each of this.reportWeights()) {
      const { common, onArc, part, slack, held } = each;
      const most = mostOf(each);
      const byName = fraction(sum(held.map(([more, weight]) => more * weight)), this.#prior.total);
      const mean = plus(byName, times(fraction(onArc), part));
      const off = plus(times(fraction(onArc), slack), times(fraction(most), radius));
      const fewest = larger(fraction(0n), minus(mean, off));
      const largestMean = smaller(fraction(most), plus(mean, off));
      const raised = over(fraction(common + most), plus(fraction(common), fewest));
      const lowered = over(fraction(common), plus(fraction(common), largestMean));
      highest = larger(highest, /** @type {Fraction} */ (raised));
      lowest = smaller(lowest, /** @type {Fraction} */ (lowered));
    }
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
   * @param {import("../../prior.js").PriorSet} priorSet
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

  /** How many orders and positions there are, with gaps. */
  get #size() {
    return this.circle.orders * 2 ** this.circle.cellBits;
  }

  /** How many reports have an arc, with gaps. */
  get withArc() {
    return this.arcRows * this.#size;
  }

  /** Reports are below this. */
  get end() {
    return this.withArc + (this.named.length ? this.rows.length - this.arcRows : 0);
  }

  /** Whether there are such a row, order and position. @param {number} report */
  canSend(report) {
    if (report >= this.withArc) return report < this.end;
    return this.circle.canSend(report % this.#size);
  }

  /** No report is the best guess of one value: it says how beliefs in all of them move. */
  label() {
    return null;
  }

  /** Pr(report | x), exactly; null for a value with prior zero. @param {number} x @param {number} report */
  likelihood(x, report) {
    const inside = this.#prior.support.indexOf(x);
    if (inside < 0) return null;
    const { circle, named } = this;
    const place = this.places[inside];
    if (!named.length) return circle.likelihood(place, report);
    const one = 1n << this.rowBits;
    const arc = report < this.withArc;
    const [y, below] = arc
      ? [Math.floor(report / this.#size), report % this.#size]
      : [report - this.withArc + this.arcRows, 0];
    if (y >= this.rows.length) return fraction(0n);
    const words = 1n << BigInt(circle.choiceBits);
    const [ignored, heard] = [fraction(circle.base, words), fraction(words - circle.base, words)];
    let chance = times(ignored, fraction(this.rows[y].words, one));
    if (place < 0) chance = plus(chance, times(heard, fraction(this.ofGiants[-1 - place].get(y) ?? 0n, one)));
    if (!arc) return chance;
    const uniform = circle.uniformLikelihood(below);
    if (place < 0) return times(uniform, chance);
    const onto = minus(circle.likelihood(place, below), times(ignored, uniform));
    return plus(times(uniform, chance), times(fraction(this.ofOthers[y], one), onto));
  }

  /**
   * The report of a value inside the support: a pure function of its words, that for the row last.
   *
   * @param {number} inside
   * @param {readonly bigint[]} words
   */
  draw(inside, words) {
    const { circle, named } = this;
    const place = this.places[inside];
    if (!named.length) return circle.draw(place, words);
    const half = BigInt(circle.seedBits / 2);
    const [first, last] = [words[0], words[words.length - 1]];
    const gamma = last & ((1n << this.rowBits) - 1n);
    const ignored = first >> half < circle.base;
    const own = place < 0 ? this.ofGiants[-1 - place] : null;
    let [y, end] = [0, 0n];
    for (const [row, { words }] of this.rows.entries()) {
      end += ignored ? words : own ? (own.get(row) ?? 0n) : this.ofOthers[row];
      if (end <= gamma) y += 1;
    }
    // The arc of a giant lies anywhere, as where the answer is ignored. It is drawn also where there is none: the time does
    // not depend on the answer.
    const seeds = first & ((1n << half) - 1n);
    const drawn = circle.draw(Math.max(place, 0), [place < 0 ? seeds : first, ...words.slice(1, -1)]);
    return y < this.arcRows ? y * this.#size + drawn : this.withArc + y - this.arcRows;
  }
}

/** The most words that a value has beyond those of all. @param {Weights} weights */
const mostOf = ({ onArc, held }) => largest([onArc, ...held.map(([more]) => more)]);

/**
 * A whole in proportion to parts, in integers: sums are rounded up.
 *
 * @param {readonly bigint[]} parts
 * @param {bigint} whole
 */
function shares(parts, whole) {
  const all = largest([sum(parts), 1n]);
  let [part, before] = [0n, 0n];
  return parts.map((each) => {
    part += each;
    const end = (part * whole + all - 1n) / all;
    const share = end - before;
    before = end;
    return share;
  });
}

/**
 * The table that a plan holds: every row covers L cells, every giant is covered to the same part in the mean.
 *
 * @param {unknown} data
 * @param {string} where
 * @param {readonly number[]} cells those of every giant
 * @param {{ covered: number, arc: number, total: number, wordBits: number }} rule
 * @param {import("../../read.js").Meter} spend
 */
function readRows(data, where, cells, { covered, arc, total, wordBits }, spend) {
  const given = list(data, where, 0);
  expect(given.length > 0 === cells.length > 0, where, "there for giants, and for nothing else");
  const sums = cells.map(() => 0n);
  const rows = given.map((each, y) => {
    const at = `${where}[${y}]`;
    const row = list(each, at, 2);
    expect(row.length % 2 === 0, at, "words, an arc, and pairs");
    spend(row.length);
    const words = integer(row[0], `${at}[0]`, 1, Number.MAX_SAFE_INTEGER);
    const hasArc = integer(row[1], `${at}[1]`, 0, 1);
    let held = hasArc * arc;
    /** @type {[number, bigint][]} */
    const parts = [];
    for (let i = 2; i < row.length; i += 2) {
      const giant = integer(row[i], `${at}[${i}]`, i > 2 ? parts[parts.length - 1][0] + 1 : 0, cells.length - 1);
      const count = integer(row[i + 1], `${at}[${i + 1}]`, 1, cells[giant]);
      parts.push([giant, BigInt(count)]);
      sums[giant] += BigInt(words) * BigInt(count);
      held += count;
    }
    expect(held === covered, at, "a row that covers as many cells as all");
    return { words: BigInt(words), arc: hasArc === 1, parts };
  });
  if (!rows.length) return rows;
  const whole = 1n << BigInt(Math.min(wordBits, ROW_BITS));
  const most = BigInt(rows.length) * BigInt(covered) * BigInt(total);
  for (const [giant, found] of sums.entries()) {
    const away = found * BigInt(total) - BigInt(covered) * BigInt(cells[giant]) * whole;
    expect(found > 0n && away <= most && -away <= most, where, "rows that cover every giant to the same part in the mean");
  }
  const order = rows.every((row, y) => y === 0 || rows[y - 1].arc || !row.arc);
  expect(order && rows[0].arc, where, "rows of which those with an arc come first");
  expect(sum(rows.map((row) => row.words)) === whole, where, "rows with the words that there are");
  return rows;
}
