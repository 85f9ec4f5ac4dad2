/**
 * A plan: what is asked, and the integers that randomize the answers. Making one audits it.
 *
 * The questions are in blocks. The device draws one block by public chances and reports on it alone, so the promise of
 * the blocks holds for every answer and every combination of answers. One question is the case of one: a block of one
 * question, which reports do not name. `tacit.plan.Plan` is the same in Python.
 */

import { Block, CHANCES } from "./block.js";
import { fraction, larger } from "./exact.js";
import { describe } from "./group.js";
import { after, columnsOf, posterior } from "./mechanism/repeated.js";
import { Channel } from "./mechanism/table/table.js";
import { factor, oddsSentence, percent, quoted, recordSentence, sentence, setParts, setSentence } from "./promise.js";
import { NOT_ASKED, cellOf, combinations, numberWithin, position, readQuestion } from "./question.js";
import { demand, each, meter, object, onlyFields, text } from "./read.js";
import { readRecoding } from "./recoding.js";
import { SERIES_FIELDS, baseName, followedName, readFollows, readLimit, readSeries } from "./series.js";
import { secureWords } from "./words.js";

/** @typedef {import("./exact.js").Fraction} Fraction */
/** @typedef {import("./index.js").Answers} Answers */
/** @typedef {import("./index.js").Question} Question */
/** @typedef {import("./index.js").RandomWords} RandomWords */
/** @typedef {import("./index.js").RecordAnswer} RecordAnswer */

const FIELDS = ["tacit_plan", "title", "questions", "blocks", "notes", "recoding", "follows", ...SERIES_FIELDS];
const CHANCE_BITS = Math.log2(CHANCES);
/** What reports can tell is listed up to this many likelihoods, of all groups together. */
const MAX_HEIGHTS = 64;

/** A checked plan. Groups are given by name (null if the plan has no named groups), answers by the names of questions. */
export class Plan {
  /** @type {readonly Block[]} */
  #blocks;
  #byName;
  #moves;

  /**
   * @param {readonly string[]} hashes its own last
   * @param {Record<string, unknown>} data
   * @param {string | null} stored SHA-256 of how reports are stored in two layers
   */
  constructor(hashes, data, stored) {
    onlyFields(data, "the plan", FIELDS);
    this.stored = stored;
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
    for (const [place, { name, askedIf }] of this.questions.entries()) {
      const earlier = this.questions.slice(0, place).some((other) => other.name === askedIf?.question);
      demand(!askedIf || earlier, `Whether ${name} is asked must depend on an earlier question.`);
    }
    const spend = meter();
    this.#blocks = each(data.blocks, "blocks", (block, where) => new Block(object(block, where), where, this.#byName, spend));
    this.#checkBlocks();
    const [first] = this.#blocks;
    const groups = this.#blocks.flatMap((block) => [...block.groups.values()]);
    const one = this.questions.length === 1;
    this.#moves = readFollows(data, first.values.length);
    const layered = groups[0].layers !== null;
    demand(one || !(layered || this.#moves), "The same people are asked again, in two layers or by the belief rule, one question only.");
    /** How the levels of a person's reports in several waves add up; null where nothing is made for that. */
    this.rule = this.#moves ? /** @type {const} */ ("belief") : layered ? /** @type {const} */ ("layers") : null;
    /** @type {readonly {questions: readonly string[], share: number}[]} */
    this.blocks = Object.freeze(
      this.#blocks.map(({ questions, chance }) => Object.freeze({ questions: Object.freeze(questions.map(({ name }) => name)), share: chance / CHANCES })),
    );
    /** @type {readonly import("./index.js").Group[]} */
    this.groups = Object.freeze([...first.groups.values()].map(describe));
    const names = this.groups.map(({ name }) => name);
    /** The groups of people without an earlier report: all, but for those that the belief rule makes of reports. */
    this.firstGroups = Object.freeze(names.filter((name) => !this.#moves || followedName(baseName(name), null) === name));
    this.recoding = readRecoding(data);
    this.recoding?.check(new Map(this.questions.map(({ name, kind, answers }) => [name, kind === "number" ? null : answers])), names);
    for (const block of this.#blocks) block.check();
    /** @type {{readonly lip: Fraction, readonly ldp: Fraction | null}} The levels of one report, the worst of all groups. */
    this.levels = Object.freeze(worst(groups.map(({ epsilon, prior, mechanism }) => ({ lip: epsilon, ldp: mechanism.audit(prior).ldp }))));
    const lifelong = groups.flatMap(({ layers, prior }) => (layers ? [{ lip: layers.lifelong, ldp: layers.stored.audit(prior).ldp }] : []));
    /** The same of a stored report, and so of all waves of an answer that stays; null without two layers. */
    this.lifelong = lifelong.length ? Object.freeze(worst(lifelong)) : null;
    /** Of how many waves the stored report is sent in one, as a percentage; null without two layers. */
    this.resend = groups[0].layers && percent(fraction(BigInt(groups[0].layers.resend), 4096n));
    /** @type {Fraction | null} */
    this.limit = readLimit(data.limit, this.levels.lip);
    Object.freeze(this);
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
    const alike = this.#blocks.every(({ promised }) => promised === this.#blocks[0].promised);
    demand(alike, "All blocks of a plan must have the same groups with the same promises.");
  }

  /** What the plan is about, in words: its title, or its only question; null where there is neither. */
  get heading() {
    const [{ text: words }, ...more] = this.questions;
    return this.title ?? (more.length ? null : (words[""] ?? words.en ?? Object.values(words)[0] ?? null));
  }

  /** What is estimated, of a plan of one question; null for several. */
  get task() {
    return this.questions.length === 1 ? this.#blocks[0].task : null;
  }

  // -- what is promised -------------------------------------------------------------------------------------------------

  /** What a respondent of the group is promised, as a sentence: about one answer, or about all. @param {string | null} group */
  promise(group) {
    const { bound, odds, oddsOnly, rarest } = this.promiseParts(group);
    if (oddsOnly) return oddsSentence(odds);
    if (!rarest) return recordSentence({ bound, odds, oddsOnly });
    const { kind, numeric } = this.#byName.get(rarest.question) ?? this.questions[0];
    const name = numeric && this.questions.length === 1 ? rarest.value : quoted(rarest.value);
    return sentence(kind === "number" && this.questions.length === 1 ? `near ${name}` : name, { ...rarest, odds });
  }

  /**
   * The numbers of the promise: the worst of all blocks; of one private question also those about the rarest answer, of
   * those that a survey asks for.
   *
   * @param {string | null} group
   */
  promiseParts(group) {
    const mine = this.#blocks.map((block) => block.group(group));
    const audits = mine.map(({ prior, mechanism }) => mechanism.audit(prior));
    const most = (/** @type {(Fraction | null)[]} */ ratios) => ratios.reduce((all, ratio) => all && ratio && larger(all, ratio));
    return {
      bound: factor(most(audits.map(({ lip }) => lip))),
      odds: factor(most(audits.map(({ ldp }) => ldp))),
      oddsOnly: mine.every(({ notion, prior }) => notion === "ldp" && prior.isUniform),
      rarest: this.#blocks.length === 1 && this.#blocks[0].questions.length === 1 ? this.#rarest(group) : null,
    };
  }

  /** @param {string | null} group @returns {import("./index.js").Belief} */
  #rarest(group) {
    const { values, task, questions } = this.#blocks[0];
    const { prior, mechanism } = this.#blocks[0].group(group);
    const wanted = "values" in task ? task.values : [];
    const asked = prior.support.filter((x) => wanted.includes(values[x]));
    const [x] = prior.rarest(1, asked.length ? asked : prior.support);
    const belief = mechanism.belief(prior, x);
    const [low, high] = [percent(belief.low, "down"), percent(belief.high, "up")];
    return { question: questions[0].name, value: values[x], prior: percent(belief.prior), low, high };
  }

  /** For whom that holds, where it is promised for sets of priors; else null. @param {string | null} group */
  setSentence(group) {
    return this.setParts(group).map(setSentence).join(" ") || null;
  }

  /** The same as its numbers, each of them once. @param {string | null} group */
  setParts(group) {
    const mine = this.#blocks.map((block) => block.group(group));
    const parts = mine.flatMap(({ priorSet, mechanism }) => (priorSet ? [setParts(priorSet, mechanism.setLevels(priorSet).lip)] : []));
    return [...new Map(parts.map((part) => [JSON.stringify(part), part])).values()];
  }

  /**
   * How far a report can move the belief in each answer to each private question; where reports to one question are too
   * many to list, in the least likely answers only.
   *
   * @param {string | null} group
   */
  beliefs(group) {
    return this.#blocks.flatMap((block) => block.beliefs(group));
  }

  /**
   * Combinations of these answers that are outside of the promise, because the plan declares them impossible; `exposed`
   * where people who give them may send a report that no one else sends.
   *
   * @param {string | null} group
   * @param {Answers} answers
   * @returns {{questions: string[], exposed: boolean}[]}
   */
  outside(group, answers) {
    const record = this.#record(answers);
    return this.#blocks.flatMap((block) => {
      const { prior, mechanism } = block.group(group);
      const cells = combinations(block.positions(record)).map((positions) => cellOf(block.questions, positions));
      if (cells.every((x) => prior.weights[x] > 0n)) return [];
      const { exposed } = mechanism.audit(prior);
      return [{ questions: block.questions.map(({ name }) => name), exposed: cells.some((x) => exposed.includes(x)) }];
    });
  }

  // -- answers and reports ----------------------------------------------------------------------------------------------

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

  /** The answer to a question: a position, or a number; "not asked" where it is not asked. @param {Question} question @param {Answers} answers */
  #held(question, answers) {
    const given = this.isAsked(question.name, answers) ? answers[question.name] : NOT_ASKED;
    return question.kind === "number" ? numberWithin(question.answers.map(Number), given) : position(question, given);
  }

  /** The answers to all private questions, in order. @param {Answers} answers @returns {Map<Question, number>} */
  #record(answers) {
    return new Map(this.questions.filter((each) => !each.public).map((question) => [question, this.#held(question, answers)]));
  }

  /** The answers to public questions as they are sent; null where there is none. @param {Answers} answers */
  #public(answers) {
    const open = this.questions.filter((question) => question.public);
    if (!open.length) return null;
    return Object.fromEntries(
      open.map((question) => {
        const held = this.#held(question, answers);
        return [question.name, question.kind === "number" ? String(held) : question.answers[held]];
      }),
    );
  }

  /**
   * What a record of answers becomes, drawn with fresh words: use `respond`, which remembers it.
   *
   * Of several questions a record takes a word of 16 bits for the block; then a word of 64 bits for each number in the
   * block, then the words of the block's mechanism.
   *
   * @param {string | null} group
   * @param {Answers} answers
   * @param {RandomWords} [words]
   * @returns {{block?: number, report: number}}
   */
  randomize(group, answers, words = secureWords) {
    if (this.rule === "layers") throw new RangeError("This plan sends stored reports: use respond, which has a memory.");
    this.#blocks[0].group(group);
    const record = this.#record(answers);
    if (this.questions.length === 1) return { report: this.#blocks[0].report(group, record, words) };
    const drawn = Number(words.integer(CHANCE_BITS));
    let end = 0;
    const place = this.#blocks.findIndex(({ chance }) => drawn < (end += chance));
    return { block: place + 1, report: this.#blocks[place].report(group, record, words) };
  }

  /**
   * What is sent for a record of answers, but for its key; drawn with fresh words. In two layers the stored report is
   * drawn first, from words that are always the same for an answer.
   *
   * @param {RecordAnswer} record
   * @param {RandomWords} [words]
   * @param {RandomWords} [storedWords]
   * @returns {import("./index.js").Sent}
   */
  draw({ group, answers }, words = secureWords, storedWords) {
    const { layers, prior } = this.#blocks[0].group(group);
    if (layers && storedWords) {
      const held = this.#held(this.questions[0], answers);
      return { group, report: layers.send(layers.store(prior, held, storedWords), words) };
    }
    const told = this.#public(answers);
    return { group, ...this.randomize(group, answers, words), ...(told && { public: told }) };
  }

  /** What a stored report depends on, beside the memory. @param {RecordAnswer} record */
  storedAbout({ group, answers }) {
    const held = this.#held(this.questions[0], answers);
    return { series: this.series ?? this.hashes[0], stored: this.stored ?? "", group: group ?? "", position: String(held) };
  }

  /**
   * What a report says about each question of its block: the belief in each answer before it and after it. Null where
   * the mechanism does not write out its probabilities.
   *
   * @param {string | null} group
   * @param {number} report
   * @param {number} [block] from 1, of several questions
   */
  meaning(group, report, block) {
    return this.#sender(group, report, block).meaning(group, report);
  }

  /**
   * The value that a report is the best guess of, of one question; null if there is none.
   *
   * @param {string | null} group
   * @param {number} report
   */
  guess(group, report) {
    const { values, groups } = this.#sender(group, report);
    const label = groups.get(group)?.mechanism.label(report) ?? null;
    return label === null ? null : values[label];
  }

  /**
   * Pr(report | value) as a percentage, of one question; null where the mechanism does not write it out.
   *
   * @param {string | null} group
   * @param {string} value
   * @param {number} report
   */
  chance(group, value, report) {
    const block = this.#sender(group, report);
    const likelihood = block.group(group).mechanism.likelihood(position(block.questions[0], value), report);
    return likelihood && percent(likelihood);
  }

  /**
   * Whether the plan has this group and this block, counted from 1, and the block this report; and, where they are
   * given, these answers to public questions. A report about one question names no block.
   *
   * @param {unknown} group
   * @param {unknown} report
   * @param {unknown} [block]
   * @param {unknown} [told]
   */
  canSend(group, report, block, told) {
    const known = this.#blockOf(block)?.groups.get(/** @type {string | null} */ (group));
    const isReport = Number.isSafeInteger(report) && Number(report) >= 0;
    if (!known || !isReport || !known.mechanism.canSend(Number(report))) return false;
    if (told === undefined) return true;
    const names = this.questions.filter((question) => question.public).map((question) => question.name);
    const given = typeof told === "object" && told !== null ? Object.entries(told) : [];
    const texts = given.every(([name, answer]) => names.includes(name) && typeof answer === "string");
    return texts && given.length === names.length && names.length > 0;
  }

  /** @param {unknown} block */
  #blockOf(block) {
    if (this.questions.length === 1) return block === undefined ? this.#blocks[0] : undefined;
    return Number.isSafeInteger(block) ? this.#blocks[Number(block) - 1] : undefined;
  }

  /** @param {string | null} group @param {number} report @param {number} [block] */
  #sender(group, report, block) {
    const found = this.#blockOf(block);
    if (!found || !this.canSend(group, report, block)) throw new RangeError("This plan has no such group, block or report.");
    return found;
  }

  /** @param {string} name */
  #question(name) {
    const question = this.#byName.get(name);
    if (!question) throw new RangeError("This plan has no question of that name.");
    return question;
  }

  // -- several reports of one person ------------------------------------------------------------------------------------

  /**
   * The columns of all groups, if there is one question, they are few and LIP is promised; of two layers those of the
   * stored report.
   *
   * @returns {import("./mechanism/repeated.js").Column[]}
   */
  get columns() {
    const drawn = [...this.#blocks[0].groups.values()].map(({ layers, mechanism, ...group }) => ({ ...group, table: layers ? layers.stored : mechanism }));
    const size = (/** @type {typeof drawn[number]} */ { prior, table }) => (table instanceof Channel ? prior.support.length * table.nPossibleReports : Infinity);
    const one = this.questions.length === 1;
    // A promise of LDP is for every prior, and under the worst one LDP levels add up.
    if (!one || this.#moves || drawn.some(({ notion }) => notion === "ldp") || drawn.reduce((total, each) => total + size(each), 0) > MAX_HEIGHTS) return [];
    return drawn.flatMap(({ table, prior, priorSet }) => columnsOf(/** @type {Channel} */ (table), prior, priorSet));
  }

  /** The belief after a report, as weights of the answers; null where reports are not listed. @param {string | null} group @param {number} report */
  beliefAfter(group, report) {
    const { mechanism, prior, layers } = this.#blocks[0].group(group);
    const one = this.questions.length === 1;
    return one && mechanism instanceof Channel && !layers ? posterior(mechanism, prior, report) : null;
  }

  /**
   * Whether the prior of a group is what this belief becomes some waves later, by how this plan says that answers change.
   *
   * @param {string} group
   * @param {readonly bigint[]} belief
   * @param {number} waves
   */
  follows(group, belief, waves) {
    const { groups, values } = this.#blocks[0];
    const [found, base] = [groups.get(group), groups.get(baseName(group) ?? "new")];
    if (!this.#moves || !found || !base || belief.length !== values.length) return false;
    const moves = this.#moves(base.prior);
    let now = belief;
    for (let wave = 0; wave < waves; wave++) now = after(now, moves);
    return now.every((weight, x) => weight === found.prior.weights[x]);
  }
}

/**
 * The largest budget and the largest ratio of odds; null is unbounded.
 *
 * @param {readonly {lip: Fraction, ldp: Fraction | null}[]} levels
 */
const worst = (levels) =>
  levels.reduce((a, b) => ({ lip: larger(a.lip, b.lip), ldp: a.ldp && b.ldp && larger(a.ldp, b.ldp) }));
