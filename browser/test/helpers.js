/** What the tests share: golden files, words from a list, a storage in memory. */

import { readFileSync, readdirSync } from "node:fs";
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { canonicalJson } from "../hash.js";

const GOLDEN = new URL("../../tests/golden/client/", import.meta.url);

/** The content of a golden file. */
export const golden = (name) => JSON.parse(readFileSync(new URL(`${name}.json`, GOLDEN), "utf8"));

/** The names of the golden plans. */
export const goldenPlans = () => {
  const names = readdirSync(GOLDEN)
    .filter((name) => name.startsWith("plan_"))
    .map((name) => name.slice(0, -5));
  assert.ok(names.length >= 9);
  return names;
};

/** Words from pairs [bits, word]: each must be asked for with its number of bits, and none may be left. */
export function replay(pairs) {
  const left = [...pairs];
  return {
    integer(bits) {
      const [expected, word] = left.shift();
      assert.equal(bits, expected);
      return BigInt(word);
    },
    done: () => assert.equal(left.length, 0),
  };
}

/** A storage like localStorage; `data` is what it holds. */
export function memory() {
  const data = new Map();
  return {
    data,
    getItem: (key) => data.get(key) ?? null,
    setItem: (key, text) => void data.set(key, String(text)),
    removeItem: (key) => void data.delete(key),
  };
}

/** The hash of what a plan or a ledger holds. */
export const hashOf = (content) => createHash("sha256").update(canonicalJson(content)).digest("hex");
