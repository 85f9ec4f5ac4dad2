/**
 * What mechanisms have in common that need no prior: `tacit.mechanism.pure_protocol`, which proves it.
 *
 * The likelihood of a report under x depends on whether it covers x only, and odds between values are at most `odds`.
 */

import { fraction, largest, least, order, sum } from "./exact.js";
import { Audit, boundedAudit, boundedBelief, once } from "./levels.js";
import { SetLevels } from "./set_levels.js";

/** @typedef {import("./exact.js").Fraction} Fraction */
/** @typedef {import("./index.js").RandomWords} RandomWords */
/** @typedef {import("./levels.js").Notion} Notion */
/** @typedef {import("./prior.js").Prior} Prior */
/** @typedef {import("./stand_in.js").Rule} Rule */

/** A mechanism for values that are all alike. */
export class PureProtocol {
  /** Reports are kept as sums, never listed. */
  nPossibleReports = null;
  #prior;

  /**
   * @param {Prior} prior
   * @param {Fraction} odds a bound of the ratio of the likelihoods of two values
   * @param {number} nReports reports are the integers below this
   * @param {readonly [number, number]} covered of how many values, at least and at most, a report covers
   */
  constructor(prior, odds, nReports, covered) {
    this.#prior = prior;
    this.odds = odds;
    this.nReports = nReports;
    this.coverRange = covered;
  }

  /** The randomizer of several: values with prior zero are randomized like others. @param {readonly Rule[]} rules */
  static sampler(rules) {
    return new ProtocolSampler(rules);
  }

  /** Bounds of the lifts of the values with positive prior; `PureProtocol.lift_range` proves them. */
  liftRange = once((prior) => {
    const rising = [...prior.weights].sort(order);
    const [fewest, most] = this.coverRange;
    const rarest = rising[rising.length - prior.support.length];
    const light = largest([rarest, sum(rising.slice(0, fewest))]);
    const heavy = least([prior.total - rarest, sum(rising.slice(rising.length - most))]);
    // A likelihood in units of that of an uncovered value; the mean of all has the mass `covered` covered.
    const { n, d } = this.odds;
    const mean = (/** @type {bigint} */ covered) => d * prior.total + (n - d) * covered;
    return {
      highest: fraction(n * prior.total, mean(light)),
      lowest: fraction(d * prior.total, mean(heavy)),
    };
  });

  /** The LDP level, and bounds of the others. @param {Prior} prior */
  audit(prior) {
    this.#checkPrior(prior);
    const { highest, lowest } = this.liftRange(prior);
    return new Audit({ ...boundedAudit(prior, highest, lowest), ldp: this.odds });
  }

  /** Whether the bounds keep a promise. @param {Prior} prior @param {Notion} notion @param {Fraction} epsilon */
  keeps(prior, notion, epsilon) {
    return this.audit(prior).holds(notion, epsilon);
  }

  /** The LDP level bounds both sides under every prior there is. @param {import("./prior_set.js").PriorSet} priorSet */
  setLevels(priorSet) {
    this.#checkPrior(priorSet.prior);
    return new SetLevels(this.odds, this.odds);
  }

  /** A range in which a report can put the belief in value x. @param {Prior} prior @param {number} x */
  belief(prior, x) {
    this.#checkPrior(prior);
    const { highest, lowest } = this.liftRange(prior);
    return boundedBelief(prior, x, highest, lowest);
  }

  /** @param {Prior} prior */
  #checkPrior(prior) {
    if (prior !== this.#prior) throw new RangeError("This mechanism was made for another prior.");
  }

  /** Whether there is such a report. @param {number} report */
  canSend(report) {
    return report < this.nReports;
  }

  /** No report is the best guess of one value: it covers several. */
  label() {
    return null;
  }
}

/** Rules ready to draw, without stand-ins. */
class ProtocolSampler {
  #rules;

  /** @param {readonly Rule[]} rules */
  constructor(rules) {
    this.#rules = rules;
  }

  /** One respondent's report. @param {number} member @param {number} x @param {RandomWords} words */
  one(member, x, words) {
    const rule = this.#rules[member];
    return rule.draw(
      x,
      Array.from({ length: rule.wordsPerReport }, () => words.integer(rule.wordBits)),
    );
  }
}
