/**
 * The ledger of a browser: which waves were answered in it, what was drawn, and what it adds up to.
 *
 * Answers to private questions are not in it. The format and the sums are those of `tacit.files.Ledger` in Python: with ε the LIP level of a
 * report and δ its LDP level, Σ min(2ε, δ) − max (min(2ε, δ) − min(ε, δ)) bounds the LIP level of all reports together,
 * for any dependence between the answers; LDP levels add.
 */

import { LimitError, StorageError } from "./errors.js";
import { atMostExp, compare, expEnclosure, fraction, gcd, larger, minus, plus, smaller, toNumber } from "./exact.js";
import { canonicalJson, sha256, toHex } from "./hash.js";
import { factor } from "./promise.js";
import { each, integer, object, onlyFields, rational, text } from "./read.js";
import { readBudget } from "./group.js";
import { randomBytes } from "./words.js";

/** @typedef {import("./exact.js").Fraction} Fraction */
/** @typedef {import("./index.js").AnyPlan} Plan */
/**
 * @typedef {object} Occasion one wave of a survey, named by the hash of its plan's first wording
 * @property {string} occasion
 * @property {string} series the name of the first wave
 * @property {number} wave
 * @property {string | null} question
 * @property {Fraction} lip
 * @property {Fraction | null} ldp rounded up; null is unbounded
 */
/**
 * @typedef {object} Memento what is stored of a report: as it is sent, and an invitation's credential in the making
 * @property {string} key
 * @property {string | null} group
 * @property {number} [block] from 1, in plans of several questions
 * @property {number} report
 * @property {Readonly<Record<string, string>>} [public] answers to public questions, which are sent as they are
 * @property {readonly string[]} sent the addresses of the surveys that counted it
 * @property {string} [credential]
 * @property {import("./credential.js").Pending} [pending]
 */
/**
 * @typedef {object} Ledger
 * @property {string} key in hexadecimal
 * @property {Fraction | null} limit the largest level that the reports of this browser may add up to
 * @property {readonly Occasion[]} occasions
 * @property {Readonly<Record<string, readonly number[]>>} persons by tag, the places of the occasions that were answered
 * @property {Readonly<Record<string, readonly Memento[]>>} reports in the same order
 */

const FORMAT = 1;
const HASH = /^[0-9a-f]{64}$/;
const TAG = /^[0-9a-f]{24}$/;
const KEY = /^[0-9a-f]{32}$/;
/** LDP levels are rounded up to a millionth, so that every language writes the same. */
const PARTS = 1_000_000;
const FIELDS = ["tacit_ledger", "key", "limit", "occasions", "persons", "reports", "hash"];
const MEMENTO = ["key", "group", "block", "report", "public", "sent", "credential", "pending"];
/** Longer questions are cut, so that no plan fills the storage; ratios of odds from this power of 2 on are unbounded. */
const [MAX_QUESTION, MAX_ODDS] = [300, 1000n];
/** Factors beyond e^30 are shown as ∞. */
const MAX_SHOWN = fraction(30n);
const DAMAGED =
  "What this browser remembers about surveys was altered or damaged. Nothing is drawn, because a second draw could not " +
  "be noticed. Restore the site data, or erase them.";

/** @returns {Ledger} */
export const newLedger = () => ({ key: toHex(randomBytes(16)), limit: null, occasions: [], persons: {}, reports: {} });

/** The ledger in a text; a StorageError unless it is whole and unaltered. @param {string} stored @returns {Promise<Ledger>} */
export async function readLedger(stored) {
  try {
    const data = object(JSON.parse(stored), "the ledger");
    onlyFields(data, "the ledger", FIELDS);
    const { hash, ...content } = data;
    if (data.tacit_ledger !== FORMAT || hash !== (await sha256(canonicalJson(content)))) throw new StorageError(DAMAGED);
    const occasions = each(data.occasions, "occasions", readOccasion, 0);
    const persons = readPersons(data.persons, occasions.length);
    const reports = readReports(data.reports, persons);
    const sound = KEY.test(text(data.key, "key")) && new Set(occasions.map(({ occasion }) => occasion)).size === occasions.length;
    if (!sound) throw new StorageError(DAMAGED);
    return { key: String(data.key), limit: data.limit === null ? null : readBudget(data.limit, "limit"), occasions, persons, reports };
  } catch (error) {
    throw new StorageError(DAMAGED, { cause: error });
  }
}

/** @param {unknown} data @param {string} where @returns {Occasion} */
function readOccasion(data, where) {
  const told = object(data, where);
  onlyFields(told, where, ["occasion", "series", "wave", "question", "lip", "ldp"]);
  const [occasion, series] = [text(told.occasion, where), text(told.series, where)];
  const ldp = told.ldp === null ? null : rational(told.ldp, where);
  if (!HASH.test(occasion) || !HASH.test(series) || (ldp && ldp.n < 0n)) throw new StorageError(DAMAGED);
  const question = told.question === null ? null : text(told.question, where);
  return { occasion, series, wave: integer(told.wave, where, 1, 2 ** 31 - 1), question, lip: readBudget(told.lip, where), ldp };
}

/** @param {unknown} data @param {number} size */
function readPersons(data, size) {
  const persons = Object.entries(object(data, "persons")).map(([tag, told]) => {
    const places = each(told, "persons", (place, where) => integer(place, where, 0, size - 1));
    if (!TAG.test(tag) || new Set(places).size !== places.length) throw new StorageError(DAMAGED);
    return [tag, places];
  });
  return Object.fromEntries(persons);
}

/** @param {unknown} data @param {Ledger["persons"]} persons @returns {Ledger["reports"]} */
function readReports(data, persons) {
  const reports = object(data, "reports");
  const alike = Object.keys(reports).length === Object.keys(persons).length;
  const read = Object.entries(persons).map(([tag, places]) => {
    const found = each(reports[tag], "reports", (told, where) => {
      const memento = object(told, where);
      onlyFields(memento, where, MEMENTO);
      each(memento.sent, where, text, 0);
      if (!KEY.test(text(memento.key, where))) throw new StorageError(DAMAGED);
      return memento;
    });
    if (!alike || found.length !== places.length) throw new StorageError(DAMAGED);
    return [tag, found];
  });
  return Object.fromEntries(read);
}

/** The ledger as it is stored and exported. @param {Ledger} ledger */
export async function ledgerText({ key, limit, occasions, persons, reports }) {
  const told = occasions.map(({ lip, ldp, ...rest }) => ({ ...rest, lip: written(lip), ldp: ldp && written(ldp) }));
  const content = { tacit_ledger: FORMAT, key, limit: limit && written(limit), occasions: told, persons, reports };
  // What is absent is left out, as in the text that is stored.
  const plain = JSON.parse(JSON.stringify(content));
  return JSON.stringify({ ...plain, hash: await sha256(canonicalJson(plain)) });
}

/** A rational in lowest terms, as contracts write it. @param {Fraction} number */
export function written({ n, d }) {
  const common = gcd([n, d]);
  return d === common ? String(n / common) : `${n / common}/${d / common}`;
}

/** The occasion to answer a plan. @param {Plan} plan @returns {Occasion} */
export function occasionOf(plan) {
  const { lip, ldp } = plan.levels;
  const asked = "questions" in plan ? plan.title : plan.question;
  const question = asked && Array.from(asked).slice(0, MAX_QUESTION).join("");
  const { wave, hashes } = plan;
  const bounded = ldp && ldp.n < ldp.d << MAX_ODDS ? levelAbove(ldp) : null;
  return { occasion: hashes[0], series: plan.series ?? hashes[0], wave, question, lip, ldp: bounded };
}

/** The least number of millionths that is not below ln(ratio), decided exactly. @param {Fraction} ratio */
function levelAbove(ratio) {
  const level = (/** @type {number} */ parts) => fraction(BigInt(parts), BigInt(PARTS));
  let parts = Math.max(0, Math.ceil(Math.log(toNumber(ratio)) * PARTS));
  while (parts && atMostExp(ratio, level(parts - 1))) parts--;
  while (!atMostExp(ratio, level(parts))) parts++;
  return level(parts);
}

/** What one report on each occasion adds up to. @param {readonly Pick<Occasion, "lip" | "ldp">[]} occasions */
export function addedUp(occasions) {
  let [total, most] = [fraction(0n), fraction(0n)];
  /** @type {Fraction | null} */
  let odds = fraction(0n);
  for (const { lip, ldp } of occasions) {
    const twice = plus(lip, lip);
    const price = ldp ? smaller(twice, ldp) : twice;
    total = plus(total, price);
    most = larger(most, minus(price, ldp ? smaller(lip, ldp) : lip));
    odds = odds && ldp && plus(odds, ldp);
  }
  return { lip: minus(total, most), ldp: odds };
}

/** The factor by which a belief can change at a level, rounded up, for people to read. @param {Fraction | null} level */
export const factorOf = (level) =>
  factor(level && compare(level, MAX_SHOWN) <= 0 ? fraction(expEnclosure(level, 64n)[1], 1n << 64n) : null);

/** The keyed hash that stands for a person. @param {Ledger} ledger @param {string} person */
export async function tagOf({ key }, person) {
  const bytes = Uint8Array.from(key.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  const imported = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const made = await crypto.subtle.sign("HMAC", imported, new TextEncoder().encode(person));
  return toHex(new Uint8Array(made)).slice(0, 24);
}

/** Every report's occasion, as if one person had drawn them all. @param {Ledger} ledger */
export const drawn = ({ occasions, persons }) => Object.values(persons).flatMap((places) => places.map((place) => occasions[place]));

/** What a person has drawn for a plan, or null. @param {Ledger} ledger @param {Plan} plan @param {string} tag */
export function mementoOf({ occasions, persons, reports }, plan, tag) {
  const place = (persons[tag] ?? []).findIndex((at) => occasions[at].occasion === plan.hashes[0]);
  return place < 0 ? null : reports[tag][place];
}

/**
 * Throw a LimitError if drawing a report of this plan is a second draw, or more than a limit allows. The limit of a plan
 * is about its series, each wave once; that of the browser is about all reports in it, as if they were of one person.
 *
 * @param {Ledger} ledger
 * @param {Plan} plan
 * @param {string} tag
 */
export function checkDraw(ledger, plan, tag) {
  const now = occasionOf(plan);
  const mine = (ledger.persons[tag] ?? []).map((place) => ledger.occasions[place]);
  const same = mine.some(({ series, wave }) => series === now.series && wave === now.wave);
  if (same) throw new LimitError("wave", `A report of wave ${now.wave} of this survey was drawn here already, for a plan that differs from this one. A second draw would tell more.`);
  const inSeries = ledger.occasions.filter(({ occasion, series }) => series === now.series && occasion !== now.occasion);
  /** @type {["plan" | "browser", Fraction | null, readonly Occasion[]][]} */
  const limits = [["plan", plan.limit, inSeries], ["browser", ledger.limit, drawn(ledger)]];
  for (const [whose, limit, earlier] of limits) {
    const { lip } = addedUp([...earlier, now]);
    if (!limit || compare(lip, limit) <= 0) continue;
    const told = `The reports of this browser would add up to a level of ${ceil(lip)}; the limit of this ${whose} is ${toNumber(limit)}.`;
    throw new LimitError(whose, told, { level: factorOf(lip), limit: factorOf(limit) });
  }
}

/** A level with two decimals, rounded up. @param {Fraction} level */
const ceil = (level) => Number(factor(level));

/**
 * The ledger with one report more, or one in the place of what is there.
 *
 * @param {Ledger} ledger
 * @param {Plan} plan
 * @param {string} tag
 * @param {Memento} memento
 * @returns {Ledger}
 */
export function withReport(ledger, plan, tag, memento) {
  const now = occasionOf(plan);
  const found = ledger.occasions.findIndex(({ occasion }) => occasion === now.occasion);
  const occasions = found < 0 ? [...ledger.occasions, now] : ledger.occasions;
  const place = found < 0 ? ledger.occasions.length : found;
  const [places, reports] = [[...(ledger.persons[tag] ?? [])], [...(ledger.reports[tag] ?? [])]];
  const at = places.includes(place) ? places.indexOf(place) : places.push(place) - 1;
  reports[at] = memento;
  const [persons, told] = [{ ...ledger.persons, [tag]: places }, { ...ledger.reports, [tag]: reports }];
  return { ...ledger, occasions, persons, reports: told };
}
