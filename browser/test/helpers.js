/** What the tests share: golden files, words from a list, a storage in memory. */

import { readFileSync, readdirSync } from "node:fs";
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { Block } from "../block.js";
import { canonicalJson } from "../hash.js";
import { readQuestion } from "../question.js";

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

/** A plan with other groups, of a plan of one block. */
export const withGroups = (plan, groups) => ({ ...plan, blocks: [{ ...plan.blocks[0], groups }] });

/** The block of a plan of one question, as the client reads it. */
export function blockOf({ questions, blocks: [block] }) {
  const [question] = questions.map((each) => readQuestion(each, "question"));
  const groups = block.groups.map(({ certificate, levels, ...group }) => group);
  return new Block({ ...block, groups }, "block", new Map([[question.name, question]]), () => {});
}

/** A plan of one question in other words, if any. */
export function worded({ questions: [{ text: _, ...question }], ...plan }, words) {
  return { ...plan, questions: [{ ...question, ...(words && { text: { "": words } }) }] };
}

/** The plan with its hash computed again; what is derived is not part of it. */
export function rehashed({ hash, ...plan }) {
  const groups = plan.blocks[0].groups.map(({ certificate, levels, ...group }) => group);
  return { ...plan, hash: hashOf(withGroups(plan, groups)) };
}

/** The hash of what a plan or a ledger holds. */
export const hashOf = (content) => createHash("sha256").update(canonicalJson(content)).digest("hex");
