/** The plan of one question: what is asked, and the integers that randomize an answer. Making one audits it. */

import { fraction, larger } from "./exact.js";
import { check, describe, readGroup } from "./group.js";
import { after, columnsOf, posterior } from "./mechanism/repeated.js";
import { Channel } from "./mechanism/table/table.js";
import { factor, oddsSentence, percent, quoted, sentence, setParts, setSentence } from "./promise.js";
import { Randomizer, neighbours, rounded } from "./randomizer.js";
import { demand, each, expect, integer, meter, name, number, object, oneOf, onlyFields, rational, text } from "./read.js";
import { readRecoding } from "./recoding.js";
import { SERIES_FIELDS, baseName, followedName, readFollows, readLimit, readSeries } from "./series.js";
import { secureWords } from "./words.js";

/** @typedef {import("./exact.js").Fraction} Fraction */
/** @typedef {import("./group.js").Group} Group */
/** @typedef {import("./index.js").RandomWords} RandomWords */

const TASKS = /** @type {const} */ (["histogram", "matrix", "quantiles", "sum", "survey", "weighted-sum"]);
/** What reports can tell is listed up to this many likelihoods, of all groups together. */
const MAX_HEIGHTS = 64;
/** Where reports are too many to be listed, beliefs are shown for at most this many values. */
const MAX_BELIEFS = 20;
const NUMBER = /^-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,3})?$/;

/** A checked plan. Groups are given by name (null if the plan has no named groups), answers as in `values`. */
export class Plan {
  #groups;
  #positions;
  #randomizer;
  /** @type {readonly number[]} The values as numbers, where answers may lie between them. */
  #knots;
  #moves;

  /**
   * @param {readonly string[]} hashes its own last
   * @param {Record<string, unknown>} data
   * @param {import("./read.js").Meter} spend
   * @param {string | null} stored SHA-256 of how reports are stored in two layers
   */
  constructor(hashes, data, spend = meter(), stored = null) {
    this.stored = stored;
    onlyFields(data, "the plan", ["tacit_plan", "question", "task", "domain", "groups", "recoding", "follows", ...SERIES_FIELDS]);
    const domain = object(data.domain, "domain");
    onlyFields(domain, "domain", ["numeric", "values", "between"]);
    this.hash = hashes[hashes.length - 1];
    this.hashes = hashes;
    const { wave, series } = readSeries(data);
    this.wave = wave;
    this.series = series;
    this.question = data.question === null ? null : text(data.question, "question");
    expect(typeof domain.numeric === "boolean", "domain.numeric", "true or false");
    this.numeric = domain.numeric;
    /** @type {readonly string[]} */
    this.values = Object.freeze(each(domain.values, "domain.values", this.numeric ? number : name));
    this.#positions = new Map(this.values.map((value, x) => [value, x]));
    const different = new Set(this.values.map((value) => identity(value, this.numeric)));
    expect(different.size === this.values.length, "domain.values", "all different");
    this.task = readTask(data.task, this);
    expect(!("between" in domain) || domain.between === true, "domain.between", "true, or left out");
    this.between = "between" in domain;
    this.#knots = this.between ? readKnots(this) : [];
    const groups = each(data.groups, "groups", (group, at) => readGroup(group, at, this.values.length, spend));
    this.#groups = new Map(groups.map((group) => [group.name, group]));
    checkNames([...this.#groups.keys()], groups.length);
    const possible = groups.every(({ prior }) => prior.weights.every((weight) => weight > 0n));
    expect(!this.between || possible, "domain.between", "with a positive prior for every value");
    this.#moves = readFollows(data, this.values.length);
    const layered = groups.filter(({ layers }) => layers).length;
    expect(!layered || (layered === groups.length && !this.between), "groups", "all in two layers or none, and not between values");
    /** How the levels of a person's reports in several waves add up; null where nothing is made for that. */
    this.rule = this.#moves ? /** @type {const} */ ("belief") : layered ? /** @type {const} */ ("layers") : null;
    this.#randomizer = new Randomizer(groups);
    /** @type {readonly import("./index.js").Group[]} */
    this.groups = Object.freeze(groups.map(describe));
    /** The groups of people without an earlier report: all, but for those that the belief rule makes of reports. */
    this.firstGroups = Object.freeze(groups.map(({ name }) => name).filter((name) => !this.#moves || followedName(baseName(name), null) === name));
    this.recoding = readRecoding(data);
    if (this.recoding) {
      expect(this.recoding.answers.length === 1, "recoding.answers", "one column");
      const answers = this.between ? null : this.values;
      this.recoding.check(new Map([[this.recoding.answers[0].column, answers]]), [...this.#groups.keys()]);
    }
    groups.forEach(check);
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

  /** What a respondent of the group is promised, as a sentence. @param {string | null} group */
  promise(group) {
    const { value, oddsOnly, ...told } = this.promiseParts(group);
    if (oddsOnly) return oddsSentence(told.odds);
    const name = this.numeric ? value : quoted(value);
    return sentence(this.between ? `near ${name}` : name, told);
  }

  /**
   * The numbers of the promise: about the rarest answer of those that a survey asks for.
   *
   * @param {string | null} group
   */
  promiseParts(group) {
    const told = this.#group(group);
    const { ldp } = told.mechanism.audit(told.prior);
    const wanted = "values" in this.task ? this.task.values : [];
    const asked = told.prior.support.filter((x) => wanted.includes(this.values[x]));
    const [x] = told.prior.rarest(1, asked.length ? asked : told.prior.support);
    return { ...this.#belief(told, x), odds: factor(ldp), oddsOnly: told.notion === "ldp" && told.prior.isUniform };
  }

  /** For whom the group's promise holds, where that is a set of priors; else null. @param {string | null} group */
  setSentence(group) {
    const parts = this.setParts(group);
    return parts && setSentence(parts);
  }

  /** The same as its numbers. @param {string | null} group */
  setParts(group) {
    const { priorSet, mechanism } = this.#group(group);
    return priorSet && setParts(priorSet, mechanism.setLevels(priorSet).lip);
  }

  /**
   * How far a report can move each belief; where reports are too many to list, for the least likely values only.
   *
   * @param {string | null} group
   */
  beliefs(group) {
    const told = this.#group(group);
    const listed = told.mechanism.nPossibleReports !== null;
    const positions = listed ? told.prior.support : told.prior.rarest(MAX_BELIEFS);
    return positions.map((x) => this.#belief(told, x));
  }

  /** The answers with prior zero, about which nothing can be promised. @param {string | null} group */
  outside(group) {
    return this.#group(group).prior.outside.map((x) => this.values[x]);
  }

  /**
   * The answers outside the guarantee whose holders may send a report that no one else sends.
   *
   * @param {string | null} group
   */
  exposed(group) {
    const { prior, mechanism } = this.#group(group);
    return mechanism.audit(prior).exposed.map((x) => this.values[x]);
  }

  /**
   * A report for an answer, drawn with fresh words: use `respond`, which remembers it.
   *
   * @param {string | null} group
   * @param {string | number} value
   * @param {RandomWords} [words]
   */
  randomize(group, value, words = secureWords) {
    const { name } = this.#group(group);
    const position = this.between ? rounded(this.#knots, this.#number(value), words) : this.#position(value);
    return this.reportAt(name, position, words);
  }

  /**
   * What is sent for an answer, but for its key; drawn with fresh words. In two layers the stored report is drawn first,
   * from words that are always the same for an answer.
   *
   * @param {{group: string | null, value: string | number}} answer
   * @param {RandomWords} [words]
   * @param {RandomWords} [storedWords]
   */
  draw({ group, value }, words = secureWords, storedWords) {
    const { layers, prior } = this.#group(group);
    if (!layers || !storedWords) return { group, report: this.randomize(group, value, words) };
    return { group, report: layers.send(layers.store(prior, this.#position(value), storedWords), words) };
  }

  /** What a stored report depends on, beside the memory. @param {{group: string | null, value: string | number}} answer */
  storedAbout({ group, value }) {
    return { series: this.series ?? this.hashes[0], stored: this.stored ?? "", group: group ?? "", position: String(this.#position(value)) };
  }

  /** The columns of all groups, if they are few and LIP is promised; of two layers those of the stored report. @returns {import("./mechanism/repeated.js").Column[]} */
  get columns() {
    const drawn = [...this.#groups.values()].map(({ layers, mechanism, ...group }) => ({ ...group, table: layers ? layers.stored : mechanism }));
    const size = (/** @type {typeof drawn[number]} */ { prior, table }) => (table instanceof Channel ? prior.support.length * table.nPossibleReports : Infinity);
    // A promise of LDP is for every prior, and under the worst one LDP levels add up.
    if (this.#moves || drawn.some(({ notion }) => notion === "ldp") || drawn.reduce((total, each) => total + size(each), 0) > MAX_HEIGHTS) return [];
    return drawn.flatMap(({ table, prior, priorSet }) => columnsOf(/** @type {Channel} */ (table), prior, priorSet));
  }

  /** The belief after a report, as weights of the answers; null where reports are not listed. @param {string | null} group @param {number} report */
  beliefAfter(group, report) {
    const { mechanism, prior, layers } = this.#group(group);
    return mechanism instanceof Channel && !layers ? posterior(mechanism, prior, report) : null;
  }

  /**
   * Whether the prior of a group is what this belief becomes some waves later, by how this plan says that answers change.
   *
   * @param {string} group
   * @param {readonly bigint[]} belief
   * @param {number} waves
   */
  follows(group, belief, waves) {
    const found = this.#groups.get(group);
    const base = this.#groups.get(baseName(group) ?? "new");
    if (!this.#moves || !found || !base || belief.length !== this.values.length) return false;
    const moves = this.#moves(base.prior);
    let now = belief;
    for (let wave = 0; wave < waves; wave++) now = after(now, moves);
    return now.every((weight, x) => weight === found.prior.weights[x]);
  }

  /**
   * A report for the value at a position, without the memory that two layers need.
   *
   * @param {string | null} group
   * @param {number} position
   * @param {RandomWords} words
   */
  reportAt(group, position, words) {
    if (this.rule === "layers") throw new RangeError("This plan sends stored reports: use respond, which has a memory.");
    return this.#randomizer.report([...this.#groups.keys()].indexOf(this.#group(group).name), position, words);
  }

  /** A group with its prior and mechanism. @param {string | null} group */
  audited(group) {
    return this.#group(group);
  }

  /**
   * The values that an answer is randomized as: itself, or, between two of them, its neighbours.
   *
   * @param {string | number} value
   */
  neighbours(value) {
    const positions = this.between ? neighbours(this.#knots, this.#number(value)) : [this.#position(value)];
    return positions.map((x) => this.values[x]);
  }

  /**
   * The answer that a report is the best guess of; null if there is none.
   *
   * @param {string | null} group
   * @param {number} report
   */
  meaning(group, report) {
    const label = this.#sender(group, report).mechanism.label(report);
    return label === null ? null : this.values[label];
  }

  /**
   * Pr(report | value) as a percentage; null where the mechanism does not write it out.
   *
   * @param {string | null} group
   * @param {string} value
   * @param {number} report
   */
  chance(group, value, report) {
    const likelihood = this.#sender(group, report).mechanism.likelihood(this.#position(value), report);
    return likelihood && percent(likelihood);
  }

  /**
   * Whether the plan has this group and the group this report; a plan of one question has no blocks.
   *
   * @param {unknown} group
   * @param {unknown} report
   * @param {unknown} [block]
   * @param {unknown} [told] nor has it public questions
   */
  canSend(group, report, block, told) {
    const known = this.#groups.get(/** @type {string | null} */ (group));
    const isReport = Number.isSafeInteger(report) && Number(report) >= 0 && block === undefined && told === undefined;
    return known !== undefined && isReport && known.mechanism.canSend(Number(report));
  }

  /** @param {Group} group @param {number} x */
  #belief({ prior: believed, mechanism }, x) {
    const { prior, low, high } = mechanism.belief(believed, x);
    return { value: this.values[x], prior: percent(prior), low: percent(low, "down"), high: percent(high, "up") };
  }

  /** @param {string | null} name */
  #group(name) {
    const group = this.#groups.get(name);
    if (!group) throw new RangeError("This plan has no group of that name.");
    return group;
  }

  /** @param {string | null} group @param {number} report */
  #sender(group, report) {
    if (!this.canSend(group, report))
      throw new RangeError("This plan has no such group, or the group no such report.");
    return this.#group(group);
  }

  /** @param {string | number} value */
  #position(value) {
    const position = this.#positions.get(String(value));
    if (position === undefined) throw new RangeError(`Not one of this plan's ${this.values.length} answers.`);
    return position;
  }

  /** The answer to a question for a number. @param {string | number} value */
  #number(value) {
    return numberWithin(this.#knots, value);
  }
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

/** The values as numbers that answers may lie between. @param {Pick<Plan, "values" | "numeric" | "task">} domain */
function readKnots({ values, numeric, task }) {
  const knots = values.map(Number);
  const ascending = knots.every((knot, x) => !x || knots[x - 1] < knot) && knots.length > 1;
  const finite = Number.isFinite(knots[knots.length - 1] - knots[0]);
  const isRange = numeric && ascending && finite && task.kind.endsWith("sum");
  expect(isRange, "domain.between", "for a sum over at least two numbers in ascending order");
  return knots;
}

/**
 * What is estimated.
 *
 * @param {unknown} data
 * @param {Pick<Plan, "values" | "numeric">} domain
 * @returns {import("./index.js").Task}
 */
function readTask(data, { values, numeric }) {
  const task = object(data, "task");
  const kind = oneOf(task.kind, "task.kind", TASKS);
  const added = kind.endsWith("sum") || kind === "quantiles";
  demand(numeric || !added, "This plan is malformed: sums and quantiles need numeric answers.");
  if (kind === "matrix") return readMatrix(task, values.length);
  onlyFields(task, "task", kind === "survey" ? ["kind", "values"] : ["kind"]);
  if (kind !== "survey") return Object.freeze({ kind });
  const wanted = each(task.values, "task.values", (x, at) => values[integer(x, at, 0, values.length - 1)]);
  return Object.freeze({ kind, values: Object.freeze(wanted) });
}

/**
 * A task as a matrix: names of its columns, and a row of rationals for each value.
 *
 * @param {Record<string, unknown>} task
 * @param {number} size
 * @returns {import("./index.js").Task}
 */
function readMatrix(task, size) {
  onlyFields(task, "task", ["kind", "names", "rows"]);
  const names = each(task.names, "task.names", name);
  expect(new Set(names).size === names.length && names.every((told) => told.trim()), "task.names", "different names");
  const rows = each(task.rows, "task.rows", (row, where) => each(row, where, rational).length);
  const fits = rows.length === size && rows.every((width) => width === names.length);
  expect(fits, "task.rows", "a row for each value, with a number for each name");
  return Object.freeze({ kind: "matrix", names: Object.freeze(names) });
}

/**
 * The largest budget and the largest ratio of odds; null is unbounded.
 *
 * @param {readonly {lip: Fraction, ldp: Fraction | null}[]} levels
 */
export const worst = (levels) =>
  levels.reduce((a, b) => ({ lip: larger(a.lip, b.lip), ldp: a.ldp && b.ldp && larger(a.ldp, b.ldp) }));

/** One unnamed group, or several with different names. @param {(string | null)[]} names @param {number} count */
function checkNames(names, count) {
  const fits = names.length === count && (count === 1 || !names.includes(null));
  demand(fits, "This plan is malformed: it needs one unnamed group, or several groups with different names.");
}
