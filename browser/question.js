/** A question in a plan, its answers, and the joint cells of several. */

import { each, expect, name, number, object, oneOf, onlyFields, text } from "./read.js";

/** @typedef {import("./index.js").Question} Question */

/** The answer of a person who was not asked. */
export const NOT_ASKED = "not asked";
/** Stands between the answers in the name of a joint cell. */
const CROSSED = " / ";
const KINDS = /** @type {const} */ (["one-of", "yes-no", "number"]);
const TASKS = /** @type {const} */ (["shares", "survey", "mean", "quantiles"]);
const FIELDS = ["name", "kind", "task", "numeric", "answers", "text", "labels", "part_of", "public", "asked_if"];
/** Columns of report files, so no names of questions. */
const RESERVED = ["group", "block", "report", "tacit_plan"];
const NUMBER = /^-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,3})?$/;

/**
 * A question in a plan.
 *
 * @param {unknown} data
 * @param {string} where
 * @returns {Question}
 */
export function readQuestion(data, where) {
  const told = object(data, where);
  onlyFields(told, where, FIELDS);
  const called = name(told.name, `${where}.name`);
  expect(called.trim() && !RESERVED.includes(called), `${where}.name`, "a name, and none that a column of reports has");
  const kind = oneOf(told.kind, `${where}.kind`, KINDS);
  const task = told.task === null ? null : oneOf(told.task, `${where}.task`, TASKS);
  expect(typeof told.numeric === "boolean", `${where}.numeric`, "true or false");
  const { numeric } = told;
  const answers = each(told.answers, `${where}.answers`, numeric ? number : name, 2);
  const different = new Set(answers.map((answer) => identity(answer, numeric)));
  expect(different.size === answers.length, `${where}.answers`, "all different");
  expect(kind !== "yes-no" || answers.length === 2, `${where}.answers`, "two for a yes/no question");
  const numbers = answers.map(Number);
  const finite = numeric && numbers.every(Number.isFinite);
  const ascending = finite && numbers.every((knot, x) => !x || numbers[x - 1] < knot);
  expect(kind !== "number" || ascending, `${where}.answers`, "finite numbers in ascending order");
  const measured = task === "mean" || task === "quantiles";
  expect(!measured || finite, `${where}.answers`, "numbers where a mean or quantiles are estimated");
  expect(task !== "quantiles" || kind !== "number", `${where}.task`, "not quantiles, which rounding at random changes");
  expect(!("public" in told) || told.public === true, `${where}.public`, "true, or left out");
  const askedIf = readCondition(told.asked_if, `${where}.asked_if`);
  expect(!askedIf || answers.includes(NOT_ASKED), `${where}.answers`, `with ${NOT_ASKED}, since not everybody is asked`);
  return Object.freeze({
    name: called,
    kind,
    task,
    numeric,
    answers: Object.freeze(answers),
    text: readLanguages(told.text, `${where}.text`, name),
    labels: readLanguages(told.labels, `${where}.labels`, (labels, at) => {
      const found = each(labels, at, name);
      expect(found.length === answers.length, at, "a label for each answer");
      return Object.freeze(found);
    }),
    partOf: told.part_of === undefined ? null : text(told.part_of, `${where}.part_of`),
    public: told.public === true,
    askedIf,
  });
}

/** When a question is asked. @param {unknown} data @param {string} where */
function readCondition(data, where) {
  if (data === undefined) return null;
  const [question, answers, ...rest] = each(data, where, (part) => part, 2);
  expect(!rest.length, where, "a question and answers to it");
  return Object.freeze({ question: text(question, where), answers: Object.freeze(each(answers, where, text, 0)) });
}

/**
 * Texts by the code of their language.
 *
 * @template T
 * @param {unknown} data
 * @param {string} where
 * @param {(part: unknown, where: string) => T} read
 * @returns {Readonly<Record<string, T>>}
 */
function readLanguages(data, where, read) {
  if (data === undefined) return Object.freeze({});
  const entries = Object.entries(object(data, where)).map(([code, part]) => [code, read(part, `${where}.${code}`)]);
  return Object.freeze(Object.fromEntries(entries));
}

/** The position of an answer. @param {Question} question @param {unknown} given */
export function position(question, given) {
  const place = question.answers.indexOf(String(given));
  if (place < 0 || given === null || given === undefined)
    throw new RangeError(`The question ${question.name} needs one of its ${question.answers.length} answers.`);
  return place;
}

/**
 * The answer to a question for a number; throws unless it lies between the first knot and the last.
 *
 * @param {readonly number[]} knots
 * @param {unknown} value
 */
export function numberWithin(knots, value) {
  const found = typeof value === "string" && NUMBER.test(value) ? Number(value) : value;
  const [first, last] = [knots[0], knots[knots.length - 1]];
  if (typeof found !== "number" || !(found >= first && found <= last))
    throw new RangeError(`An answer must be a number from ${first} to ${last}.`);
  return found;
}

/** What equal values have in common: 1 and 1.0 are the same number. @param {string} value @param {boolean} numeric */
export function identity(value, numeric) {
  if (!numeric || !/[.e]/.test(value)) return value;
  return Number.isInteger(Number(value)) ? String(BigInt(Number(value))) : value;
}

/** The names of the joint cells. @param {readonly Question[]} questions */
export const jointValues = (questions) => combinations(questions.map((question) => question.answers)).map((cell) => cell.join(CROSSED));

/**
 * Every way to choose one of each list, the last one changing fastest.
 *
 * @template T
 * @param {readonly (readonly T[])[]} lists
 * @returns {T[][]}
 */
export const combinations = (lists) =>
  lists.reduce((found, list) => found.flatMap((some) => list.map((one) => [...some, one])), /** @type {T[][]} */ ([[]]));

/** The joint cell of positions. @param {readonly Question[]} questions @param {readonly number[]} positions */
export const cellOf = (questions, positions) =>
  positions.reduce((cell, position, place) => cell * questions[place].answers.length + position, 0);
