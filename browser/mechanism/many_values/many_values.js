/**
 * The mechanism `many-values`: the heavy values by name, the others by arcs of a circle in public orders.
 *
 * Its formulas: docs/plan.md; the proof: _rule.py. A report below `withArc` has an arc, (i · orders + order) · 2^B + position,
 * i the giant that it names or else 0; the next ones name giant 0, 1, … and have none. `inside` counts the values with
 * positive prior only.
 */

import { fraction, larger, largest, minus, over, plus, smaller, sum, times } from "../../exact.js";
import { expect, integer, onlyFields } from "../../read.js";
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
  "bins", "heavy", "margin",
];
/** `margin` counts in parts of this. */
const MARGIN_UNIT = 1n << 52n;

/** @typedef {object} Weights how many words make values send a report at one position
 * @property {bigint} common of every value
 * @property {bigint} onArc the most words added for a value on the circle
 * @property {Fraction} part its mean under P, as a part of `onArc`, up to `slack`
 * @property {Fraction} slack
 * @property {readonly (readonly [more: bigint, weight: bigint])[]} held words added for other values, and their weight
 */

/** Giants and a circle for one prior. @implements {Mechanism} */
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
   * @param {number} made.covered L, the cells that a report covers
   * @param {PlaneCircle | ShuffledCircle | BinnedCircle} made.circle the circle of the others
   * @param {number} made.margin 2^52 μ, of the slack
   */
  constructor(prior, { cells, named, covered, circle, margin }) {
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
    /** v, the bits of γ and of η. */
    this.nameBits = BigInt(Math.floor(this.wordBits / 2));
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
    const running = [0n];
    for (const x of named) running.push(running[running.length - 1] + BigInt(cells[x]));
    /** N, the cells of all giants. */
    const held = running[running.length - 1];
    /** The first γ that names each giant, then 2^v. */
    this.nameEdges = named.length ? running.map((part) => ((part << this.nameBits) + held - 1n) / held) : [];
    /** A: the number of η, of 2^v, that give an arc if the answer is ignored. */
    this.arcsForAll = ((this.covered * circle.circle) << this.nameBits) / (this.total * circle.arc);
    /** D: the number of η, of 2^v, that give an arc to a giant that is not ignored. */
    this.arcsForGiants = named.length
      ? ((circle.circle * (this.covered - circle.arc)) << this.nameBits) / (circle.arc * held)
      : 0n;
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
    const least = named.reduce((found, x) => Math.min(found, cells[x]), giants ? total : arc);
    const covered = integer(data.covered, `${where}.covered`, arc, least);
    const step = integer(data.step, `${where}.step`, 1, Number.MAX_SAFE_INTEGER);
    expect(BigInt(arc) * BigInt(step) < 1n << BigInt(choiceBits), `${where}.step`, "small enough to leave a base");
    const tells = !giants || BigInt(covered) * BigInt(room) < BigInt(total) * BigInt(arc);
    expect(tells, `${where}.arc`, "long enough to tell giants from the others");
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
    const made = new ManyValues(prior, { cells, named, covered, circle, margin });
    expect(made.withArc <= 2 ** REPORT_BITS, `${where}.cell_bits`, "few enough to leave room for names and orders");
    const short = giants > 0 && !(made.arcsForAll > 0n && made.arcsForAll < 1n << made.nameBits);
    expect(!short, `${where}.word_bits`, "long enough for these giants");
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

  /** The words for which values send reports, of every state, and where positions have more words or less, of both. */
  reportWeights() {
    const { circle, nameBits, nameEdges } = this;
    const one = 1n << nameBits;
    const alpha = circle.arc * circle.step;
    const nothing = fraction(0n);
    const names = this.named.map((x, i) => ({ words: nameEdges[i + 1] - nameEdges[i], weight: this.weights[x] }));
    /** @type {Weights[]} */
    const found = names.map(({ words, weight }) => ({
      common: circle.base * words * (one - this.arcsForAll),
      onArc: 0n,
      part: nothing,
      slack: nothing,
      held: [[alpha * one * (one - this.arcsForGiants), weight]],
    }));
    const beside = this.namedBeside ? names : names.length ? [{ words: one, weight: 0n }] : [];
    for (const { uniform, common, onArc, arc, rounding, bin, inBin } of circle.reportWeights()) {
      const part = times(arc, fraction(1n, this.total));
      const slack = plus(smaller(this.together, plus(times(this.margin, part), this.rest)), rounding);
      if (!names.length) {
        found.push({ common, onArc, part, slack, held: bin === null ? [] : [[inBin, this.binWeights[bin]]] });
      }
      for (const { words, weight } of beside) {
        found.push({
          common: common * words * this.arcsForAll,
          onArc: onArc * words * one,
          part,
          slack,
          held: [
            [alpha * uniform * one * this.arcsForGiants, weight],
            ...(bin === null ? [] : [/** @type {const} */ ([inBin * words * one, this.binWeights[bin]])]),
          ],
        });
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

  /** Whether reports with an arc name a giant too: whether they cover anything of it. */
  get namedBeside() {
    return this.circle.arc < this.covered;
  }

  /** How many reports have an arc, with gaps. */
  get withArc() {
    return (this.namedBeside ? this.named.length : 1) * this.#size;
  }

  /** Whether there are such a name, order and position. @param {number} report */
  canSend(report) {
    if (report >= this.withArc) return report < this.withArc + this.named.length;
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
    const one = 1n << this.nameBits;
    const arc = report < this.withArc;
    const [name, below] = arc ? [Math.floor(report / this.#size), report % this.#size] : [report - this.withArc, 0];
    if (name >= named.length) return fraction(0n);
    const words = 1n << BigInt(circle.choiceBits);
    const [ignored, heard] = [fraction(circle.base, words), fraction(words - circle.base, words)];
    const names = arc && !this.namedBeside ? one : this.nameEdges[name + 1] - this.nameEdges[name];
    const forName = fraction(names, one);
    const chance = (/** @type {bigint} */ arcs) => fraction(arc ? arcs : one - arcs, one);
    const without = times(ignored, times(forName, chance(this.arcsForAll)));
    const own = place === -1 - name ? times(heard, chance(this.arcsForGiants)) : fraction(0n);
    if (!arc) return plus(without, own);
    const uniform = circle.uniformLikelihood(below);
    if (place < 0) return times(uniform, plus(without, own));
    const onto = minus(circle.likelihood(place, below), times(ignored, uniform));
    return plus(times(without, uniform), times(forName, onto));
  }

  /**
   * The report of a value inside the support: a pure function of its words, that for names last.
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
    const low = (1n << this.nameBits) - 1n;
    const [gamma, eta] = [(last >> this.nameBits) & low, last & low];
    let name = 0;
    while (this.nameEdges[name + 1] <= gamma) name += 1;
    let arcs = this.arcsForAll;
    if (first >> half >= circle.base) {
      if (place < 0) [name, arcs] = [-place - 1, this.arcsForGiants];
      else arcs = low + 1n;
    }
    // The arc of a giant lies anywhere, as where the answer is ignored. It is drawn also where there is none: the time does
    // not depend on the answer.
    const seeds = first & ((1n << half) - 1n);
    const drawn = circle.draw(Math.max(place, 0), [place < 0 ? seeds : first, ...words.slice(1, -1)]);
    return eta < arcs ? (this.namedBeside ? name * this.#size : 0) + drawn : this.withArc + name;
  }
}

/** The most words that a value has beyond those of all. @param {Weights} weights */
const mostOf = ({ onArc, held }) => largest([onArc, ...held.map(([more]) => more)]);
