/**
 * The ledger of a browser: which waves were answered in it, what was drawn, and what it adds up to.
 *
 * Answers to private questions are not in it. The format and the sums are those of `tacit.files.Ledger` in Python: with ε
 * the LIP level of a report and δ its LDP level, Σ min(2ε, δ) − max (min(2ε, δ) − min(ε, δ)) bounds the LIP level of all
 * reports together, for any dependence between the answers; where reports are few it is computed (`largestRatio`). LDP
 * levels add. The waves of a series by the belief rule are one report with the sum of their levels, those in two layers one
 * stored report.
 */

import { LimitError, PlanError, StorageError } from "./errors.js";
import { atMostExp, compare, expEnclosure, fraction, gcd, larger, minus, plus, smaller, toNumber } from "./exact.js";
import { canonicalJson, sha256, toHex } from "./hash.js";
import { largestRatio, nSequences } from "./mechanism/repeated.js";
import { factor } from "./promise.js";
import { bigInteger, each, expect, integer, list, object, oneOf, onlyFields, rational, text } from "./read.js";
import { readBudget } from "./group.js";
import { baseName, followedName } from "./series.js";
import { randomBytes } from "./words.js";

/** @typedef {import("./exact.js").Fraction} Fraction */
/** @typedef {import("./mechanism/repeated.js").Column} Column */
/** @typedef {import("./index.js").Plan} Plan */
/**
 * @typedef {object} Occasion one wave of a survey, named by the hash of its plan's first wording
 * @property {string} occasion
 * @property {string} series the name of the first wave
 * @property {number} wave
 * @property {string | null} question
 * @property {Fraction} lip
 * @property {Fraction | null} ldp rounded up; null is unbounded
 * @property {"belief" | "layers"} [rule] how waves add up, where the plan is made for that
 * @property {readonly Column[]} [columns] what a report can tell, where that is little
 * @property {string} [stored] in two layers, which plans share stored reports
 */
/** @typedef {Pick<Occasion, "occasion" | "series" | "lip" | "ldp" | "rule" | "columns" | "stored"> & {group?: string | null}} Release */
/**
 * @typedef {object} Memento what is stored of a report: as it is sent, and an invitation's credential in the making
 * @property {string} key
 * @property {string | null} group
 * @property {number} [block] from 1, in plans of several questions
 * @property {number} report
 * @property {readonly string[]} [belief] weights of the answers after the report, which the plan of a next wave has to state
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
/** Levels that are computed are rounded up to a millionth, so that every language writes the same. */
const PARTS = 1_000_000;
const FIELDS = ["tacit_ledger", "key", "limit", "occasions", "persons", "reports", "hash"];
const MEMENTO = ["key", "group", "block", "report", "belief", "public", "sent", "credential", "pending"];
/** Columns hold this many likelihoods at most; sequences of reports are looked at up to this many. */
const [MAX_HEIGHTS, MAX_SEQUENCES] = [64, 1000n];
/** Words that stored reports follow from are made in this many blocks, more than any mechanism takes. */
const STORED_BLOCKS = 8;
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
  onlyFields(told, where, ["occasion", "series", "wave", "question", "lip", "ldp", "rule", "columns", "stored"]);
  const [occasion, series] = [text(told.occasion, where), text(told.series, where)];
  const ldp = told.ldp === null ? null : rational(told.ldp, where);
  if (!HASH.test(occasion) || !HASH.test(series) || (ldp && ldp.n < 0n)) throw new StorageError(DAMAGED);
  const question = told.question === null ? null : text(told.question, where);
  const found = { occasion, series, wave: integer(told.wave, where, 1, 2 ** 31 - 1), question, lip: readBudget(told.lip, where), ldp };
  const rule = told.rule === undefined ? {} : { rule: oneOf(told.rule, where, /** @type {const} */ (["belief", "layers"])) };
  const stored = told.stored === undefined ? {} : { stored: text(told.stored, where) };
  expect(stored.stored === undefined ? rule.rule !== "layers" : rule.rule === "layers" && HASH.test(stored.stored), where, "how reports are stored in two layers");
  if (told.columns === undefined) return { ...found, ...rule, ...stored };
  const columns = each(told.columns, where, readColumn);
  expect(columns.flat().length <= MAX_HEIGHTS, where, "few columns");
  return { ...found, ...rule, columns, ...stored };
}

/** A column, whose steps are a height and its probabilities, equal ones once. @param {unknown} data @param {string} where @returns {Column} */
function readColumn(data, where) {
  const column = each(data, where, (step, at) => {
    const [height, ...shares] = list(step, at);
    const [high, low = high, more = null] = shares.map((share) => rational(share, at));
    expect(high && !more && (shares.length === 1 || compare(low, high) < 0), at, "a height and its probabilities");
    return { height: bigInteger(height, at), high, low };
  });
  const falls = (/** @type {Fraction} */ a, /** @type {Fraction} */ b) => compare(a, b) >= 0 && b.n >= 0n;
  const sound = column.slice(1).every(({ height, high, low }, k) => height > column[k].height && falls(column[k].high, high) && falls(column[k].low, low) && high.n > 0n);
  expect(sound && written(column[0].low) === "1" && written(column[0].high) === "1", where, "heights that rise, and probabilities that fall");
  return column;
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
      each(memento.belief ?? [], where, bigInteger, 0);
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
  const told = occasions.map(({ lip, ldp, columns, ...rest }) => ({ ...rest, lip: written(lip), ldp: ldp && written(ldp), columns: columns?.map(columnText) }));
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

/** A column as ledgers write it. @param {Column} column */
const columnText = (column) => column.map(({ height, high, low }) => [String(height), ...new Set([written(high), written(low)])]);

/** The occasion to answer a plan. @param {Plan} plan @returns {Occasion} */
export function occasionOf(plan) {
  const { lip, ldp } = plan.lifelong ?? plan.levels;
  const asked = plan.heading;
  const question = asked && Array.from(asked).slice(0, MAX_QUESTION).join("");
  const { wave, hashes } = plan;
  const bounded = ldp && ldp.n < ldp.d << MAX_ODDS ? levelAbove(ldp) : null;
  const found = { occasion: hashes[0], series: plan.series ?? hashes[0], wave, question, lip, ldp: bounded };
  const columns = [...new Map(plan.columns.map((column) => [JSON.stringify(columnText(column)), column])).values()];
  return { ...found, ...(plan.rule && { rule: plan.rule }), ...(columns.length && { columns }), ...(plan.stored && { stored: plan.stored }) };
}

/** The least number of millionths that is not below ln(ratio), decided exactly. @param {Fraction} ratio */
function levelAbove(ratio) {
  const level = (/** @type {number} */ parts) => fraction(BigInt(parts), BigInt(PARTS));
  let parts = Math.max(0, Math.ceil(Math.log(toNumber(ratio)) * PARTS));
  while (parts && atMostExp(ratio, level(parts - 1))) parts--;
  while (!atMostExp(ratio, level(parts))) parts++;
  return level(parts);
}

/** What one report on each occasion adds up to. @param {readonly Release[]} occasions */
export function addedUp(occasions) {
  let [total, most] = [fraction(0n), fraction(0n)];
  /** @type {Fraction | null} */
  let odds = fraction(0n);
  /** @type {Map<string, {columns: readonly Column[], times: number}>} */
  let few = new Map();
  let others = fraction(0n);
  const alone = releases(occasions);
  for (const { lip, ldp, columns } of alone) {
    const twice = plus(lip, lip);
    const price = ldp ? smaller(twice, ldp) : twice;
    total = plus(total, price);
    most = larger(most, minus(price, ldp ? smaller(lip, ldp) : lip));
    odds = odds && ldp && plus(odds, ldp);
    const more = columns ? counted(few, columns) : null;
    if (more && nSequences([...more.values()]) <= MAX_SEQUENCES) few = more;
    else others = plus(others, price);
  }
  const bound = minus(total, most);
  const ratio = few.size ? largestRatio([...few.values()]) : null;
  const found = ratio ? plus(levelAbove(ratio), others) : bound;
  return { lip: smaller(bound, found), ldp: odds, computed: alone.length < 2 || (ratio !== null && !others.n) };
}

/** The releases with another one, equal ones together. @param {Map<string, {columns: readonly Column[], times: number}>} few @param {readonly Column[]} columns */
function counted(few, columns) {
  const name = JSON.stringify(columns.map(columnText));
  return new Map(few).set(name, { columns, times: (few.get(name)?.times ?? 0) + 1 });
}

/** The occasions, with those of a series by the belief rule added up, and those of two layers that share stored reports counted once. @param {readonly Release[]} occasions */
function releases(occasions) {
  const followed = new Set(occasions.filter(({ rule }) => rule === "belief").map(({ series }) => series));
  const isAlone = (/** @type {Release} */ { rule, occasion }) => !rule && !followed.has(occasion);
  /** @type {Map<string, Pick<Occasion, "lip" | "ldp" | "columns">>} */
  const found = new Map();
  for (const each of occasions.filter(({ rule }) => rule === "layers")) found.set(`${each.series} ${each.stored} ${each.group ?? ""}`, each);
  for (const each of occasions) {
    if (each.rule === "layers" || isAlone(each)) continue;
    const before = found.get(each.series);
    const { lip, ldp, columns } = each;
    found.set(each.series, before ? { lip: plus(before.lip, lip), ldp: before.ldp && ldp && plus(before.ldp, ldp) } : { lip, ldp, columns });
  }
  return [...occasions.filter(isAlone), ...found.values()];
}

/** The factor by which a belief can change at a level, rounded up, for people to read. @param {Fraction | null} level */
export const factorOf = (level) =>
  factor(level && compare(level, MAX_SHOWN) <= 0 ? fraction(expEnclosure(level, 64n)[1], 1n << 64n) : null);

/** The keyed hash that stands for a person. @param {Ledger} ledger @param {string} person */
export async function tagOf({ key }, person) {
  const sign = await signer(Uint8Array.from(key.match(/../g) ?? [], (pair) => parseInt(pair, 16)));
  return toHex(await sign(utf8(person))).slice(0, 24);
}

/**
 * Words that a stored report of two layers follows from, always the same: `tacit.randomize.randomness.StoredWords`.
 *
 * @param {Ledger} ledger
 * @param {string} person
 * @param {{series: string, stored: string, group: string, position: string}} about
 * @returns {Promise<import("./index.js").RandomWords>}
 */
export async function storedWords({ key }, person, { series, stored, group, position }) {
  const sign = await signer(Uint8Array.from(key.match(/../g) ?? [], (pair) => parseInt(pair, 16)));
  const draw = await signer(await sign(utf8("stored reports")));
  const parts = [series, stored, group, person, position].map(utf8).flatMap((part) => [littleEndian(part.length), part]);
  const blocks = Array.from({ length: STORED_BLOCKS }, (_, block) => joined([...parts, littleEndian(block)]));
  const bytes = joined(await Promise.all(blocks.map(draw)));
  let taken = 0;
  return {
    integer(bits) {
      const size = Math.ceil(bits / 8);
      if (taken + size > bytes.length) throw new RangeError("A stored report takes fewer words.");
      const word = bytes.slice(taken, (taken += size)).reverse();
      return BigInt(`0x${toHex(word)}`) >> BigInt(size * 8 - bits);
    },
  };
}

/** HMAC-SHA256 with a key. @param {Uint8Array<ArrayBuffer>} key */
async function signer(key) {
  const imported = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return async (/** @type {Uint8Array<ArrayBuffer>} */ message) => new Uint8Array(await crypto.subtle.sign("HMAC", imported, message));
}

/** @param {string} told */
const utf8 = (told) => /** @type {Uint8Array<ArrayBuffer>} */ (new TextEncoder().encode(told));

/** A number in eight bytes. @param {number} number */
const littleEndian = (number) => Uint8Array.from({ length: 8 }, (_, place) => Number(BigInt.asUintN(8, BigInt(number) >> BigInt(8 * place))));

/** @param {Uint8Array<ArrayBuffer>[]} parts */
const joined = (parts) => Uint8Array.from(parts.flatMap((part) => [...part]));

/** Every report's occasion, as if one person had drawn them all. @param {Ledger} ledger */
export const drawn = ({ occasions, persons, reports }) =>
  Object.entries(persons).flatMap(([tag, places]) => places.map((place, at) => ({ ...occasions[place], group: reports[tag][at].group })));

/** The occasion to answer a plan; without a group of two layers as the one before. @param {Ledger} ledger @param {Plan} plan @param {string | null} [group] */
export function nextRelease(ledger, plan, group) {
  const now = occasionOf(plan);
  const before = drawn(ledger).filter(({ series, stored }) => series === now.series && stored === now.stored).at(-1);
  return { ...now, group: group ?? before?.group ?? null };
}

/** What a person has drawn for a plan, or null. @param {Ledger} ledger @param {Plan} plan @param {string} tag */
export function mementoOf({ occasions, persons, reports }, plan, tag) {
  const place = (persons[tag] ?? []).findIndex((at) => occasions[at].occasion === plan.hashes[0]);
  return place < 0 ? null : reports[tag][place];
}

/**
 * The group that the reports of this browser put it in, by the belief rule; null without any earlier report. Throws where
 * two people answered an earlier wave, and where the prior of the group is not what the reports leave to believe.
 *
 * @param {Ledger} ledger
 * @param {Plan} plan
 */
export function followedGroup({ occasions, persons, reports }, plan) {
  if (plan.rule !== "belief") return null;
  const sent = Object.entries(persons).flatMap(([tag, places]) => places.map((place, at) => ({ ...occasions[place], memento: reports[tag][at] })));
  const earlier = sent.filter(({ series, wave }) => series === plan.series && wave < plan.wave).sort((a, b) => a.wave - b.wave);
  const last = earlier.at(-1);
  if (!last) return null;
  if (new Set(earlier.map(({ wave }) => wave)).size < earlier.length)
    throw new LimitError("persons", "Two people have answered an earlier wave in this browser, and the belief rule is for one.");
  if (!earlier.every(({ wave, rule }) => wave === 1 || rule === "belief"))
    throw new PlanError("An earlier wave was not drawn by the belief rule, so this one cannot follow it.");
  let name = followedName(last.memento.group, last.memento.report);
  for (let wave = last.wave + 1; wave < plan.wave; wave++) name = followedName(name, null);
  if (!plan.follows(name, (last.memento.belief ?? []).map(BigInt), plan.wave - last.wave))
    throw new PlanError("The prior that this plan states is not what this browser's earlier reports leave to believe.");
  return name;
}

/**
 * The answer, in the group that earlier reports say, or else in a group of people without any.
 *
 * @template {{group: string | null}} Answer
 * @param {Ledger} ledger
 * @param {Plan} plan
 * @param {Answer} answer
 * @returns {Answer}
 */
export function placed(ledger, plan, answer) {
  if (plan.rule !== "belief") return answer;
  const group = followedGroup(ledger, plan) ?? answer.group ?? followedName(null, null);
  const isBase = followedName(baseName(group), null) === group;
  if (answer.group !== null && answer.group !== group || (!isBase && !followedGroup(ledger, plan)))
    throw new RangeError("By the belief rule the group follows from the earlier reports of this browser.");
  return { ...answer, group };
}

/**
 * Throw a LimitError if drawing a report of this plan is a second draw, or more than a limit allows. The limit of a plan
 * is about its series, each wave once; that of the browser is about all reports in it, as if they were of one person.
 *
 * @param {Ledger} ledger
 * @param {Plan} plan
 * @param {string} tag
 * @param {string | null} [group]
 */
export function checkDraw(ledger, plan, tag, group) {
  const now = nextRelease(ledger, plan, group);
  const mine = (ledger.persons[tag] ?? []).map((place) => ledger.occasions[place]);
  const same = mine.some(({ series, wave }) => series === now.series && wave === now.wave);
  if (same) throw new LimitError("wave", `A report of wave ${now.wave} of this survey was drawn here already, for a plan that differs from this one. A second draw would tell more.`);
  const later = ledger.occasions.some(({ series, wave, rule }) => series === now.series && wave > now.wave && rule === "belief");
  if (later) throw new LimitError("wave", `A later wave of this survey was answered here, as if wave ${now.wave} had been left out.`);
  const inSeries = drawn(ledger).filter(({ occasion, series }, at, all) => series === now.series && occasion !== now.occasion && all.findIndex((each) => each.occasion === occasion) === at);
  /** @type {["plan" | "browser", Fraction | null, readonly Release[]][]} */
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
