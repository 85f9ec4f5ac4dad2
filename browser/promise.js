/** The promise in words, from the plan's own numbers: word for word what `tacit.show.sentences.promise` says. */

import { ceilDivide, compare, floorDivide, fraction, smaller } from "./exact.js";

/** @typedef {import("./exact.js").Fraction} Fraction */

/**
 * A share as a percentage with three significant digits, rounded so that a bound stays a bound.
 *
 * A probability near one is read by its distance from it, so that is what gets the digits.
 *
 * @param {Fraction} share
 * @param {"near" | "up" | "down"} direction
 */
export function percent(share, direction = "near") {
  const hundred = fraction(share.n * 100n, share.d);
  const rest = fraction(share.d * 100n - hundred.n, share.d);
  const inside = hundred.n > 0n && rest.n > 0n;
  const places = Math.max(1, 2 - (inside ? magnitude(smaller(hundred, rest)) : 0));
  const [n, d] = [hundred.n * 10n ** BigInt(places), hundred.d];
  const rounded = { near: halfEven, up: ceilDivide, down: floorDivide }[direction](n, d);
  const digits = String(rounded).padStart(places + 1, "0");
  return `${digits.slice(0, -places)}.${digits.slice(-places)}`.replace(/\.?0+$/, "") + "%";
}

/** A ratio with two decimals, rounded up; null is ∞. @param {Fraction | null} ratio */
export function factor(ratio) {
  if (!ratio) return "∞";
  const digits = String(ceilDivide(ratio.n * 100n, ratio.d)).padStart(3, "0");
  return `${digits.slice(0, -2)}.${digits.slice(-2)}`;
}

/**
 * What a respondent is promised, about the least likely answer.
 *
 * @param {string} name the answer as Python would print it
 * @param {{prior: string, low: string, high: string, odds: string}} told percentages, and the factor for odds
 */
export const sentence = (name, { prior, low, high, odds }) =>
  `for any report, someone believed to be ${name} with ${prior} is believed with at most ${high} ` +
  `and at least ${low}; for any other belief, odds change by at most a factor of ${odds}.`;

/** The same without a prior. @param {string} odds the factor */
export const oddsSentence = (odds) =>
  `for any report and any belief, odds change by at most a factor of ${odds}.`;

/**
 * What is promised about a whole record of answers: what `tacit.show.sentences.record_promise` says.
 *
 * @param {{bound: string, odds: string, oddsOnly: boolean}} told the factor for beliefs, and that for odds
 */
export const recordSentence = ({ bound, odds, oddsOnly }) =>
  oddsOnly
    ? oddsSentence(odds)
    : `for any report, the belief in any answer, or in any combination of answers, changes by at most a factor of ` +
      `${bound}; for any other belief, odds change by at most a factor of ${odds}.`;

/**
 * What is promised for a set of priors, in numbers.
 *
 * @param {import("./prior.js").PriorSet} priorSet
 * @param {Fraction | null} lip the factor by which a belief can change, for the worst prior of the set
 * @returns {import("./index.js").SetParts}
 */
export function setParts(priorSet, lip) {
  const bound = factor(lip);
  if (priorSet.kind === "box") return { kind: "ranges", bound, size: "" };
  if ("candidates" in priorSet) return { kind: "mixtures", bound, size: String(priorSet.candidates.length + 1) };
  return { kind: "distance", bound, size: percent(priorSet.radius, "down").slice(0, -1) };
}

/**
 * For whom a promise about belief holds, where that is a set of priors: what `tacit.show.sentences.set_sentence` says.
 *
 * @param {import("./index.js").SetParts} parts
 */
export function setSentence({ kind, bound, size }) {
  const said = `No report raises or lowers the belief in an answer by more than a factor of ${bound}`;
  const unit = size === "1" ? "percentage point" : "percentage points";
  const whom = {
    ranges: "everybody whose expectations lie within the ranges that the plan states",
    mixtures: `each of the ${size} stated expectations and every mixture of them`,
    distance: `everybody whose expectations differ from the survey's by up to ${size} ${unit} in all`,
  }[kind];
  return `${said}, for ${whom}.`;
}

/** A text in quotes as Python prints it: single quotes unless it has some and no double ones. @param {string} text */
export function quoted(text) {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  return quote + Array.from(text, (character) => escaped(character, quote)).join("") + quote;
}

/** A character inside quotes; unprintable ones as their code. @param {string} character @param {string} quote */
function escaped(character, quote) {
  if (character === quote || character === "\\") return `\\${character}`;
  const short = { "\t": "\\t", "\n": "\\n", "\r": "\\r" }[character];
  if (short) return short;
  if (character === " " || !/[\p{C}\p{Z}]/u.test(character)) return character;
  const code = (character.codePointAt(0) ?? 0).toString(16);
  if (code.length <= 2) return `\\x${code.padStart(2, "0")}`;
  return code.length <= 4 ? `\\u${code.padStart(4, "0")}` : `\\U${code.padStart(8, "0")}`;
}

/** ⌊log₁₀ x⌋ for x > 0. @param {Fraction} x */
function magnitude({ n, d }) {
  const guess = String(n).length - String(d).length;
  const power = guess >= 0 ? fraction(10n ** BigInt(guess)) : fraction(1n, 10n ** BigInt(-guess));
  return compare({ n, d }, power) < 0 ? guess - 1 : guess;
}

/** The nearest integer to n/d, the even one of two. @param {bigint} n @param {bigint} d */
function halfEven(n, d) {
  const below = floorDivide(n, d);
  const twice = 2n * (n - below * d);
  return twice > d || (twice === d && below % 2n) ? below + 1n : below;
}
