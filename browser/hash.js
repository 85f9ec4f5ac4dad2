/** The plan's name: SHA-256 of its contract in canonical JSON, as every implementation of Tacit writes it. */

import { PlanError } from "./errors.js";
import { each, object } from "./read.js";

/** Derived fields of a group: no part of the contract, so the hash leaves them out. */
const DERIVED = new Set(["certificate", "levels"]);
/** A plan nests less than this; deeper ones would only exhaust the stack. */
const MAX_DEPTH = 16;

/**
 * The contract of a plan in canonical JSON: keys in order of their code points, no spaces, no escapes but JSON's own.
 *
 * @param {Record<string, unknown>} plan
 */
export function contractText(plan) {
  const blocks = each(plan.blocks, "blocks", (data, at) => {
    const block = object(data, at);
    return { ...block, groups: each(block.groups, `${at}.groups`, (group, where) => without(object(group, where), DERIVED)) };
  });
  return canonicalJson({ ...without(plan, new Set(["hash"])), blocks });
}

/** SHA-256 of a text in UTF-8, in hexadecimal. @param {string} text */
export async function sha256(text) {
  if (!globalThis.crypto?.subtle) {
    throw new PlanError("This plan cannot be checked: the page needs a secure context (https or localhost).");
  }
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return toHex(new Uint8Array(digest));
}

/** Bytes in hexadecimal. @param {Uint8Array} bytes */
export const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * Canonical JSON of strings, safe integers, booleans, nulls, lists and objects; anything else is refused.
 *
 * @param {unknown} data
 * @returns {string}
 */
export function canonicalJson(data, depth = 0) {
  if (depth > MAX_DEPTH) throw new PlanError("This plan is malformed: it is nested too deeply.");
  if (data === null || typeof data === "boolean") return String(data);
  if (typeof data === "string") return quoted(data);
  if (typeof data === "number" && Number.isSafeInteger(data)) return String(data);
  if (Array.isArray(data)) {
    const parts = [];
    for (const part of data) parts.push(canonicalJson(part, depth + 1));
    return `[${parts.join(",")}]`;
  }
  if (typeof data !== "object") {
    throw new PlanError("This plan is malformed: its numbers must be integers below 2^53, larger ones strings.");
  }
  const entries = Object.entries(data).sort(([a], [b]) => byCodePoints(a, b));
  return `{${entries.map(([key, part]) => `${quoted(key)}:${canonicalJson(part, depth + 1)}`).join(",")}}`;
}

/** A JSON string with JSON's own escapes only. @param {string} text */
function quoted(text) {
  // A lone half of a surrogate pair has no UTF-8. The first test is quick: most texts hold no pair either.
  if (/[\ud800-\udfff]/.test(text) && /\p{Surrogate}/u.test(text)) throw new PlanError("This plan is malformed: it holds half a character.");
  return JSON.stringify(text);
}

/** Order by code points, unlike UTF-16 also beyond U+FFFF. @param {string} a @param {string} b */
function byCodePoints(a, b) {
  const [left, right] = [Array.from(a), Array.from(b)];
  const at = left.findIndex((character, i) => character !== right[i]);
  if (at < 0) return left.length - right.length;
  return (left[at].codePointAt(0) ?? 0) - (right[at]?.codePointAt(0) ?? -1);
}

/** A copy of an object without some of its keys. @param {Record<string, unknown>} data @param {Set<string>} keys */
const without = (data, keys) => Object.fromEntries(Object.entries(data).filter(([key]) => !keys.has(key)));
