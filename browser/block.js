/** Questions that are reported on together: the integers that randomize the joint cells of their answers. */

import { compare, fraction, lcm, smaller, sum } from "./exact.js";
import { check, readGroup } from "./group.js";
import { percent } from "./promise.js";
import { cellOf, jointValues } from "./question.js";
import { Randomizer, neighbours, rounded } from "./randomizer.js";
import { demand, each, expect, integer, list, name, object, oneOf, onlyFields, rational } from "./read.js";

/** @typedef {import("./exact.js").Fraction} Fraction */
/** @typedef {import("./group.js").Group} Group */
/** @typedef {import("./index.js").Question} Question */
/** @typedef {import("./index.js").RandomWords} RandomWords */

/** The chances of all blocks add up to this: a word of 16 bits draws one. */
export const CHANCES = 2 ** 16;
const TASKS = /** @type {const} */ (["histogram", "matrix", "quantiles", "sum", "survey", "weighted-sum"]);
/** Where cells times reports are more than this, beliefs are bounded cell by cell instead of computed. */
const MAX_WORK = 200_000;
/** Where reports are too many to be listed, beliefs are shown for at most this many answers. */
const MAX_BELIEFS = 20;

/** A block of a plan. Its values are the joint cells of the answers, the answer to the last question changing fastest. */
export class Block {
  #randomizer;

  /**
   * Reads it; `check` audits it.
   *
   * @param {Record<string, unknown>} data
   * @param {string} where
   * @param {ReadonlyMap<string, Question>} known the plan's questions
   * @param {import("./read.js").Meter} spend
   */
  constructor(data, where, known, spend) {
    onlyFields(data, where, ["questions", "chance", "task", "groups"]);
    this.questions = each(data.questions, `${where}.questions`, (told, at) => {
      const question = known.get(name(told, at));
      expect(question, at, "the name of a question of the plan");
      return question;
    });
    const [{ kind, numeric, task }] = this.questions;
    const one = this.questions.length === 1;
    expect(one || this.questions.every((question) => question.task), `${where}.questions`, "questions that say what is estimated");
    this.chance = integer(data.chance, `${where}.chance`, 1, CHANCES);
    const size = this.questions.reduce((product, { answers }) => product * answers.length, 1);
    const [first] = each(data.groups, `${where}.groups`, object);
    // The combinations are listed only where they are as many as the weights, whose number is bounded.
    expect(list(first.prior, `${where}.groups[0].prior`).length === size, `${where}.groups[0].prior`, "weights of the combinations of its answers");
    /** @type {readonly string[]} */
    this.values = Object.freeze(jointValues(this.questions));
    this.task = readTask(data.task, `${where}.task`, this.values, one && numeric);
    const groups = each(data.groups, `${where}.groups`, (group, at) => readGroup(group, at, size, spend));
    this.groups = new Map(groups.map((group) => [group.name, group]));
    const named = this.groups.size === groups.length && (groups.length === 1 || !this.groups.has(null));
    demand(named, "This plan is malformed: it needs one unnamed group, or several groups with different names.");
    if (kind === "number" && task === null) {
      const finite = Number.isFinite(Number(this.values[size - 1]) - Number(this.values[0]));
      expect(finite && this.task.kind.endsWith("sum"), `${where}.task`, "a sum where answers lie between the values");
      const possible = groups.every(({ prior }) => prior.weights.every((weight) => weight > 0n));
      expect(possible, `${where}.groups`, "with a positive prior for every value between which answers lie");
    }
    const layered = groups.filter(({ layers }) => layers).length;
    const stays = this.questions.every((question) => question.kind !== "number");
    expect(!layered || (layered === groups.length && stays), `${where}.groups`, "all in two layers or none, and not between values");
    this.#randomizer = new Randomizer(groups);
  }

  /** Throw a PlanError unless every group's mechanism keeps its promise. */
  check() {
    this.groups.forEach(check);
  }

  /** @param {string | null} name */
  group(name) {
    const group = this.groups.get(name);
    if (!group) throw new RangeError("This plan has no group of that name.");
    return group;
  }

  /** What is promised, exactly: the same in all blocks. */
  get promised() {
    const exact = (/** @type {Fraction | null} */ level) => level && `${level.n}/${level.d}`;
    return JSON.stringify([...this.groups.values()].map(({ name, epsilon, notion, ldpCap }) => [name, exact(epsilon), notion, exact(ldpCap)]));
  }

  /**
   * A report about a record of answers: positions, or numbers, which are rounded with a word each.
   *
   * @param {string | null} group
   * @param {ReadonlyMap<Question, number>} record
   * @param {RandomWords} words
   */
  report(group, record, words) {
    const place = [...this.groups.keys()].indexOf(this.group(group).name);
    const positions = this.questions.map((question) => {
      const held = record.get(question) ?? 0;
      return question.kind === "number" ? rounded(question.answers.map(Number), held, words) : held;
    });
    return this.#randomizer.report(place, cellOf(this.questions, positions), words);
  }

  /** The positions that answers of a record can become: for a number its neighbours. @param {ReadonlyMap<Question, number>} record */
  positions(record) {
    return this.questions.map((question) => {
      const held = record.get(question) ?? 0;
      return question.kind === "number" ? neighbours(question.answers.map(Number), held) : [held];
    });
  }

  /** How far a report can move the belief in each answer. @param {string | null} group @returns {import("./index.js").Belief[]} */
  beliefs(group) {
    const { prior, mechanism } = this.group(group);
    const lifts = liftsOf(this.group(group));
    return this.questions.flatMap((question, place) => {
      const many = this.questions.length === 1 && mechanism.nPossibleReports === null;
      const shown = many ? prior.rarest(MAX_BELIEFS) : [...question.answers.keys()];
      return shown.flatMap((answer) => {
        const { prior: before, low, high } = lifts(this.#cellsWith(place, answer));
        if (!before.n) return [];
        return [{ question: question.name, value: question.answers[answer], prior: percent(before), low: percent(low, "down"), high: percent(high, "up") }];
      });
    });
  }

  /** What a report says about each question; null without probabilities. @param {string | null} group @param {number} report */
  meaning(group, report) {
    const { prior, mechanism } = this.group(group);
    const joint = jointWeights(prior.weights, (x) => mechanism.likelihood(x, report));
    if (!joint) return null;
    const after = sum(joint);
    return this.questions.map((question, place) => ({
      question: question.name,
      answers: question.answers.map((value, answer) => {
        const held = this.#cellsWith(place, answer);
        const of = (/** @type {readonly bigint[]} */ weights, /** @type {bigint} */ total) =>
          percent(fraction(sum(held.map((x) => weights[x])), total));
        return { value, before: of(prior.weights, prior.total), after: of(joint, after) };
      }),
    }));
  }

  /** The cells with one answer to one question. @param {number} place @param {number} answer */
  #cellsWith(place, answer) {
    if (this.questions.length === 1) return [answer];
    const below = this.questions.slice(place + 1).reduce((size, { answers }) => size * answers.length, 1);
    const size = this.questions[place].answers.length;
    return [...this.values.keys()].filter((x) => Math.floor(x / below) % size === answer);
  }
}

/**
 * Integers in proportion to Pr(x and the report); null where the probabilities are not written out.
 *
 * @param {readonly bigint[]} weights
 * @param {(x: number) => Fraction | null} likelihood
 */
function jointWeights(weights, likelihood) {
  const chances = weights.map((_, x) => likelihood(x));
  if (chances.some((chance) => chance === null)) return null;
  const known = /** @type {Fraction[]} */ (chances);
  const common = lcm([...new Set(known.map(({ d }) => d))]);
  return known.map(({ n, d }, x) => weights[x] * n * (common / d));
}

/**
 * How far a report can move the belief that a person is in one of some cells: exactly, or a bound of it.
 *
 * @param {Group} group
 * @returns {(held: readonly number[]) => import("./mechanism/levels.js").Belief}
 */
function liftsOf({ prior, mechanism }) {
  const before = (/** @type {readonly number[]} */ held) => fraction(sum(held.map((x) => prior.weights[x])), prior.total);
  const reports = mechanism.nPossibleReports;
  const listed = reports !== null && reports * prior.weights.length <= MAX_WORK;
  const joints = listed
    ? Array.from({ length: reports }, (_, y) => jointWeights(prior.weights, (x) => mechanism.likelihood(x, y)))
    : [null];
  if (joints.some((joint) => joint === null)) {
    // The belief in several cells is the sum of the beliefs in each.
    const total = (/** @type {Fraction[]} */ parts) =>
      parts.reduce((all, part) => fraction(all.n * part.d + part.n * all.d, all.d * part.d), fraction(0n));
    return (held) => {
      const each = held.filter((x) => prior.weights[x] > 0n).map((x) => mechanism.belief(prior, x));
      const high = smaller(fraction(1n), total(each.map((belief) => belief.high)));
      return { prior: before(held), low: total(each.map((belief) => belief.low)), high };
    };
  }
  const sent = /** @type {bigint[][]} */ (joints).map((joint) => ({ joint, total: sum(joint) })).filter(({ total }) => total);
  return (held) => {
    const after = sent.map(({ joint, total }) => fraction(sum(held.map((x) => joint[x])), total)).sort(compare);
    return { prior: before(held), low: after[0], high: after[after.length - 1] };
  };
}

/**
 * What the mechanisms are made for; of one question alone in its block what is estimated.
 *
 * @param {unknown} data
 * @param {string} where
 * @param {readonly string[]} values
 * @param {boolean} numeric
 * @returns {import("./index.js").Task}
 */
function readTask(data, where, values, numeric) {
  const task = object(data, where);
  const kind = oneOf(task.kind, `${where}.kind`, TASKS);
  const added = kind.endsWith("sum") || kind === "quantiles";
  demand(numeric || !added, "This plan is malformed: sums and quantiles need numeric answers.");
  if (kind === "matrix") return readMatrix(task, where, values.length);
  onlyFields(task, where, kind === "survey" ? ["kind", "values"] : ["kind"]);
  if (kind !== "survey") return Object.freeze({ kind });
  const wanted = each(task.values, `${where}.values`, (x, at) => values[integer(x, at, 0, values.length - 1)]);
  return Object.freeze({ kind, values: Object.freeze(wanted) });
}

/**
 * A task as a matrix: names of its columns, and a row of rationals for each value.
 *
 * @param {Record<string, unknown>} task
 * @param {string} where
 * @param {number} size
 * @returns {import("./index.js").Task}
 */
function readMatrix(task, where, size) {
  onlyFields(task, where, ["kind", "names", "rows"]);
  const names = each(task.names, `${where}.names`, name);
  expect(new Set(names).size === names.length && names.every((told) => told.trim()), `${where}.names`, "different names");
  const rows = each(task.rows, `${where}.rows`, (row, at) => each(row, at, rational).length);
  const fits = rows.length === size && rows.every((width) => width === names.length);
  expect(fits, `${where}.rows`, "a row for each value, with a number for each name");
  return Object.freeze({ kind: "matrix", names: Object.freeze(names) });
}
