/**
 * The recoding of a plan: how raw cells become its answers and groups. `tacit.plan.Recoding` is the same in Python, and
 * a golden file compares the two.
 */

import { demand, each, expect, list, name, number, object, onlyFields } from "./read.js";

const FIELDS = ["column", "text", "map", "missing", "missing_as", "leave_out", "edges", "labels", "other"];
/** Stands between the parts of a crossed group's name. */
const CROSSED = " / ";
/** What Python cuts off around a text. */
// eslint-disable-next-line no-control-regex
const BLANKS = /^[\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+|[\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+$/g;
const NUMBER = /^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]{1,3})?$/i;
const WHOLE = /^(-?[0-9]+)\.0+$/;

/** @param {string} text */
const clean = (text) => text.replace(BLANKS, "").normalize("NFC");

/** The number that a text is, with a decimal point; null where it is none. @param {string} text */
export const numberIn = (text) => (NUMBER.test(text) ? Number(text) : null);

/** The code that a text is; 1.0 is the code 1 where there is none written 1.0. @param {string} text @param {(code: string) => boolean} has */
function codeOf(text, has) {
  const whole = WHOLE.exec(text);
  return whole && !has(text) ? whole[1] : text;
}

/** How the cells of one column are read. */
export class RecodedColumn {
  #map;
  #missing;
  #leaveOut;

  /** @param {unknown} data @param {string} where */
  constructor(data, where) {
    const told = object(data, where);
    onlyFields(told, where, FIELDS);
    for (const [field, part] of Object.entries(told))
      expect(part && !(Array.isArray(part) && !part.length) && !isEmpty(part), `${where}.${field}`, "left out where it is empty");
    this.column = name(told.column, `${where}.column`);
    expect(clean(this.column), `${where}.column`, "a name");
    const optional = (/** @type {string} */ field) => (field in told ? cleanName(told[field], `${where}.${field}`) : null);
    const names = (/** @type {string} */ field) => (field in told ? each(told[field], `${where}.${field}`, cleanName) : []);
    /** @type {string | Readonly<Record<string, string>> | null} */
    this.text = "text" in told ? readText(told.text, `${where}.text`) : null;
    const pairs = Object.entries("map" in told ? object(told.map, `${where}.map`) : {});
    /** @type {Map<string, string>} */
    this.#map = new Map(pairs.map(([old, to]) => [cleanName(old, `${where}.map`), cleanName(to, `${where}.map`)]));
    this.#missing = different(names("missing"), `${where}.missing`);
    this.#leaveOut = different(names("leave_out"), `${where}.leave_out`);
    this.missingAs = optional("missing_as");
    this.other = optional("other");
    /** @type {readonly number[]} */
    this.edges = Object.freeze("edges" in told ? list(told.edges, `${where}.edges`, 2).map((edge, i) => readEdge(edge, `${where}.edges[${i}]`)) : []);
    /** @type {readonly string[]} */
    this.labels = Object.freeze(names("labels"));
    const ascending = this.edges.every((edge, i) => !i || this.edges[i - 1] < edge);
    const fits = ascending && this.edges.length === this.labels.length + (this.edges.length ? 1 : 0);
    expect(fits, `${where}.edges`, "ascending, with a label for each bin between two of them");
    Object.freeze(this);
  }

  /**
   * The name that a cell stands for, null where there is none; what fits nothing stays as it is.
   *
   * @param {string | number | null | undefined} cell
   * @param {readonly string[]} [known] the names of the plan, for `other`
   * @returns {string | null}
   */
  read(cell, known = []) {
    const written = cell === null || cell === undefined ? "" : clean(String(cell));
    const text = this.#map.get(codeOf(written, (code) => this.#map.has(code))) ?? written;
    if (!text || this.#missing.has(codeOf(text, (code) => this.#missing.has(code)))) return this.missingAs;
    if (this.#leaveOut.has(codeOf(text, (code) => this.#leaveOut.has(code)))) return null;
    if (this.edges.length && !this.labels.includes(text)) {
      const place = this.#place(numberIn(text));
      return place === null ? text : this.labels[place];
    }
    return this.other === null || known.includes(text) ? text : this.other;
  }

  /** Which bin a number is in. @param {number | null} found */
  #place(found) {
    const last = this.edges.length - 1;
    if (found === null || !(found >= this.edges[0] && found <= this.edges[last])) return null;
    const above = this.edges.findIndex((edge) => edge > found);
    return Math.min(above < 0 ? last + 1 : above, last) - 1;
  }
}

/** How raw data are read: a column for each answer that is recoded, and the columns whose names make up a group. */
export class Recoding {
  /** @param {unknown} data */
  constructor(data) {
    const told = object(data, "recoding");
    onlyFields(told, "recoding", ["answers", "groups"]);
    const read = (/** @type {unknown} */ part, /** @type {string} */ where) => new RecodedColumn(part, where);
    /** @type {readonly RecodedColumn[]} */
    this.answers = Object.freeze(each(told.answers, "recoding.answers", read, 0));
    /** @type {readonly RecodedColumn[]} */
    this.groups = Object.freeze(each(told.groups, "recoding.groups", read, 0));
    const columns = [...this.answers, ...this.groups].map(({ column }) => column);
    expect(columns.length && new Set(columns).size === columns.length, "recoding", "of one column or more, each of them once");
    const plain = this.groups.every(({ missingAs, other }) => missingAs === null && other === null);
    expect(plain, "recoding.groups", "without missing or other answers");
    Object.freeze(this);
  }

  /**
   * The name of the group that a person with these cells is in; null where a part is missing.
   *
   * @param {readonly (string | number | null | undefined)[]} cells
   * @returns {string | null}
   */
  group(cells) {
    const parts = this.groups.map((column, place) => column.read(cells[place]));
    return parts.includes(null) ? null : parts.join(CROSSED);
  }

  /**
   * Throw a PlanError unless bins and missing answers are among these answers, by column, and all groups can result.
   *
   * @param {ReadonlyMap<string, readonly string[] | null>} answers null stands for any number
   * @param {readonly (string | null)[]} groups
   */
  check(answers, groups) {
    for (const { column, labels, missingAs, other } of this.answers) {
      const known = answers.get(column) ?? [];
      const numbers = known.map(numberIn);
      const made = [...labels, ...[missingAs, other].filter((made) => made !== null)];
      const fits = made.every((told) => known.includes(told) || (numberIn(told) !== null && numbers.includes(numberIn(told))));
      demand(answers.has(column) && fits, `The recoding of ${column} must lead to answers of the plan.`);
    }
    const named = groups.filter((told) => told !== null);
    const result = named.length > 0 && named.every((told) => this.#results(told.split(CROSSED)));
    demand(!this.groups.length || result, "The names of a plan's groups must be what their recoded columns result in.");
  }

  /** Whether a group of these parts can result, or one whose last part is its arm. @param {readonly string[]} parts */
  #results(parts) {
    const count = this.groups.length;
    if (count === 1) {
      const { labels } = this.groups[0];
      return !labels.length || labels.includes(parts.join(CROSSED)) || labels.includes(parts.slice(0, -1).join(CROSSED));
    }
    const fits = this.groups.every(({ labels }, place) => !labels.length || labels.includes(parts[place]));
    return fits && (parts.length === count || parts.length === count + 1);
  }
}

/** The recoding in a plan; null where it has none. @param {Record<string, unknown>} data */
export const readRecoding = (data) => ("recoding" in data ? new Recoding(data.recoding) : null);

/** @param {unknown} data @param {string} where */
function cleanName(data, where) {
  const told = name(data, where);
  expect(told && told === clean(told), where, "a name without blanks around it, in Unicode normal form C");
  return told;
}

/** A question, or what it is in each language. @param {unknown} data @param {string} where */
function readText(data, where) {
  if (typeof data === "string") return name(data, where);
  const pairs = Object.entries(object(data, where)).map(([code, part]) => [name(code, where), name(part, `${where}.${code}`)]);
  return Object.freeze(Object.fromEntries(pairs));
}

/** An edge as Python writes it: whole numbers without a point. @param {unknown} data @param {string} where */
function readEdge(data, where) {
  if (data === "inf" || data === "-inf") return data === "inf" ? Infinity : -Infinity;
  const found = Number(number(data, where));
  expect(!Number.isSafeInteger(found) || data === String(found), where, "a number as Python writes it");
  return found;
}

/** @param {readonly string[]} codes @param {string} where @returns {ReadonlySet<string>} */
function different(codes, where) {
  const found = new Set(codes);
  expect(found.size === codes.length, where, "without a code twice");
  return found;
}

/** Whether it is an object without fields. @param {unknown} part */
const isEmpty = (part) => typeof part === "object" && part !== null && !Object.keys(part).length;
