/** Surveys that are repeated, and questions whose words were corrected: what a plan says about its series. */

import { compare } from "./exact.js";
import { readBudget } from "./group.js";
import { canonicalJson, sha256 } from "./hash.js";
import { each, expect, integer, object, onlyFields, text } from "./read.js";

const HASH = /^[0-9a-f]{64}$/;
const MAX_WAVE = 2 ** 31 - 1;
/** Every wording is hashed with all before it, so their number is bounded. */
const MAX_EARLIER = 100;

/** The fields of a plan that are about its series; left out where they have their default. */
export const SERIES_FIELDS = ["wave", "series", "earlier", "limit"];

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

/** The earlier words of a plan of one question. @param {unknown} words @param {string} where */
export const earlierQuestion = (words, where) => ({ question: words === null ? null : text(words, where) });

/**
 * The earlier words of a plan of several questions, put into its questions; those without words are not mentioned.
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
