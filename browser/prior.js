/**
 * The prior, known before the answers: integer weights, probability = weight / total. And sets of priors: a promise holds
 * for every member. Names and formulas are those of `tacit.prior`.
 *
 * Every member is supported where the nominal prior is. Masses are integers over a common denominator, `scale`.
 */

import { compare, fraction, gcd, largest, lcm, least, minus, order, plus, smaller, sum } from "./exact.js";
import { bigInteger, each, expect, list, object, oneOf, onlyFields, rational } from "./read.js";

/** @typedef {import("./exact.js").Fraction} Fraction */
/** @typedef {import("./read.js").Meter} Meter */
/** @typedef {Ball | Box | Hull} PriorSet a convex set of priors, with exact extremes of every linear function on it */

/** Up to this many values the radius of a box is searched over all subsets; beyond, it is bounded from above. */
const SUBSETS_LIMIT = 12;
/** Common denominators of more bits are refused: one of many unlike denominators would take minutes. */
const MAX_SCALE_BITS = 4096;

/** A prior, read from a plan. */
export class Prior {
  /** @param {unknown} data @param {string} where @param {number} size the number of values */
  constructor(data, where, size) {
    this.weights = each(data, where, bigInteger);
    this.total = sum(this.weights);
    expect(this.weights.length === size, where, `one weight for each of the ${size} values`);
    expect(this.total > 0n, where, "a list with a positive weight");
    expect(gcd(this.weights) === 1n, where, "weights without a common divisor");
    /** Positions of the values that a promise about beliefs covers. */
    this.support = [...this.weights.keys()].filter((x) => this.weights[x] > 0n);
    /** Positions of the others. */
    this.outside = [...this.weights.keys()].filter((x) => !this.weights[x]);
  }

  /** Whether all values are believed equally likely. */
  get isUniform() {
    return this.weights.every((weight) => weight === this.weights[0]);
  }

  /** P(x), exactly. @param {number} x */
  probability(x) {
    return fraction(this.weights[x], this.total);
  }

  /**
   * The first `count` positions of the support, or of some of it, the least likely first.
   *
   * @param {number} count
   */
  rarest(count, positions = this.support) {
    return [...positions].sort((a, b) => order(this.weights[a], this.weights[b])).slice(0, count);
  }
}

/** What every set does with the one thing that differs: the member that makes P·w least. */
class Around {
  /** @param {Prior} prior the nominal one @param {bigint} scale the denominator of the masses of `least` */
  constructor(prior, scale) {
    this.prior = prior;
    this.scale = scale;
  }

  /**
   * Masses of a member with the least P·w; `ascending` lists the support from the least w to the largest.
   *
   * @param {readonly bigint[]} _column
   * @param {readonly number[]} _ascending
   * @returns {readonly bigint[]}
   */
  least(_column, _ascending) {
    throw new Error("Every set says it.");
  }

  /** min and max of P·w over the set. @param {readonly bigint[]} column @returns {[Fraction, Fraction]} */
  extremes(column) {
    const ascending = [...this.prior.support].sort((a, b) => order(column[a], column[b]));
    const negative = column.map((weight) => -weight);
    const low = dot(this.least(column, ascending), column);
    const high = dot(this.least(negative, [...ascending].reverse()), column);
    return [fraction(low, this.scale), fraction(high, this.scale)];
  }
}

/** Every prior within total variation `radius`: P·w is least if τ of the mass moves from the largest w to the least. */
export class Ball extends Around {
  static kind = "ball";
  kind = Ball.kind;
  #masses;

  /** @param {Prior} prior @param {Fraction} radius */
  constructor(prior, radius) {
    const rarest = prior.probability(prior.rarest(1)[0]);
    // A larger radius reaches no further prior.
    const reached = smaller(radius, minus(fraction(1n), rarest));
    super(prior, prior.total * reached.d);
    this.radius = reached;
    this.#masses = prior.weights.map((weight) => weight * reached.d);
  }

  /** @param {readonly bigint[]} _column @param {readonly number[]} ascending */
  least(_column, ascending) {
    const masses = [...this.#masses];
    const moving = this.radius.n * this.prior.total;
    let left = moving;
    for (let i = ascending.length - 1; left; i--) {
      const taken = least([masses[ascending[i]], left]);
      masses[ascending[i]] -= taken;
      left -= taken;
    }
    masses[ascending[0]] += moving;
    return masses;
  }

  /** The ball that a plan holds. @param {Record<string, unknown>} data @param {Prior} prior @param {string} where */
  static fromDict(data, prior, where) {
    onlyFields(data, where, ["kind", "radius"]);
    const radius = rational(data.radius, `${where}.radius`);
    expect(radius.n >= 0n && radius.n <= radius.d, `${where}.radius`, "between 0 and 1");
    const ball = new Ball(prior, radius);
    expect(compare(ball.radius, radius) === 0, `${where}.radius`, "as wide as priors reach");
    return ball;
  }
}

/** Every prior with low ≤ P ≤ high: P·w is least if what `low` leaves fills values up to `high`, the least w first. */
export class Box extends Around {
  static kind = "box";
  kind = Box.kind;
  #low;
  #high;

  /** @param {Prior} prior @param {readonly Fraction[]} low @param {readonly Fraction[]} high */
  constructor(prior, low, high) {
    const scale = lcm([prior.total, ...new Set([...low, ...high].map(({ d }) => d))]);
    super(prior, scale);
    this.#low = low.map(({ n, d }) => n * (scale / d));
    this.#high = high.map(({ n, d }) => n * (scale / d));
  }

  /** @param {readonly bigint[]} _column @param {readonly number[]} ascending */
  least(_column, ascending) {
    const masses = [...this.#low];
    let left = this.scale - sum(this.#low);
    for (const x of ascending) {
      const filled = least([this.#high[x] - this.#low[x], left]);
      masses[x] += filled;
      left -= filled;
    }
    return masses;
  }

  /**
   * max over sets A of values of min(Σ_A (high − P̂), Σ_{not A} (P̂ − low)): what A can gain and the rest lose.
   *
   * Exact for up to 12 values. Beyond, A may contain fractions of values, which bounds it from above.
   */
  get radius() {
    const room = this.prior.support.map((x) => {
      const share = this.prior.weights[x] * (this.scale / this.prior.total);
      return { up: this.#high[x] - share, down: share - this.#low[x] };
    });
    const found = room.length <= SUBSETS_LIMIT ? overSubsets(room) : overFractions(room);
    return fraction(found.n, found.d * this.scale);
  }

  /**
   * The box that a plan holds.
   *
   * @param {Record<string, unknown>} data
   * @param {Prior} prior
   * @param {string} where
   * @param {Meter} spend
   */
  static fromDict(data, prior, where, spend) {
    onlyFields(data, where, ["kind", "low", "high"]);
    const [low, high] = [each(data.low, `${where}.low`, rational), each(data.high, `${where}.high`, rational)];
    for (const [name, ends] of Object.entries({ low, high }))
      expect(ends.length === prior.weights.length, `${where}.${name}`, "one number for each value");
    spend(low.length + high.length);
    for (const [x, weight] of prior.weights.entries()) {
      const share = prior.probability(x);
      const inside = low[x].n >= 0n && compare(low[x], share) <= 0 && compare(share, high[x]) <= 0;
      expect(inside && high[x].n <= high[x].d, `${where}.low and .high`, "0 ≤ low ≤ P ≤ high ≤ 1 at every value");
      expect(weight || !high[x].n, `${where}.high[${x}]`, "0, as the prior is");
    }
    checkScale([prior.total, ...[...low, ...high].map(({ d }) => d)], where);
    return new Box(prior, low, high);
  }
}

/** Every mixture of the nominal prior and some candidates: P·w is least at one of them. */
export class Hull extends Around {
  static kind = "hull";
  kind = Hull.kind;
  #members;

  /** @param {Prior} prior @param {readonly Prior[]} candidates */
  constructor(prior, candidates) {
    const members = [prior, ...candidates];
    const scale = lcm(members.map(({ total }) => total));
    super(prior, scale);
    this.candidates = candidates;
    this.#members = members.map(({ weights, total }) => weights.map((weight) => weight * (scale / total)));
  }

  /** @param {readonly bigint[]} column @param {readonly number[]} _ascending */
  least(column, _ascending) {
    const values = this.#members.map((masses) => dot(masses, column));
    return this.#members[values.indexOf(least(values))];
  }

  /** The distance of the furthest candidate: a convex function is largest at an end. */
  get radius() {
    const [nominal] = this.#members;
    const gained = this.#members.map((masses) =>
      sum(masses.map((mass, x) => (mass > nominal[x] ? mass - nominal[x] : 0n))),
    );
    return fraction(largest(gained), this.scale);
  }

  /**
   * The hull that a plan holds.
   *
   * @param {Record<string, unknown>} data
   * @param {Prior} prior
   * @param {string} where
   * @param {Meter} spend
   */
  static fromDict(data, prior, where, spend) {
    onlyFields(data, where, ["kind", "candidates"]);
    spend(list(data.candidates, `${where}.candidates`, 0).length * prior.weights.length);
    const candidates = each(
      data.candidates,
      `${where}.candidates`,
      (weights, at) => {
        const candidate = new Prior(weights, at, prior.weights.length);
        const possible = prior.outside.every((x) => !candidate.weights[x]);
        expect(possible, at, "zero where the prior is zero");
        return candidate;
      },
      0,
    );
    checkScale([prior.total, ...candidates.map(({ total }) => total)], where);
    return new Hull(prior, candidates);
  }
}

/** @type {Readonly<Record<string, typeof Ball | typeof Box | typeof Hull>>} Every set that a plan can hold. */
const KINDS = Object.freeze({ [Ball.kind]: Ball, [Box.kind]: Box, [Hull.kind]: Hull });

/**
 * The set around a prior that a plan describes.
 *
 * @param {unknown} data
 * @param {Prior} prior
 * @param {string} where
 * @param {Meter} spend
 * @returns {PriorSet}
 */
export function readSet(data, prior, where, spend) {
  const described = object(data, where);
  const kind = oneOf(described.kind, `${where}.kind`, Object.keys(KINDS));
  return KINDS[kind].fromDict(described, prior, where, spend);
}

/** Refuse denominators without a common multiple of sensible size. @param {bigint[]} parts @param {string} where */
function checkScale(parts, where) {
  let multiple = 1n;
  for (const part of new Set(parts)) {
    multiple = lcm([multiple, part]);
    expect(multiple >> BigInt(MAX_SCALE_BITS) === 0n, where, `over a common denominator below 2^${MAX_SCALE_BITS}`);
  }
}

/** @typedef {readonly {up: bigint, down: bigint}[]} Room what each value can gain, and lose */

/** The most that a set of values can gain and the rest lose. @param {Room} room */
function overSubsets(room) {
  let pairs = [{ gained: 0n, lost: 0n }];
  for (const { up, down } of room)
    pairs = pairs.flatMap(({ gained, lost }) => [
      { gained: gained + up, lost },
      { gained, lost: lost + down },
    ]);
  return fraction(largest(pairs.map(({ gained, lost }) => least([gained, lost]))));
}

/** The same if the set may hold fractions: values that gain most, relative to what the rest loses, come first. @param {Room} room */
function overFractions(room) {
  const sorted = room
    .filter(({ up, down }) => up + down)
    .sort((a, b) => order(b.up * (a.up + a.down), a.up * (b.up + b.down)));
  let [gained, lost] = [0n, sum(room.map(({ down }) => down))];
  for (const { up, down } of sorted) {
    if (gained + up >= lost - down) return plus(fraction(gained), fraction(up * (lost - gained), up + down));
    [gained, lost] = [gained + up, lost - down];
  }
  return fraction(gained);
}

/** P·w. @param {readonly bigint[]} masses @param {readonly bigint[]} column */
const dot = (masses, column) => masses.reduce((total, mass, x) => total + mass * column[x], 0n);
