/**
 * The mechanism `table`: a row of integers over 2^w for each value, a column for each report.
 *
 * With A the integers, P the prior's over W and Λ_y = Σ P_x A_xy, the lift of x at y is A_xy·W / Λ_y.
 */

import { compare, fraction, larger, largest, least, rank, runningSums, smaller, sum } from "../../exact.js";
import { Audit, inverse, once } from "../levels.js";
import { bigInteger, each, expect, integer, list, onlyFields } from "../../read.js";
import { setLiftLevels } from "../set_levels.js";

/** @typedef {import("../../exact.js").Fraction} Fraction */
/** @typedef {import("../../index.js").RandomWords} RandomWords */
/** @typedef {import("../levels.js").Notion} Notion */
/** @typedef {import("../kinds.js").Mechanism} Mechanism */
/** @typedef {import("../../prior.js").Prior} Prior */

/** Denominators are powers of two up to this exponent. */
const MAX_BITS = 1024;
/** Words have this many bits where they suffice. */
const WORD_SIZES = [32, 64];

/**
 * A channel written out: value x is reported as y with probability weights[x][y] / denominator.
 *
 * @implements {Mechanism}
 */
export class Channel {
  static kind = "table";
  kind = Channel.kind;

  /**
   * @param {readonly (readonly bigint[])[]} weights
   * @param {bigint} denominator 2^w, the sum of each row
   * @param {readonly number[]} labels the value that each report is the best guess of
   */
  constructor(weights, denominator, labels) {
    this.weights = weights;
    this.denominator = denominator;
    this.labels = labels;
    /** The bits of a word that decide a report. */
    this.bits = denominator.toString(2).length - 1;
  }

  /**
   * The table that a plan holds.
   *
   * @param {Record<string, unknown>} data
   * @param {Prior} prior
   * @param {string} where
   * @param {import("../../read.js").Meter} spend
   */
  static fromDict(data, prior, where, spend) {
    onlyFields(data, where, ["kind", "denominator", "labels", "rows"]);
    const size = prior.weights.length;
    const denominator = bigInteger(data.denominator, `${where}.denominator`);
    const bits = denominator.toString(2).length - 1;
    const isPower = denominator === 1n << BigInt(bits) && bits <= MAX_BITS;
    expect(isPower, `${where}.denominator`, `a power of two, at most 2^${MAX_BITS}`);
    const labels = each(data.labels, `${where}.labels`, (label, at) => integer(label, at, 0, size - 1));
    spend(size * labels.length);
    expect(list(data.rows, `${where}.rows`).length === size, `${where}.rows`, `one row for each of the ${size} values`);
    const weights = each(data.rows, `${where}.rows`, (row, at) => {
      const cells = each(row, at, bigInteger);
      expect(cells.length === labels.length, at, `as long as the labels, ${labels.length}`);
      expect(sum(cells) === denominator, at, "integers that sum to the denominator");
      return cells;
    });
    return new Channel(weights, denominator, labels);
  }

  /** The randomizer of several tables. @param {readonly Channel[]} channels */
  static sampler(channels) {
    return new TableSampler(channels);
  }

  /** How many different reports there are. */
  get nPossibleReports() {
    return this.labels.length;
  }

  /** λ_y · denominator · prior.total for each report y, as exact integers. */
  marginalWeights = once((prior) => {
    if (prior.weights.length !== this.weights.length) throw new RangeError("This channel was made for another prior.");
    return this.labels.map((_, y) => sum(prior.support.map((x) => prior.weights[x] * this.weights[x][y])));
  });

  /** Every level under the prior. */
  audit = once((prior) => {
    const marginal = this.marginalWeights(prior);
    let [highest, lowest] = [fraction(0n), fraction(prior.total)];
    for (const y of sent(marginal)) {
      const column = prior.support.map((x) => this.weights[x][y]);
      highest = larger(highest, fraction(largest(column) * prior.total, marginal[y]));
      lowest = smaller(lowest, fraction(least(column) * prior.total, marginal[y]));
    }
    const exposed = prior.outside.filter((x) => this.weights[x].some((cell, y) => cell > 0n && !marginal[y]));
    return new Audit({
      lipUpper: highest,
      lipLower: inverse(lowest),
      ldp: this.#ldp(),
      outside: prior.outside,
      exposed,
    });
  });

  /** The largest ratio of two values' chances of one report, for every prior; null if unbounded. */
  #ldp() {
    let worst = fraction(1n);
    for (const y of this.labels.keys()) {
      const column = this.weights.map((row) => row[y]);
      const most = largest(column);
      if (!most) continue;
      if (!least(column)) return null;
      worst = larger(worst, fraction(most, least(column)));
    }
    return worst;
  }

  /** Whether it keeps a promise, exactly. @param {Prior} prior @param {Notion} notion @param {Fraction} epsilon */
  keeps(prior, notion, epsilon) {
    return this.audit(prior).holds(notion, epsilon);
  }

  /** The exact levels for the worst prior of the set. @param {import("../../prior.js").PriorSet} priorSet */
  setLevels(priorSet) {
    return setLiftLevels(this.weights, priorSet);
  }

  /** The range in which a report can put the belief in value x. @param {Prior} prior @param {number} x */
  belief(prior, x) {
    const marginal = this.marginalWeights(prior);
    const posteriors = sent(marginal).map((y) => fraction(prior.weights[x] * this.weights[x][y], marginal[y]));
    posteriors.sort(compare);
    return { prior: prior.probability(x), low: posteriors[0], high: posteriors[posteriors.length - 1] };
  }

  /** Whether there is such a report. @param {number} report */
  canSend(report) {
    return report < this.nPossibleReports;
  }

  /** The value that a report is the best guess of. @param {number} report */
  label(report) {
    return this.labels[report];
  }

  /** Pr(report | x), exactly. @param {number} x @param {number} report */
  likelihood(x, report) {
    return fraction(this.weights[x][report], this.denominator);
  }
}

/** Tables of a plan. All take words of the same length, so that the words do not depend on whose turn it is. */
class TableSampler {
  #channels;

  /** @param {readonly Channel[]} channels */
  constructor(channels) {
    this.#channels = channels;
    const bits = channels.reduce((most, channel) => Math.max(most, channel.bits), 0);
    this.wordBits = WORD_SIZES.find((size) => bits <= size) ?? bits;
  }

  /**
   * The report for value x: the number of running sums of its row that are at most the word's leading bits.
   *
   * @param {number} member
   * @param {number} x
   * @param {RandomWords} words
   */
  one(member, x, words) {
    const { weights, bits } = this.#channels[member];
    const word = words.integer(this.wordBits);
    return rank(runningSums(weights[x]), word >> BigInt(this.wordBits - bits));
  }
}

/** The reports with a positive probability. @param {readonly bigint[]} marginal */
const sent = (marginal) => [...marginal.keys()].filter((y) => marginal[y] > 0n);
