/**
 * A plan for several questions: one report about the whole record of a person's answers.
 *
 * The questions are in blocks; each block is a plan over the joint cells of its questions, the answer to the last one
 * changing fastest. The device draws one block by public chances and reports on it alone, so the promise of the blocks
 * holds for every answer and every combination of answers. `tacit.plan.Questionnaire` is the same in Python.
 */

import { compare, fraction, larger, lcm, smaller, sum } from "./exact.js";
import { identity, numberWithin, worst } from "./plan.js";
import { factor, percent, recordSentence, setSentence } from "./promise.js";
import { neighbours, rounded } from "./randomizer.js";
import { demand, each, expect, integer, name, number, object, oneOf, onlyFields, text } from "./read.js";
import { readRecoding } from "./recoding.js";
import { SERIES_FIELDS, readLimit, readSeries } from "./series.js";
import { secureWords } from "./words.js";

/** @typedef {import("./exact.js").Fraction} Fraction */
/** @typedef {import("./index.js").Answers} Answers */
/** @typedef {import("./index.js").Question} Question */
/** @typedef {import("./index.js").RandomWords} RandomWords */
/** @typedef {import("./plan.js").Plan} Plan */
/**
 * @typedef {object} Block questions that are reported on together
 * @property {readonly Question[]} questions
 * @property {number} chance of 65536
 * @property {Plan} plan over the joint cells
 */

/** The chances of all blocks add up to this: a word of 16 bits draws one. */
const CHANCE_BITS = 16;
const CHANCES = 2 ** CHANCE_BITS;
/** The answer of a person who was not asked. */
export const NOT_ASKED = "not asked";
/** Stands between the answers in the name of a joint cell. */
const CROSSED = " / ";
const KINDS = /** @type {const} */ (["one-of", "yes-no", "number"]);
const TASKS = /** @type {const} */ (["shares", "survey", "mean", "quantiles"]);
const FIELDS = ["name", "kind", "task", "numeric", "answers", "text", "labels", "part_of", "public", "asked_if"];
/** Where cells times reports are more than this, beliefs are bounded cell by cell instead of computed. */
const MAX_WORK = 200_000;

/** A checked plan of several questions. Answers are given by the names of the questions. */
export class Questionnaire {
  /** @type {readonly Block[]} */
  #blocks;
  #byName;

  /**
   * @param {readonly string[]} hashes its own last
   * @param {Record<string, unknown>} data
   * @param {readonly Plan[]} plans those of the blocks
   */
  constructor(hashes, data, plans) {
    onlyFields(data, "the plan", ["tacit_plan", "title", "questions", "blocks", "notes", "recoding", ...SERIES_FIELDS]);
    this.hash = hashes[hashes.length - 1];
    this.hashes = hashes;
    const { wave, series } = readSeries(data);
    this.wave = wave;
    this.series = series;
    this.title = data.title === null ? null : text(data.title, "title");
    each(data.notes, "notes", text, 0);
    /** @type {readonly Question[]} */
    this.questions = Object.freeze(each(data.questions, "questions", readQuestion));
    this.#byName = new Map(this.questions.map((question) => [question.name, question]));
    demand(this.#byName.size === this.questions.length, "The questions of a plan must have different names.");
    for (const [place, { name: told, askedIf }] of this.questions.entries()) {
      const earlier = this.questions.slice(0, place).some((other) => other.name === askedIf?.question);
      demand(!askedIf || earlier, `Whether ${told} is asked must depend on an earlier question.`);
    }
    this.recoding = readRecoding(data);
    const asked = this.questions.map(({ name: told, kind, answers }) => /** @type {const} */ ([told, kind === "number" ? null : answers]));
    this.#blocks = each(data.blocks, "blocks", (block, where) => this.#readBlock(object(block, where), where, plans));
    this.#checkBlocks();
    /** @type {readonly {questions: readonly string[], share: number}[]} */
    this.blocks = Object.freeze(
      this.#blocks.map(({ questions, chance }) =>
        Object.freeze({ questions: Object.freeze(questions.map((each) => each.name)), share: chance / CHANCES }),
      ),
    );
    this.recoding?.check(new Map(asked), plans[0].groups.map((group) => group.name));
    /** @type {readonly import("./index.js").RecordGroup[]} */
    this.groups = Object.freeze(
      plans[0].groups.map(({ name: told, epsilon, notion, ldpCap }) =>
        Object.freeze({ name: told, epsilon, notion, ldpCap }),
      ),
    );
    const alone = plans.every(({ wave, hashes: words, limit, recoding }) => wave === 1 && words.length === 1 && !limit && !recoding);
    demand(alone, "The plan of a block must not have a wave, earlier words, a limit or a recoding: the whole plan has.");
    /** @type {{readonly lip: Fraction, readonly ldp: Fraction | null}} As of `Plan`. */
    this.levels = Object.freeze(worst(plans.map(({ levels }) => levels)));
    /** @type {Fraction | null} */
    this.limit = readLimit(data.limit, this.levels.lip);
    Object.freeze(this);
  }

  /** The block at a place in the plan. @param {Record<string, unknown>} data @param {string} where @param {readonly Plan[]} plans */
  #readBlock(data, where, plans) {
    onlyFields(data, where, ["questions", "chance", "plan"]);
    const questions = each(data.questions, `${where}.questions`, (told, at) => {
      const question = this.#byName.get(name(told, at));
      expect(question, at, "the name of a question of the plan");
      return question;
    });
    const chance = integer(data.chance, `${where}.chance`, 1, CHANCES);
    const plan = plans[Number(where.slice("blocks[".length, -1))];
    const size = questions.reduce((product, { answers }) => product * answers.length, 1);
    // The names are listed only where they are as many as the plan's, which was bounded when it was read.
    const alike = size === plan.values.length && jointValues(questions).every((cell, x) => cell === plan.values[x]);
    const numeric = questions.length === 1 && questions[0].numeric;
    expect(alike && plan.numeric === numeric, `${where}.plan`, "over the combinations of its answers, in order");
    expect(plan.rule === null, `${where}.plan`, "without two layers, and follow no other plan");
    return { questions, chance, plan };
  }

  #checkBlocks() {
    const placed = this.#blocks.flatMap(({ questions }) => questions);
    const wanted = this.questions.filter((question) => !question.public);
    const once = placed.length === wanted.length && new Set(placed).size === placed.length && wanted.length > 0;
    demand(
      once && placed.every((question) => !question.public),
      "Every private question of a plan must be in one block, and in one only.",
    );
    const total = this.#blocks.reduce((all, { chance }) => all + chance, 0);
    demand(total === CHANCES, `The chances of the blocks must add up to ${CHANCES}.`);
    const hashes = new Set(this.#blocks.map(({ plan }) => plan.hash));
    demand(hashes.size === this.#blocks.length, "The plans of two blocks are the same.");
    const promises = this.#blocks.map(({ plan }) => JSON.stringify(plan.groups.map((group) => promised(plan, group.name))));
    const alike = promises.every((each) => each === promises[0]);
    demand(alike, "All blocks of a plan must have the same groups with the same promises.");
  }

  /** What a respondent of the group is promised, as a sentence. @param {string | null} group */
  promise(group) {
    return recordSentence(this.promiseParts(group));
  }

  /** The numbers of the promise: the worst of all blocks. @param {string | null} group */
  promiseParts(group) {
    const audits = this.#blocks.map(({ plan }) => {
      const { prior, mechanism, notion } = plan.audited(group);
      return { ...mechanism.audit(prior), lip: mechanism.audit(prior).lip, oddsOnly: notion === "ldp" && prior.isUniform };
    });
    const worst = (/** @type {(Fraction | null)[]} */ ratios) =>
      ratios.reduce((most, ratio) => most && ratio && larger(most, ratio));
    return {
      bound: factor(worst(audits.map(({ lip }) => lip))),
      odds: factor(worst(audits.map(({ ldp }) => ldp))),
      oddsOnly: audits.every(({ oddsOnly }) => oddsOnly),
    };
  }

  /** For whom that holds, where it is promised for sets of priors; else null. @param {string | null} group */
  setSentence(group) {
    return this.setParts(group).map(setSentence).join(" ") || null;
  }

  /** The same as its numbers, each of them once. @param {string | null} group */
  setParts(group) {
    const parts = this.#blocks.map(({ plan }) => plan.setParts(group)).filter((part) => part !== null);
    return [...new Map(parts.map((part) => [JSON.stringify(part), part])).values()];
  }

  /**
   * How far a report can move the belief in each answer to each private question.
   *
   * @param {string | null} group
   * @returns {import("./index.js").QuestionBelief[]}
   */
  beliefs(group) {
    return this.#blocks.flatMap((block) => {
      const lifts = liftsOf(block, group);
      return block.questions.flatMap((question, place) =>
        question.answers.flatMap((value, answer) => {
          const held = cellsWith(block, place, answer);
          const { prior, low, high } = lifts(held);
          if (!prior.n) return [];
          const shown = { prior: percent(prior), low: percent(low, "down"), high: percent(high, "up") };
          return [{ question: question.name, value, ...shown }];
        }),
      );
    });
  }

  /**
   * Whether a question is asked, given the answers so far.
   *
   * @param {string} question
   * @param {Answers} answers
   * @returns {boolean}
   */
  isAsked(question, answers) {
    const { askedIf } = this.#question(question);
    if (!askedIf) return true;
    const given = answers[askedIf.question];
    if (given === undefined || given === null || !this.isAsked(askedIf.question, answers)) return false;
    const { kind } = this.#question(askedIf.question);
    return askedIf.answers.some((answer) => (kind === "number" ? Number(answer) === Number(given) : answer === String(given)));
  }

  /**
   * The answers to all private questions, in order: positions, or numbers; "not asked" where a question is not asked.
   *
   * @param {Answers} answers
   * @returns {Map<Question, number>}
   */
  #record(answers) {
    const found = new Map();
    for (const question of this.questions.filter((each) => !each.public)) {
      const given = this.isAsked(question.name, answers) ? answers[question.name] : NOT_ASKED;
      if (question.kind === "number") found.set(question, numberWithin(question.answers.map(Number), given));
      else found.set(question, position(question, given));
    }
    return found;
  }

  /**
   * What a record of answers becomes, drawn with fresh words: use `respond`, which remembers it.
   *
   * One record takes a word of 16 bits for the block, then a word of 64 bits for each number in the block, then the
   * words of the block's mechanism.
   *
   * @param {string | null} group
   * @param {Answers} answers
   * @param {RandomWords} [words]
   */
  randomize(group, answers, words = secureWords) {
    this.#group(group);
    const record = this.#record(answers);
    const drawn = Number(words.integer(CHANCE_BITS));
    let end = 0;
    const place = this.#blocks.findIndex(({ chance }) => drawn < (end += chance));
    const { questions, plan } = this.#blocks[place];
    const positions = questions.map((question) => {
      const held = record.get(question) ?? 0;
      return question.kind === "number" ? rounded(question.answers.map(Number), held, words) : held;
    });
    return { block: place + 1, report: plan.reportAt(group, cellOf(questions, positions), words) };
  }

  /**
   * What is sent for a record of answers, but for its key; drawn with fresh words.
   *
   * @param {{group: string | null, answers: Answers}} record
   * @param {RandomWords} [words]
   */
  draw({ group, answers }, words) {
    const told = this.#public(answers);
    return { group, ...this.randomize(group, answers, words), ...(told && { public: told }) };
  }

  /** The answers to public questions as they are sent; null where there is none. @param {Answers} answers */
  #public(answers) {
    const open = this.questions.filter((question) => question.public);
    if (!open.length) return null;
    return Object.fromEntries(
      open.map((question) => {
        const given = this.isAsked(question.name, answers) ? answers[question.name] : NOT_ASKED;
        if (question.kind === "number") return [question.name, String(numberWithin(question.answers.map(Number), given))];
        return [question.name, question.answers[position(question, given)]];
      }),
    );
  }

  /**
   * Combinations of these answers that are outside of the promise, because the plan declares them impossible.
   *
   * @param {string | null} group
   * @param {Answers} answers
   * @returns {{questions: string[], exposed: boolean}[]}
   */
  outside(group, answers) {
    const record = this.#record(answers);
    return this.#blocks.flatMap(({ questions, plan }) => {
      const { prior, mechanism } = plan.audited(group);
      const held = questions.map((question) => {
        const given = record.get(question) ?? 0;
        return question.kind === "number" ? neighbours(question.answers.map(Number), given) : [given];
      });
      const cells = combinations(held).map((positions) => cellOf(questions, positions));
      if (cells.every((x) => prior.weights[x] > 0n)) return [];
      const { exposed } = mechanism.audit(prior);
      return [{ questions: questions.map((each) => each.name), exposed: cells.some((x) => exposed.includes(x)) }];
    });
  }

  /**
   * What a report says about each question of its block: the belief in each answer before it and after it. Null where
   * the mechanism does not write out its probabilities.
   *
   * @param {string | null} group
   * @param {number} block from 1
   * @param {number} report
   * @returns {{question: string, answers: {value: string, before: string, after: string}[]}[] | null}
   */
  meaning(group, block, report) {
    if (!this.canSend(group, report, block)) throw new RangeError("This plan has no such group, block or report.");
    const { questions, plan } = this.#blocks[block - 1];
    const { prior, mechanism } = plan.audited(group);
    const joint = jointWeights(prior.weights, (x) => mechanism.likelihood(x, report));
    if (!joint) return null;
    const after = sum(joint);
    return questions.map((question, place) => ({
      question: question.name,
      answers: question.answers.map((value, answer) => {
        const held = cellsWith(this.#blocks[block - 1], place, answer);
        const of = (/** @type {readonly bigint[]} */ weights, /** @type {bigint} */ total) =>
          percent(fraction(sum(held.map((x) => weights[x])), total));
        return { value, before: of(prior.weights, prior.total), after: of(joint, after) };
      }),
    }));
  }

  /**
   * Whether the plan has this group and this block, counted from 1, and the block this report; and, where they are
   * given, these answers to public questions.
   *
   * @param {unknown} group
   * @param {unknown} report
   * @param {unknown} block
   * @param {unknown} [told]
   */
  canSend(group, report, block, told) {
    const known = Number.isSafeInteger(block) ? this.#blocks[Number(block) - 1] : undefined;
    if (known === undefined || !known.plan.canSend(group, report)) return false;
    if (told === undefined) return true;
    const names = this.questions.filter((question) => question.public).map((question) => question.name);
    const given = typeof told === "object" && told !== null ? Object.entries(told) : [];
    const texts = given.every(([name, answer]) => names.includes(name) && typeof answer === "string");
    return texts && given.length === names.length && names.length > 0;
  }

  /** @param {string} told */
  #question(told) {
    const question = this.#byName.get(told);
    if (!question) throw new RangeError("This plan has no question of that name.");
    return question;
  }

  /** @param {string | null} group */
  #group(group) {
    return this.#blocks[0].plan.audited(group);
  }
}

// -- questions --------------------------------------------------------------------------------------------------------

/**
 * A question in a plan.
 *
 * @param {unknown} data
 * @param {string} where
 * @returns {Question}
 */
function readQuestion(data, where) {
  const told = object(data, where);
  onlyFields(told, where, FIELDS);
  const called = name(told.name, `${where}.name`);
  expect(called.trim(), `${where}.name`, "a name");
  const kind = oneOf(told.kind, `${where}.kind`, KINDS);
  const task = oneOf(told.task, `${where}.task`, TASKS);
  expect(typeof told.numeric === "boolean", `${where}.numeric`, "true or false");
  const { numeric } = told;
  const answers = each(told.answers, `${where}.answers`, numeric ? number : text, 2);
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

/** What is promised to a group, exactly. @param {Plan} plan @param {string | null} group */
function promised(plan, group) {
  const { name: told, epsilon, notion, ldpCap } = plan.audited(group);
  const exact = (/** @type {Fraction | null} */ level) => level && `${level.n}/${level.d}`;
  return [told, exact(epsilon), notion, exact(ldpCap)];
}

/** The position of an answer. @param {Question} question @param {unknown} given */
function position(question, given) {
  const place = question.answers.indexOf(String(given));
  if (place < 0 || given === null || given === undefined)
    throw new RangeError(`The question ${question.name} needs one of its ${question.answers.length} answers.`);
  return place;
}

// -- joint cells ------------------------------------------------------------------------------------------------------

/** The names of the joint cells. @param {readonly Question[]} questions */
const jointValues = (questions) => combinations(questions.map((question) => question.answers)).map((cell) => cell.join(CROSSED));

/**
 * Every way to choose one of each list, the last one changing fastest.
 *
 * @template T
 * @param {readonly (readonly T[])[]} lists
 * @returns {T[][]}
 */
const combinations = (lists) =>
  lists.reduce((found, list) => found.flatMap((some) => list.map((one) => [...some, one])), /** @type {T[][]} */ ([[]]));

/** The joint cell of positions. @param {readonly Question[]} questions @param {readonly number[]} positions */
const cellOf = (questions, positions) =>
  positions.reduce((cell, position, place) => cell * questions[place].answers.length + position, 0);

/** The cells of a block with one answer to one question. @param {Block} block @param {number} place @param {number} answer */
function cellsWith({ questions, plan }, place, answer) {
  const below = questions.slice(place + 1).reduce((size, question) => size * question.answers.length, 1);
  const size = questions[place].answers.length;
  return [...plan.values.keys()].filter((x) => Math.floor(x / below) % size === answer);
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
 * How far a report of a block can move the belief that a person is in one of some cells: exactly, or a bound of it.
 *
 * @param {Block} block
 * @param {string | null} group
 * @returns {(held: readonly number[]) => import("./mechanism/levels.js").Belief}
 */
function liftsOf({ plan }, group) {
  const { prior, mechanism } = plan.audited(group);
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
