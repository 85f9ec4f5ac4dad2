/**
 * The mechanism `many-values`: the heavy values by name, the others by arcs of a circle in public orders.
 *
 * Its formulas: docs/plan.md; the proof: _rule.py. A report is (state · orders + order) · 2^B + position. State i < k names
 * giant i and has an arc, state k + i names it and has none. `inside` counts the values with positive prior only.
 */

import { fraction, larger, largest, minus, over, plus, smaller, sum, times } from "../../exact.js";
import { expect, integer, onlyFields } from "../../read.js";
import { Audit, boundedAudit, boundedBelief, inverse } from "../levels.js";
import { SetLevels } from "../set_levels.js";
import { RuleSampler } from "../stand_in.js";
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
];

/** @typedef {object} Weights how many words make values send a report at one position
 * @property {bigint} common of every value
 * @property {bigint} named the words added for the giant that the report names
 * @property {bigint} onArc the most words added for a value on the circle
 * @property {number | null} giant the place of that giant in the support, or null
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
   * @param {PlaneCircle | ShuffledCircle} made.circle the circle of the others
   */
  constructor(prior, { cells, named, covered, circle }) {
    this.#prior = prior;
    this.circle = circle;
    this.wordBits = circle.wordBits;
    this.wordsPerReport = named.length ? 3 : 2;
    this.named = named;
    this.covered = BigInt(covered);
    /** M, the cells of all values. */
    this.total = sum(cells.map(BigInt));
    /** v, the bits of γ and of η. */
    this.nameBits = BigInt(Math.floor(this.wordBits / 2));
    const weights = prior.support.map((x) => prior.weights[x]);
    this.weights = weights;
    const more = sum(cells.map((n, x) => largest([0n, BigInt(n) * prior.total - weights[x] * this.total])));
    /** δ = ½ Σ |n_x/M − P_x|. */
    this.cellError = fraction(more, this.total * prior.total);
    /** ρ, the largest |P_x/P̃_x − 1| on the circle. */
    this.farthest = fraction(0n);
    const giants = new Set(named);
    /** The place of a value on the circle; −1−i of giant i. @type {number[]} */
    this.places = [];
    let place = 0;
    for (const [x, n] of cells.entries()) {
      if (giants.has(x)) {
        this.places.push(-1 - named.indexOf(x));
        continue;
      }
      this.places.push(place++);
      const laid = BigInt(n) * prior.total;
      const real = weights[x] * this.total;
      this.farthest = larger(this.farthest, fraction(real > laid ? real - laid : laid - real, laid));
    }
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
    const giants = integer(data.giants, `${where}.giants`, 0, Math.max(size - 2, 0));
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
    for (const name of data.slots === 0 ? ["first", "second", "light"] : []) integer(data[name], `${where}.${name}`, 0, 0);
    const circle =
      data.slots === 0 ? new ShuffledCircle(around, rule) : PlaneCircle.fromDict(data, around, rule, where, spend);
    const fits = Math.max(2 * giants, 1) * circle.orders * 2 ** cellBits <= 2 ** REPORT_BITS;
    expect(fits, `${where}.cell_bits`, "few enough to leave room for names and orders");
    const made = new ManyValues(prior, { cells, named, covered, circle });
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

  /** min(δ, ρL'/M) + 2^−W max k_x: how far the prior mass under an arc can be from L'/M. */
  get slack() {
    const part = times(this.farthest, fraction(this.circle.arc, this.total));
    const rounding = fraction(BigInt(this.circle.mostPieces), 1n << BigInt(this.circle.choiceBits));
    return plus(smaller(this.cellError, part), rounding);
  }

  /** The words for which values send reports, of every state, and where positions have more words or less, of both. */
  reportWeights() {
    const { circle, nameBits, nameEdges } = this;
    const [one, words] = [1n << nameBits, 1n << BigInt(circle.choiceBits)];
    const alpha = circle.arc * circle.step;
    const fewest = words / circle.circle;
    const positions = words % circle.circle ? [fewest, fewest + 1n] : [fewest];
    if (!this.named.length) {
      return positions.map((b) => ({ common: circle.base * b, named: 0n, onArc: circle.step * words, giant: null }));
    }
    /** @type {Weights[]} */
    const found = [];
    for (const [i, giant] of this.named.entries()) {
      const forName = nameEdges[i + 1] - nameEdges[i];
      const without = circle.base * forName * (one - this.arcsForAll) * words;
      found.push({ common: without, named: alpha * one * (one - this.arcsForGiants) * words, onArc: 0n, giant });
      for (const b of positions) {
        const common = circle.base * b * forName * this.arcsForAll;
        const named = alpha * b * one * this.arcsForGiants;
        found.push({ common, named, onArc: circle.step * words * forName * one, giant });
      }
    }
    return found;
  }

  /** A bound of the ratio of the likelihoods of two values. */
  get odds() {
    const ratios = this.reportWeights().map(({ common, named, onArc }) => fraction(common + largest([named, onArc]), common));
    return ratios.reduce(larger, fraction(1n));
  }

  /**
   * Bounds of the lifts under every prior within total variation `radius`; `ManyValuesRule.lift_range` proves them.
   *
   * @param {Fraction} [radius]
   */
  liftRange(radius = fraction(0n)) {
    const part = fraction(this.circle.arc, this.total);
    const slack = this.slack;
    let [highest, lowest] = [fraction(1n), fraction(1n)];
    for (const { common, named, onArc, giant } of this.reportWeights()) {
      const most = largest([named, onArc]);
      const held = giant === null ? fraction(0n) : fraction(this.weights[giant] * named, this.#prior.total);
      const mean = plus(held, times(fraction(onArc), part));
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

  /** How many orders and positions there are, with gaps. */
  get #size() {
    return this.circle.orders * 2 ** this.circle.cellBits;
  }

  /** Whether there are such a state, order and position. @param {number} report */
  canSend(report) {
    const state = Math.floor(report / this.#size);
    if (state >= this.named.length && this.named.length) return state < 2 * this.named.length && report % this.#size === 0;
    return state < Math.max(this.named.length, 1) && this.circle.canSend(report % this.#size);
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
    const [state, below] = [Math.floor(report / this.#size), report % this.#size];
    const [arc, name] = [state < named.length, state % named.length];
    if (!arc && below) return fraction(0n);
    const words = 1n << BigInt(circle.choiceBits);
    const [ignored, heard] = [fraction(circle.base, words), fraction(words - circle.base, words)];
    const forName = fraction(this.nameEdges[name + 1] - this.nameEdges[name], one);
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
   * The report of a value inside the support: a pure function of two or three words.
   *
   * @param {number} inside
   * @param {readonly bigint[]} words
   */
  draw(inside, words) {
    const { circle, named } = this;
    const place = this.places[inside];
    if (!named.length) return circle.draw(place, words);
    const half = BigInt(circle.seedBits / 2);
    const [first, second, third] = words;
    const low = (1n << this.nameBits) - 1n;
    const [gamma, eta] = [(third >> this.nameBits) & low, third & low];
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
    const drawn = circle.draw(Math.max(place, 0), [place < 0 ? seeds : first, second]);
    return eta < arcs ? name * this.#size + drawn : (named.length + name) * this.#size;
  }
}
