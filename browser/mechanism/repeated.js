/**
 * Several reports of one person: what they add up to, two layers, and the belief after earlier reports.
 *
 * Names and formulas are those of `tacit.mechanism.repeated` and `tacit.designs.panels`.
 */

import { compare, fraction, gcd, lcm, sum } from "../exact.js";
import { BlockDesign } from "./block_design/block_design.js";
import { readMechanism } from "./kinds.js";
import { ManyValues } from "./many_values/many_values.js";
import { bigInteger, each, expect, integer, object, onlyFields } from "../read.js";
import { Channel } from "./table/table.js";
import { Tiers } from "./tiers/tiers.js";

/** @typedef {import("../exact.js").Fraction} Fraction */
/** @typedef {import("../index.js").RandomWords} RandomWords */
/** @typedef {import("../prior.js").Prior} Prior */
/** @typedef {import("../prior.js").PriorSet} PriorSet */
/** @typedef {import("./kinds.js").Mechanism} Mechanism */
/** @typedef {import("../index.js").Column} Column */

/** The chance of sending the stored report is a multiple of 2^−12; it is compared with a word of 16 bits. */
const [RESEND_BITS, RESEND_WORD] = [12, 16];

/**
 * What a report can tell: the columns of a channel, of the answers with positive prior.
 *
 * @param {Channel} channel
 * @param {Prior} prior
 * @param {PriorSet | null} priorSet the priors in question; without it the prior alone
 * @returns {Column[]}
 */
export function columnsOf({ weights, labels }, prior, priorSet) {
  const columns = labels.map((_, y) => weights.map((row) => row[y]));
  return columns.flatMap((column) => {
    const held = prior.support.map((x) => column[x]);
    const common = gcd(held);
    const heights = [...new Set(held)].sort((a, b) => (a < b ? -1 : 1));
    if (!common) return [];
    return [heights.map((height) => ({ height: height / common, ...reach(column.map((each) => each >= height)) }))];
  });

  /** @param {readonly boolean[]} inside */
  function reach(inside) {
    if (!priorSet) {
      const share = fraction(sum(prior.weights.filter((_, x) => inside[x])), prior.total);
      return { high: share, low: share };
    }
    const [low, high] = priorSet.extremes(inside.map((one, x) => BigInt(one && prior.weights[x] > 0n)));
    return { high, low };
  }
}

/**
 * How many sequences of columns `largestRatio` looks at; the order of equal releases does not matter.
 *
 * @param {readonly {columns: readonly unknown[], times: number}[]} releases
 */
export const nSequences = (releases) =>
  releases.reduce((product, { columns, times }) => {
    let count = 1n;
    for (let k = 1n; k <= BigInt(times); k++) count = (count * (BigInt(columns.length) + k - 1n)) / k;
    return product * count;
  }, 1n);

/**
 * By how much all reports together change a belief at most, however the answers are related; null where
 * it is unbounded. `repeated.py` has the proof.
 *
 * @param {readonly {columns: readonly Column[], times: number}[]} releases those with equal columns counted together
 * @returns {Fraction | null}
 */
export function largestRatio(releases) {
  const all = releases.flatMap(({ columns }) => columns);
  if (all.some(([first]) => !first.height)) return null;
  const unit = lcm(all.flatMap((column) => column.flatMap(({ high, low }) => [high.d, low.d])));
  const facts = releases.map(({ columns, times }) => ({ times, columns: columns.map((column) => factsOf(column, unit)) }));
  let worst = fraction(1n);
  for (const chosen of sequences(facts)) {
    let [least, most, count] = [1n, 1n, 0n];
    for (const { first, last, times } of chosen) {
      least *= first ** times;
      most *= last ** times;
      count += times;
    }
    const spare = (1n - count) * unit;
    const low = least * spare + sum(chosen.map(({ first, mean, times }) => times * (least / first) * mean));
    const high = most * spare + sum(chosen.map(({ last, mean, times }) => times * (most / last) * mean));
    let [highest, before] = [0n, 0n];
    const edges = new Set(chosen.flatMap(({ tails }) => tails.map(([, tail]) => tail)));
    for (const edge of [...edges].sort((a, b) => (a < b ? -1 : 1))) {
      let product = edge - before;
      for (const { tails, times } of chosen) product *= heightAt(tails, edge) ** times;
      highest += product;
      before = edge;
    }
    const lowered = fraction(highest, unit * least);
    const raised = fraction(unit * most, low > high ? low : high);
    for (const ratio of [lowered, raised]) if (compare(ratio, worst) > 0) worst = ratio;
  }
  return worst;
}

/** The largest height that this part of people, those who make a report most likely, have. @param {[bigint, bigint][]} tails @param {bigint} edge */
const heightAt = (tails, edge) => (tails.filter(([, tail]) => tail >= edge).at(-1) ?? tails[0])[0];

/** The least and the largest height, the least mean and the tails, the latter two in parts of `unit`. @param {Column} column @param {bigint} unit */
function factsOf(column, unit) {
  const parts = (/** @type {Fraction} */ share) => (share.n * unit) / share.d;
  const rise = (/** @type {number} */ k) => column[k].height - (k ? column[k - 1].height : 0n);
  return {
    first: column[0].height,
    last: column[column.length - 1].height,
    mean: sum(column.map(({ low }, k) => rise(k) * parts(low))),
    tails: column.map(({ height, high }) => /** @type {[bigint, bigint]} */ ([height, parts(high)])),
  };
}

/**
 * Every choice of columns, one for each release, as columns with how often each is chosen.
 *
 * @template T
 * @param {readonly {columns: readonly T[], times: number}[]} releases
 * @returns {Generator<(T & {times: bigint})[]>}
 */
function* sequences([first, ...others]) {
  if (!first) return void (yield []);
  for (const counts of shared(first.times, first.columns.length)) {
    const chosen = first.columns.map((column, k) => ({ ...column, times: BigInt(counts[k]) })).filter(({ times }) => times);
    for (const rest of sequences(others)) yield [...chosen, ...rest];
  }
}

/** All ways to share `times` among some places. @param {number} times @param {number} places @returns {Generator<number[]>} */
function* shared(times, places) {
  if (places === 1) return void (yield [times]);
  for (let here = 0; here <= times; here++) for (const rest of shared(times - here, places - 1)) yield [here, ...rest];
}

/** Two layers of a group: a stored report, and the chance of sending it again in a wave. */
export class Layers {
  /** @param {Fraction} lifelong @param {Mechanism} stored @param {number} resend @param {Channel | null} noise */
  constructor(lifelong, stored, resend, noise) {
    this.lifelong = lifelong;
    this.stored = stored;
    this.resend = resend;
    this.noise = noise;
    Object.freeze(this);
  }

  /**
   * The layers that a plan holds, whose product must be the group's mechanism, integer by integer.
   *
   * @param {Record<string, unknown>} group
   * @param {Mechanism} mechanism
   * @param {Prior} prior
   * @param {string} where
   * @param {import("../read.js").Meter} spend
   * @param {(data: unknown, where: string) => Fraction} readBudget
   */
  static fromDict(group, mechanism, prior, where, spend, readBudget) {
    const layers = object(group.layers, where);
    onlyFields(layers, where, ["lifelong", "noise", "resend", "stored"]);
    const lifelong = readBudget(layers.lifelong, `${where}.lifelong`);
    const resend = integer(layers.resend, `${where}.resend`, 1, 1 << RESEND_BITS);
    const stored = readMechanism(layers.stored, prior, `${where}.stored`, spend);
    const isTable = stored instanceof Channel;
    expect("noise" in layers === isTable, `${where}.noise`, "an integer for each report of a table, and nothing else");
    const noise = isTable ? each(layers.noise, `${where}.noise`, bigInteger) : null;
    const made = noise ? productOf(/** @type {Channel} */ (stored), resend, noise, where) : null;
    const product = made ? isSame(made, mechanism) : isScaled(object(layers.stored, where), object(group.mechanism, where), resend);
    expect(product, `${where}`, "whose product is the mechanism, integer by integer");
    return new Layers(lifelong, stored, resend, noise && new Channel([noise], sum(noise), noise.map(() => 0)));
  }

  /** The report to store of the answer at a position. @param {Prior} prior @param {number} x @param {RandomWords} words */
  store(prior, x, words) {
    const kind = /** @type {import("./kinds.js").Kind} */ (/** @type {unknown} */ (this.stored.constructor));
    return kind.sampler([this.stored], [prior]).one(0, x, words);
  }

  /** What a wave sends of a stored report: a word of 16 bits says whether it does. @param {number} stored @param {RandomWords} words */
  send(stored, words) {
    const resent = Number(words.integer(RESEND_WORD)) >> (RESEND_WORD - RESEND_BITS) < this.resend;
    const other = this.#other(words);
    return resent ? stored : other;
  }

  /** A report that does not depend on the answer. @param {RandomWords} words */
  #other(words) {
    if (this.noise) return Channel.sampler([this.noise]).one(0, 0, words);
    const rule = /** @type {BlockDesign | ManyValues | Tiers} */ (this.stored);
    const [count, choice] = rule instanceof BlockDesign ? [2, rule.wordBits] : [rule.wordsPerReport, rule.choiceBits];
    const [first, ...rest] = Array.from({ length: count }, () => words.integer(rule.wordBits));
    // The first bits of the first word are α: with α = 0 a rule ignores the answer.
    return rule.draw(0, [BigInt.asUintN(rule.wordBits - choice, first), ...rest]);
  }
}

/** The rows of what a wave sends, and their sum. @param {Channel} stored @param {number} resend @param {readonly bigint[]} noise @param {string} where */
function productOf({ weights, denominator }, resend, noise, where) {
  const total = sum(noise);
  const power = total > 0n && !(total & (total - 1n));
  expect(power && noise.length === weights[0].length, `${where}.noise`, "integers that sum to a power of two, one for each report");
  const [again, other] = [BigInt(resend) * total, BigInt((1 << RESEND_BITS) - resend) * denominator];
  return { rows: weights.map((row) => row.map((cell, y) => again * cell + other * noise[y])), total: (denominator * total) << BigInt(RESEND_BITS) };
}

/** @param {{rows: bigint[][], total: bigint}} made @param {Mechanism} mechanism */
const isSame = ({ rows, total }, mechanism) =>
  mechanism instanceof Channel &&
  mechanism.denominator === total &&
  mechanism.weights.every((row, x) => row.length === rows[x].length && row.every((cell, y) => cell === rows[x][y]));

/** Whether a rule is another one but for its steps, which are the part `resend`. @param {any} stored @param {any} sent @param {number} resend @returns {boolean} */
function isScaled(stored, sent, resend) {
  if (typeof stored !== "object" || typeof sent !== "object" || !stored || !sent) return stored === sent;
  return Object.keys({ ...stored, ...sent }).every((name) =>
    name === "step"
      ? BigInt(stored.step) * BigInt(resend) === BigInt(sent.step) << BigInt(RESEND_BITS)
      : isScaled(stored[name], sent[name], resend),
  );
}

/**
 * Weights of the belief one wave later, without a common divisor.
 *
 * @param {readonly bigint[]} weights of the belief in each answer
 * @param {readonly (readonly Fraction[])[]} moves how likely each next answer is after each last one
 */
export function after(weights, moves) {
  const unit = lcm(moves.flat().map(({ d }) => d));
  return reduced(moves.map((_, y) => sum(weights.map((weight, x) => (weight * moves[x][y].n * unit) / moves[x][y].d))));
}

/** Weights of the belief after a report of a table, without a common divisor. @param {Channel} channel @param {Prior} prior @param {number} report */
export const posterior = (channel, prior, report) => reduced(prior.weights.map((weight, x) => weight * channel.weights[x][report]));

/** @param {readonly bigint[]} weights */
function reduced(weights) {
  const common = gcd(weights);
  return weights.map((weight) => weight / common);
}
