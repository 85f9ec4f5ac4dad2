/**
 * The mechanism `block-design`: subset selection, local hashing, Hadamard and projective geometry response.
 *
 * Its formulas: docs/plan.md; the proof: block_design.py. A report is (order − 1) · M + position, and covers value x if
 * order·x − position (mod M) is one of s differences. Privacy rests on their number only.
 */

import { ceilDivide, fraction, largest, least, order, sum } from "../../exact.js";
import { Audit, boundedAudit, boundedBelief, once } from "../levels.js";
import { bigInteger, each, expect, integer, onlyFields } from "../../read.js";
import { SetLevels } from "../set_levels.js";

/** @typedef {import("../../exact.js").Fraction} Fraction */
/** @typedef {import("../../index.js").RandomWords} RandomWords */
/** @typedef {import("../levels.js").Notion} Notion */
/** @typedef {import("../kinds.js").Mechanism} Mechanism */
/** @typedef {import("../../prior.js").Prior} Prior */

const MAX_WORD_BITS = 64;
/** Reports stay below 2^52. */
const MAX_REPORTS = 2 ** 52;
const MAX_FIELD = 8191;
const MAX_RECURRENCE = 30;
const FIELDS = ["kind", "circle", "orders", "arc", "field", "recurrence", "step", "word_bits"];

/** A block design for the values of one prior. @implements {Mechanism} */
export class BlockDesign {
  static kind = "block-design";
  kind = BlockDesign.kind;
  /** Reports are kept as sums, never listed. */
  nPossibleReports = null;
  #prior;

  /**
   * @param {Prior} prior
   * @param {object} design
   * @param {number} design.circle M, the places
   * @param {number} design.orders A, 1 or M − 1
   * @param {number} design.arc s, how many differences there are
   * @param {bigint} design.step words for each of them
   * @param {readonly number[] | null} design.differences null if they are 0, …, s − 1
   * @param {number} design.wordBits w
   */
  constructor(prior, { circle, orders, arc, step, differences, wordBits }) {
    const words = 1n << BigInt(wordBits);
    const base = words - BigInt(arc) * step;
    const ignoring = base * (words / BigInt(orders * circle));
    const size = prior.weights.length;
    this.#prior = prior;
    /** A bound of the ratio of the likelihoods of two values. */
    this.odds = fraction(ignoring + step * ceilDivide(words, BigInt(orders)), ignoring);
    /** Reports are the integers below this. */
    this.nReports = orders * circle;
    /** How many values a report covers, at least and at most. */
    this.coverRange = [Math.max(0, arc - (circle - size)), Math.min(arc, size)];
    this.circle = BigInt(circle);
    this.arc = arc;
    this.step = step;
    this.base = base;
    this.differences = differences;
    this.wordBits = wordBits;
  }

  /**
   * The design that a plan holds.
   *
   * @param {Record<string, unknown>} data
   * @param {Prior} prior
   * @param {string} where
   * @param {import("../../read.js").Meter} spend
   */
  static fromDict(data, prior, where, spend) {
    onlyFields(data, where, FIELDS);
    const size = prior.weights.length;
    const circle = integer(data.circle, `${where}.circle`, Math.max(2, size), MAX_REPORTS);
    const orders = integer(data.orders, `${where}.orders`, 1, circle - 1);
    expect(size > 1 && orders * circle <= MAX_REPORTS, `${where}.orders`, "few enough for reports below 2^52");
    const arc = integer(data.arc, `${where}.arc`, 1, circle - 1);
    const field = integer(data.field, `${where}.field`, 0, MAX_FIELD);
    const [prime, power] = primePower(field);
    expect(!field || power > 0, `${where}.field`, "0, or a power of a prime");
    const coefficient = (/** @type {unknown} */ c, /** @type {string} */ at) => integer(c, at, 0, prime - 1);
    const recurrence = each(data.recurrence, `${where}.recurrence`, coefficient, 3 * power);
    expect(field || !recurrence.length, `${where}.recurrence`, "empty without a field");
    const ownPlaces = orders === 1 && arc === 1 && circle === size;
    const whole = field ? orders === 1 : orders === circle - 1 || ownPlaces;
    expect(whole, `${where}.orders`, "1 for a difference set or a place for each value, and else one less than the circle");
    const wordBits = integer(data.word_bits, `${where}.word_bits`, 1, MAX_WORD_BITS);
    expect(orders * circle <= 2 ** wordBits, `${where}.word_bits`, "long enough to reach all reports");
    const step = bigInteger(data.step, `${where}.step`);
    const leaves = step > 0n && BigInt(arc) * step < 1n << BigInt(wordBits);
    expect(leaves, `${where}.step`, "positive, and small enough to leave a base");
    spend(size);
    let differences = null;
    if (field) {
      const dimension = recurrence.length / power;
      const whole = Number.isInteger(dimension) && recurrence.length <= MAX_RECURRENCE;
      expect(whole, `${where}.recurrence`, "as long as a whole dimension of the field");
      expect(circle === nPoints(field, dimension), `${where}.circle`, "the number of points of the geometry");
      spend(power * circle);
      differences = hyperplane(prime, recurrence, circle, arc, power);
      expect(differences.length === arc, `${where}.arc`, "the size of a hyperplane, or of its complement");
    }
    return new BlockDesign(prior, { circle, orders, arc, step, differences, wordBits });
  }

  /** The randomizer of several designs. @param {readonly BlockDesign[]} designs */
  static sampler(designs) {
    return {
      /** A value with prior zero is randomized like any other. */
      one(/** @type {number} */ member, /** @type {number} */ x, /** @type {RandomWords} */ words) {
        const { wordBits } = designs[member];
        return designs[member].draw(x, [words.integer(wordBits), words.integer(wordBits)]);
      },
    };
  }

  /**
   * The report of value x: a pure function of two words.
   *
   * @param {number} x
   * @param {readonly bigint[]} words
   */
  draw(x, [first, second]) {
    const uniform = (second * BigInt(this.nReports)) >> BigInt(this.wordBits);
    if (first < this.base) return Number(uniform);
    const order = uniform / this.circle;
    const nth = (first - this.base) / this.step;
    const back = this.differences ? BigInt(this.differences[Number(nth)]) : nth;
    return Number(order * this.circle + modulo((order + 1n) * BigInt(x) - back, this.circle));
  }

  /**
   * Pr(report | x), exactly: base words of the report, and step words of its order if it covers x.
   *
   * @param {number} x
   * @param {number} report
   */
  likelihood(x, report) {
    const order = BigInt(report) / this.circle;
    const position = BigInt(report) % this.circle;
    const below = (/** @type {bigint} */ reports) =>
      ceilDivide(reports << BigInt(this.wordBits), BigInt(this.nReports));
    const own = below(BigInt(report) + 1n) - below(BigInt(report));
    const inOrder = below((order + 1n) * this.circle) - below(order * this.circle);
    const difference = Number(modulo((order + 1n) * BigInt(x) - position, this.circle));
    const covers = this.differences ? this.differences.includes(difference) : difference < this.arc;
    const pairs = this.base * own + (covers ? this.step * inOrder : 0n);
    return fraction(pairs, 1n << BigInt(2 * this.wordBits));
  }

  /** Bounds of the lifts of the values with positive prior; `block_design.py` proves them. */
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

  /** The LDP level bounds both sides under every prior there is. @param {import("../../prior.js").PriorSet} priorSet */
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

/** (q^t − 1)/(q − 1), the points of a projective geometry. @param {number} field @param {number} dimension */
function nPoints(field, dimension) {
  let points = 0;
  for (let k = 0; k < dimension; k++) points = points * field + 1;
  return points;
}

/**
 * [p, k] if q = p^k, p a prime; k is 0 for every other number.
 *
 * @param {number} q
 * @returns {[number, number]}
 */
function primePower(q) {
  let prime = 2;
  while (prime * prime <= q && q % prime) prime++;
  if (q % prime) prime = q;
  let power = 0;
  for (let rest = q; rest > 1; rest /= prime, power++) if (rest % prime) return [prime, 0];
  return [prime, power];
}

/**
 * The places n below `points` at which the recurrence u_{n+t} = Σ c_i u_{n+i} (mod p), from 0, …, 0, 1 on, is zero, and is
 * so at n + points, … as well if the field has a `power` of p elements; or the others, if they are `size`.
 *
 * @param {number} prime
 * @param {readonly number[]} recurrence
 * @param {number} points
 * @param {number} size
 * @param {number} power
 */
function hyperplane(prime, recurrence, points, size, power) {
  /** @type {number[]} */
  const terms = recurrence.map((_, i) => (i === recurrence.length - 1 ? 1 : 0));
  while (terms.length < power * points) {
    const start = terms.length - recurrence.length;
    let next = 0;
    for (let i = 0; i < recurrence.length; i++) next += recurrence[i] * terms[start + i];
    terms.push(next % prime);
  }
  const zero = Array.from({ length: points }, () => true);
  for (let n = 0; n < power * points; n++) if (terms[n]) zero[n % points] = false;
  const places = [...zero.keys()];
  const zeros = places.filter((n) => zero[n]);
  return zeros.length === size ? zeros : places.filter((n) => !zero[n]);
}

/** n mod m, not negative. @param {bigint} n @param {bigint} m */
const modulo = (n, m) => ((n % m) + m) % m;
