/**
 * Reading hostile JSON: each function returns what it names or throws a PlanError that says where it is missing.
 *
 * `where` is a path such as groups[0].prior.
 */

import { PlanError } from "./errors.js";
import { fraction, gcd } from "./exact.js";

/** Integers longer than this many digits are refused: Tacit writes at most 2^256 and sums of priors. */
const MAX_DIGITS = 1000;
const INTEGER = /^(0|-?[1-9][0-9]*)$/;
const RATIONAL = /^(0|-?[1-9][0-9]{0,999}(\/([2-9]|[1-9][0-9]{1,999}))?)$/;
// eslint-disable-next-line no-control-regex
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
/** A plan with more integers than this is refused: auditing it would take a phone minutes. */
const MAX_INTEGERS = 2 ** 21;

/**
 * Throw a PlanError unless the condition holds.
 *
 * @param {unknown} condition
 * @param {string} message
 * @returns {asserts condition}
 */
export function demand(condition, message) {
  if (!condition) throw new PlanError(message);
}

/**
 * Throw the PlanError of a malformed plan unless the condition holds.
 *
 * @param {unknown} condition
 * @param {string} where
 * @param {string} expected
 * @returns {asserts condition}
 */
export function expect(condition, where, expected) {
  demand(condition, `This plan is malformed: ${where} must be ${expected}.`);
}

/** An object. @param {unknown} data @param {string} where @returns {Record<string, unknown>} */
export function object(data, where) {
  expect(typeof data === "object" && data !== null && !Array.isArray(data), where, "an object");
  return /** @type {Record<string, unknown>} */ (data);
}

/**
 * Throw a PlanError if an object has other fields than these: one may state what this reader does not check.
 *
 * @param {Record<string, unknown>} data
 * @param {string} where
 * @param {readonly string[]} known
 */
export function onlyFields(data, where, known) {
  const other = Object.keys(data).find((name) => !known.includes(name));
  demand(other === undefined, `This plan is malformed: ${where} has an unknown field, ${other?.slice(0, 40)}.`);
}

/** A list of at least `least` parts. @param {unknown} data @param {string} where @returns {unknown[]} */
export function list(data, where, least = 1) {
  expect(Array.isArray(data), where, "a list");
  expect(data.length >= least, where, `a list of at least ${least}`);
  expect(data.length <= MAX_INTEGERS, where, "a shorter list");
  return data;
}

/** A string. @param {unknown} data @param {string} where */
export function text(data, where) {
  expect(typeof data === "string", where, "a string");
  return data;
}

/**
 * One of some strings.
 *
 * @template {string} T
 * @param {unknown} data
 * @param {string} where
 * @param {readonly T[]} allowed
 * @returns {T}
 */
export function oneOf(data, where, allowed) {
  expect(allowed.includes(/** @type {T} */ (data)), where, `one of ${allowed.join(", ")}`);
  return /** @type {T} */ (data);
}

/**
 * A JSON integer from `least` to `most`.
 *
 * @param {unknown} data
 * @param {string} where
 * @param {number} least
 * @param {number} most
 */
export function integer(data, where, least, most) {
  const fits = Number.isSafeInteger(data) && Number(data) >= least && Number(data) <= most;
  expect(fits, where, `an integer from ${least} to ${most}`);
  return Number(data);
}

/** A non-negative integer of any size, written as a string. @param {unknown} data @param {string} where */
export function bigInteger(data, where) {
  const fits = typeof data === "string" && data.length <= MAX_DIGITS && /^(0|[1-9][0-9]*)$/.test(data);
  expect(fits, where, `a non-negative integer in a string, of at most ${MAX_DIGITS} digits`);
  return BigInt(data);
}

/** A rational such as 3 or -1/4, in lowest terms, written as a string. @param {unknown} data @param {string} where */
export function rational(data, where) {
  const fits = typeof data === "string" && RATIONAL.test(data);
  expect(fits, where, "a rational in a string, such as 1/2");
  const [n, d = 1n] = data.split("/").map(BigInt);
  expect(d === 1n || gcd([n < 0n ? -n : n, d]) === 1n, where, "a rational in lowest terms");
  return fraction(n, d);
}

/**
 * A name: a string without invisible characters (control characters and marks that change the reading direction).
 *
 * @param {unknown} data
 * @param {string} where
 */
export function name(data, where) {
  const told = text(data, where);
  expect(!UNSEEN.test(told), where, "without control characters and marks of direction");
  return told;
}

/**
 * The text of a number, an integer or a float as Python writes it.
 *
 * @param {unknown} data
 * @param {string} where
 */
export function number(data, where) {
  const digits = text(data, where);
  const fits = digits.length <= MAX_DIGITS && (INTEGER.test(digits) || digits === floatText(Number(digits)));
  expect(fits, where, "a number in a string, as Python writes it");
  return digits;
}

/** A float as Python writes it: 0.1, 1e-05, 1e+16. @param {number} x */
function floatText(x) {
  if (!Number.isFinite(x)) return "";
  const [digits, power] = x.toExponential().split("e");
  const exponent = Number(power);
  if (exponent >= -4 && exponent < 16) {
    const plain = String(x);
    return plain.includes(".") ? plain : `${plain}.0`;
  }
  return `${digits}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

/**
 * Each part of a list through a reader.
 *
 * @template T
 * @param {unknown} data
 * @param {string} where
 * @param {(part: unknown, where: string) => T} read
 * @returns {T[]}
 */
export function each(data, where, read, least = 1) {
  return Array.from(list(data, where, least), (part, i) => read(part, `${where}[${i}]`));
}

/** @typedef {(count: number) => void} Meter counts a plan's integers and throws once there are too many to audit */

/** @returns {Meter} A fresh one. */
export function meter() {
  let left = MAX_INTEGERS;
  return (count) => {
    left -= count;
    demand(left >= 0, "This plan is too large to be audited in a browser.");
  };
}
