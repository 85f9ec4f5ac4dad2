/** Surveys that are repeated, and questions whose words were corrected: what a plan says about its series. */

import { compare, fraction, minus, plus, times } from "./exact.js";
import { readBudget } from "./group.js";
import { canonicalJson, sha256 } from "./hash.js";
import { each, expect, integer, object, onlyFields, rational, text } from "./read.js";

/** @typedef {import("./exact.js").Fraction} Fraction */

const HASH = /^[0-9a-f]{64}$/;
const MAX_WAVE = 2 ** 31 - 1;
/** Every wording is hashed with all before it, so their number is bounded. */
const MAX_EARLIER = 100;

/** The fields of a plan that are about its series; left out where they have their default. */
export const SERIES_FIELDS = ["wave", "series", "earlier", "limit"];
/** Groups of a plan by the belief rule: what their people sent, and those who sent nothing where groups have no names. */
const [AFTER, NEW, CROSSED] = ["after ", "new", " / "];

/**
 * The wave, counted from 1, and the hash of the first plan of the series, null in a first wave.
 *
 * @param {Record<string, unknown>} data
 */
export function readSeries({ wave, series }) {
  if (wave === undefined && series === undefined) return { wave: 1, series: null };
  const first = text(series, "series");
  expect(HASH.test(first), "series", "the hash of the first plan, 64 hexadecimal digits");
  return { wave: integer(wave, "wave", 2, MAX_WAVE), series: first };
}

/**
 * What the reports of one person in the series may add up to; null without a limit. It must allow for one report.
 *
 * @param {unknown} limit
 * @param {import("./exact.js").Fraction} epsilon of one report
 */
export function readLimit(limit, epsilon) {
  if (limit === undefined) return null;
  const most = readBudget(limit, "limit");
  expect(compare(most, epsilon) >= 0, "limit", "at least the plan's own ε");
  return most;
}

/**
 * How answers change from the wave before to this one, of a plan by the belief rule: the probability of each next answer,
 * a row for each last one, given the prior of people without any report. Null for other plans.
 *
 * @param {Record<string, unknown>} data
 * @param {number} size
 * @returns {((prior: import("./prior.js").Prior) => Fraction[][]) | null}
 */
export function readFollows(data, size) {
  if (!("follows" in data)) return null;
  const follows = object(data.follows, "follows");
  onlyFields(follows, "follows", ["persistence", "plans", "transition"]);
  expect(data.wave !== undefined, "wave", "a later one where the plan follows another");
  const plans = each(follows.plans, "follows.plans", text);
  expect(plans.every((plan) => HASH.test(plan)), "follows.plans", "the hashes of the plan before, 64 hexadecimal digits");
  expect("persistence" in follows !== "transition" in follows, "follows", "a persistence or a transition matrix");
  if ("persistence" in follows) {
    const stay = rational(follows.persistence, "follows.persistence");
    expect(stay.n >= 0n && stay.n <= stay.d, "follows.persistence", "between 0 and 1");
    const [keep, move] = [(/** @type {boolean} */ same) => (same ? stay : fraction(0n)), minus(fraction(1n), stay)];
    return (prior) => prior.weights.map((_, x) => prior.weights.map((_, y) => plus(keep(x === y), times(move, prior.probability(y)))));
  }
  const rows = each(follows.transition, "follows.transition", (row, at) => each(row, at, rational));
  const square = rows.length === size && rows.every((row) => row.length === size);
  const whole = rows.every((row) => row.every(({ n }) => n >= 0n) && !compare(row.reduce(plus), fraction(1n)));
  expect(square && whole, "follows.transition", "a row of probabilities that sum to 1 for each answer");
  return () => rows;
}

/**
 * The group of the next wave for people of this group, by the belief rule: what they sent is part of its name.
 *
 * @param {string | null} group in this wave
 * @param {number | null} report null if they did not take part
 */
export function followedName(group, report) {
  const [before, sent] = [baseName(group), sentBy(group)];
  if (report === null && !sent) return before ?? NEW;
  const after = `${sent ? `${sent} ` : AFTER}${report ?? "-"}`;
  return before === null ? after : before + CROSSED + after;
}

/** The group without what its people sent earlier; null where the first wave has no named groups. @param {string | null} group */
export function baseName(group) {
  if (group === null || group === NEW) return null;
  const sent = sentBy(group);
  return sent ? group.slice(0, -sent.length - CROSSED.length) || null : group;
}

/** The part of the name that says what was sent; empty if there is none. @param {string | null} group */
function sentBy(group) {
  const last = (group ?? "").split(CROSSED).pop() ?? "";
  return last.startsWith(AFTER) ? last : "";
}

/**
 * The hashes of a plan in all its wordings, oldest first, its own last. Each is computed by putting the earlier words
 * back, so a plan that differs in anything but words has another.
 *
 * @param {string} hash the plan's own
 * @param {Record<string, unknown>} contract
 * @param {(words: unknown, where: string) => Record<string, unknown>} putBack the fields of the plan in earlier words
 */
export async function hashesOf(hash, { earlier, ...now }, putBack) {
  if (earlier === undefined) return Object.freeze([hash]);
  const words = each(earlier, "earlier", (each) => each);
  expect(words.length <= MAX_EARLIER, "earlier", `at most ${MAX_EARLIER} wordings`);
  const hashes = [];
  for (const [place, each] of words.entries()) {
    const before = { ...now, ...putBack(each, `earlier[${place}]`), ...(place && { earlier: words.slice(0, place) }) };
    hashes.push(await sha256(canonicalJson(before)));
  }
  return Object.freeze([...hashes, hash]);
}

/**
 * The earlier words of a plan, put into its questions; those without words are not mentioned.
 *
 * @param {readonly Record<string, unknown>[]} questions
 * @param {unknown} words
 * @param {string} where
 */
export function earlierWords(questions, words, where) {
  const told = object(words, where);
  onlyFields(told, where, ["title", "texts", "labels"]);
  const [texts, labels] = [object(told.texts, `${where}.texts`), object(told.labels, `${where}.labels`)];
  const before = questions.map(({ text: _, labels: __, ...rest }) => {
    const name = String(rest.name);
    return { ...rest, ...(name in texts && { text: texts[name] }), ...(name in labels && { labels: labels[name] }) };
  });
  return { title: told.title === null ? null : text(told.title, `${where}.title`), questions: before };
}
