/**
 * The mechanism `tiers`: histograms of many values for a set of priors, where some reports leave out the heaviest ones.
 *
 * Its formulas: docs/plan.md; the proof: tiers/__init__.py. A report is the first one of its tier plus a report of that tier's
 * rule of `many-values`, which is bound to the prior without the values that the tier leaves out, its heads. `inside` counts
 * the values with positive prior only.
 */

import { fraction, gcd, larger, minus, order, over, plus, smaller, sum, times } from "../../exact.js";
import { Prior } from "../../prior.js";
import { each, expect, integer, object, oneOf, onlyFields } from "../../read.js";
import { Audit, boundedAudit, boundedBelief, inverse } from "../levels.js";
import { ManyValues } from "../many_values/many_values.js";
import { SetLevels } from "../set_levels.js";
import { RuleSampler } from "../stand_in.js";

/** @typedef {import("../../exact.js").Fraction} Fraction */
/** @typedef {import("../kinds.js").Mechanism} Mechanism */
/** @typedef {import("../levels.js").Notion} Notion */

/** Reports stay below 2^52. */
const MOST_REPORTS = 2 ** 52;
const MOST_TIERS = 8;
const ZERO = fraction(0n);

/** @typedef {object} Tier
 * @property {number} start how many of the heaviest values it leaves out
 * @property {number} chance how often it is drawn
 * @property {ManyValues} rule
 * @property {Fraction} heads H, the mass that it leaves out
 * @property {readonly number[]} places where each value of the support stands in its tail; −1 of a head
 * @property {number} first its first report
 */

/** Tiers for one prior. @implements {Mechanism} */
export class Tiers {
  static kind = "tiers";
  kind = Tiers.kind;
  /** Orders and positions are too many to be listed. */
  nPossibleReports = null;
  #prior;

  /** @param {Prior} prior @param {readonly Tier[]} tiers @param {number} nReports all reports are below */
  constructor(prior, tiers, nReports) {
    this.#prior = prior;
    this.tiers = tiers;
    this.nReports = nReports;
    this.wordBits = tiers[0].rule.wordBits;
    /** W, the bits of α, the first of the first word. */
    this.choiceBits = tiers[0].rule.choiceBits;
    this.wordsPerReport = Math.max(...tiers.map(({ rule }) => rule.wordsPerReport)) + 1;
    /** The first of the leading bits of the last word that chooses each tier. */
    this.chanceEdges = runningCounts(tiers.map(({ chance }) => chance));
    this.chances = tiers.reduce((count, { chance }) => count + chance, 0);
  }

  /**
   * The tiers that a plan holds.
   *
   * @param {Record<string, unknown>} data
   * @param {Prior} prior
   * @param {string} where
   * @param {import("../../read.js").Meter} spend
   */
  static fromDict(data, prior, where, spend) {
    onlyFields(data, where, ["kind", "tiers"]);
    const size = prior.support.length;
    expect(size > 1, where, "for two values or more");
    let first = 0;
    const readTier = (/** @type {unknown} */ one, /** @type {string} */ at) => {
      const tier = object(one, at);
      onlyFields(tier, at, ["start", "chance", "rule"]);
      const start = integer(tier.start, `${at}.start`, 0, size - 2);
      const chance = integer(tier.chance, `${at}.chance`, 1, 2 ** 32);
      const held = object(tier.rule, `${at}.rule`);
      oneOf(held.kind, `${at}.rule.kind`, [ManyValues.kind]);
      const tail = tailOf(prior, start, at);
      const rule = ManyValues.fromDict(held, tail, `${at}.rule`, spend);
      expect(held.bins === 0 && (!start || !rule.named.length), `${at}.rule`, "without bins, and giants in tier 0 only");
      const position = new Map(tail.support.map((x, place) => [x, place]));
      const places = prior.support.map((x) => position.get(x) ?? -1);
      const mass = fraction(sum(tail.support.map((x) => prior.weights[x])), prior.total);
      const made = { start, chance, rule, heads: minus(fraction(1n), mass), places, first };
      first += rule.end;
      return made;
    };
    const tiers = each(data.tiers, `${where}.tiers`, readTier);
    expect(tiers.length > 0 && tiers.length <= MOST_TIERS, `${where}.tiers`, `a list of 1 to ${MOST_TIERS} tiers`);
    const rising = tiers.every(({ start }, j) => (j ? start > tiers[j - 1].start : start === 0));
    expect(rising, `${where}.tiers`, "in the order of their starts, from 0 on");
    const [{ wordBits, choiceBits }] = tiers.map(({ rule }) => rule);
    const alike = tiers.every(({ rule }) => rule.wordBits === wordBits && rule.choiceBits === choiceBits);
    expect(alike, `${where}.tiers`, "with words and seeds of one length");
    expect(first <= MOST_REPORTS, `${where}.tiers`, "few enough for reports below 2^52");
    const made = new Tiers(prior, tiers, first);
    const whole = Number.isInteger(Math.log2(made.chances)) && made.chances <= 2 ** made.wordBits;
    expect(whole, `${where}.tiers`, "with chances that add up to a power of two, which a word reaches");
    return made;
  }

  /**
   * The randomizer of several mechanisms of this kind.
   *
   * @param {readonly Tiers[]} mechanisms
   * @param {readonly Prior[]} priors
   */
  static sampler(mechanisms, priors) {
    return new RuleSampler(mechanisms, priors);
  }

  /** A bound of the ratio of the likelihoods of two values. */
  get odds() {
    return this.tiers.map(({ rule }) => rule.odds).reduce(larger);
  }

  /**
   * Bounds of the lifts under every prior within total variation `radius`; `lift_range_of_tier` of Python proves them.
   *
   * @param {Fraction} [radius]
   */
  liftRange(radius = ZERO) {
    const ranges = this.tiers.map((tier) => liftRangeOf(tier, radius));
    return {
      highest: ranges.map(({ highest }) => highest).reduce(larger),
      lowest: ranges.map(({ lowest }) => lowest).reduce(smaller),
    };
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

  /** The tier of a report below `nReports`. @param {number} report */
  #tierOf(report) {
    return this.tiers.reduce((found, tier) => (tier.first <= report ? tier : found));
  }

  /** Whether there is such a report. @param {number} report */
  canSend(report) {
    if (report >= this.nReports) return false;
    const { rule, first } = this.#tierOf(report);
    return rule.canSend(report - first);
  }

  /** No report is the best guess of one value: it says how beliefs in all of them move. */
  label() {
    return null;
  }

  /** Pr(report | x), exactly; null for a value with prior zero. @param {number} x @param {number} report */
  likelihood(x, report) {
    const inside = this.#prior.support.indexOf(x);
    if (inside < 0) return null;
    if (report >= this.nReports) return ZERO;
    const { rule, first, chance, places } = this.#tierOf(report);
    const own = places[inside] < 0 ? rule.circle.uniformLikelihood(report - first) : rule.likelihood(x, report - first);
    return own && times(fraction(BigInt(chance), BigInt(this.chances)), own);
  }

  /**
   * The report of a value inside the support: a pure function of its words, that for the tier last.
   *
   * @param {number} inside
   * @param {readonly bigint[]} words
   */
  draw(inside, words) {
    const bits = BigInt(Math.log2(this.chances));
    const chosen = Number(words[words.length - 1] >> (BigInt(this.wordBits) - bits));
    const { rule, places, first } = this.tiers.reduce((found, tier, j) => (this.chanceEdges[j] <= chosen ? tier : found));
    const place = places[inside];
    // With α = 0 an answer is ignored; what is left of the word is the seed.
    const seeds = words[0] & ((1n << BigInt(rule.circle.seedBits / 2)) - 1n);
    const mine = [place < 0 ? seeds : words[0], ...words.slice(1, rule.wordsPerReport)];
    return first + rule.draw(Math.max(place, 0), mine);
  }
}

/**
 * The prior without its `start` heaviest values, of equally heavy ones the first.
 *
 * @param {Prior} prior
 * @param {number} start
 * @param {string} where
 */
function tailOf(prior, start, where) {
  const heads = new Set([...prior.support].sort((a, b) => order(prior.weights[b], prior.weights[a]) || a - b).slice(0, start));
  const left = prior.weights.map((weight, x) => (heads.has(x) ? 0n : weight));
  const common = gcd(left);
  return new Prior(left.map((weight) => String(weight / common)), where, left.length);
}

/** Bounds of the lifts of one tier. @param {Tier} tier @param {Fraction} radius */
function liftRangeOf({ rule, heads }, radius) {
  if (!heads.n) return rule.liftRange(radius);
  let [highest, lowest] = [fraction(1n), fraction(1n)];
  const tail = minus(fraction(1n), heads);
  const { arc, step, base } = rule.circle;
  for (const { common, onArc, part, slack } of rule.reportWeights()) {
    const [most, all, ignored] = [fraction(onArc), fraction(common), fraction((common / base) * arc * step)];
    const inTail = times(tail, most);
    const fewest = times(inTail, larger(minus(part, slack), ZERO));
    const largest = times(inTail, plus(part, slack));
    const per = fraction(1n, onArc);
    const reach = larger(minus(radius, times(fewest, per)), ZERO);
    const taken = plus(smaller(fewest, times(radius, most)), times(ignored, smaller(reach, heads)));
    const down = minus(plus(times(heads, ignored), fewest), taken);
    const beyond = minus(radius, minus(tail, smaller(times(largest, per), tail)));
    const kept = times(ignored, smaller(larger(beyond, ZERO), heads));
    const held = plus(kept, times(most, larger(minus(beyond, heads), ZERO)));
    const up = minus(plus(plus(times(heads, ignored), largest), times(radius, most)), held);
    const raised = over(plus(all, most), plus(all, larger(down, ZERO)));
    const lowered = over(all, plus(all, smaller(up, most)));
    highest = larger(highest, /** @type {Fraction} */ (raised));
    lowest = smaller(lowest, /** @type {Fraction} */ (lowered));
  }
  return { highest, lowest };
}

/** For each count the sum of those before it. @param {readonly number[]} counts */
function runningCounts(counts) {
  let before = 0;
  return counts.map((count) => (before += count) - count);
}
