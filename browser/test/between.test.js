/** Answers between the values, and domains as large as a country. */

import assert from "node:assert/strict";
import test from "node:test";
import { contractText, sha256 } from "../hash.js";
import { openPlan } from "../index.js";
import { neighbours, rounded } from "../randomizer.js";
import { golden, replay, withGroups } from "./helpers.js";

const plan = await openPlan(golden("plan_between").plan);

test("a number is rounded to its neighbours in proportion", () => {
  const knots = [0, 1, 4];
  const words = Array.from({ length: 1024 }, (_, word) => ({ integer: () => BigInt(word) << 54n }));
  const share = (number) => words.filter((word) => rounded(knots, number, word) === 2).length / words.length;
  assert.deepEqual([1, 1.75, 2.5, 3.25, 4].map(share), [0, 0.25, 0.5, 0.75, 1]);
  assert.ok(words.every((word) => rounded(knots, 0, word) === 0 && rounded(knots, 0.5, word) < 2));
  assert.deepEqual(
    [0, 0.5, 1, 2, 4].map((number) => neighbours(knots, number)),
    [[0], [0, 1], [1], [1, 2], [2]],
  );
});

test("numbers and their texts are the same answers, and the rounding takes one word first", () => {
  assert.equal(plan.questions[0].kind, "number");
  const drawn = [
    [64, String(2n ** 63n)],
    [32, "5"],
  ];
  for (const value of [30, "30", "30.0", "3e1"]) {
    const words = replay(drawn);
    assert.deepEqual(plan.randomize(null, { value }, words), plan.randomize(null, { value: 30 }, replay(drawn)));
    words.done();
  }
});

test("what is no number of the range is refused without being told", () => {
  for (const value of ["", " 30", "many", "0x10", "１", "101", -0.001, 100.0001, NaN, Infinity, null, undefined, {}, [30]]) {
    for (const call of [() => plan.randomize(null, { value }), () => plan.outside(null, { value })])
      assert.throws(call, (error) => error instanceof RangeError && /^An answer must be .* 0 to 100\.$/.test(error.message));
  }
});

test("a plan without it takes its own values only", async () => {
  const odds = await openPlan(golden("plan_ldp").plan);
  assert.equal(odds.questions[0].kind, "one-of");
  assert.throws(() => odds.randomize(null, { value: "0.5" }), RangeError);
  assert.equal(typeof odds.randomize(null, { value: 2.5 }).report, "number");
});

test("a range too wide for floats is refused", async () => {
  const { plan: data } = golden("plan_between");
  for (const [values, says] of [
    [["-1e+308", "0", "1", "1e+308"], /a sum/],
    [["0", "1", "2", "1e999"], /number/],
  ]) {
    const wide = { ...data, questions: [{ ...data.questions[0], answers: values }] };
    await assert.rejects(openPlan({ ...wide, hash: await sha256(contractText(wide)) }), says);
  }
});

test("41,270 values are opened and randomized in a moment", async () => {
  const { plan: known } = golden("plan_large_many_values");
  const prior = Array.from({ length: 41_270 }, (_, x) => String(10n ** 22n / BigInt(x + 1)));
  const values = prior.map((_, x) => `place ${x}`);
  const [group] = known.blocks[0].groups;
  // The same rule without giants, shuffled by seeds.
  const { arc, covered, step } = group.mechanism;
  const alike = { giants: 0, rows: [], arc: covered, step: Math.floor((step * arc) / covered), slots: 0, first: 0, second: 0, light: 0 };
  const mechanism = { ...group.mechanism, ...alike };
  const groups = [{ ...group, epsilon: "11/10", prior, mechanism }];
  const data = withGroups({ ...known, questions: [{ ...known.questions[0], numeric: false, answers: values }] }, groups);
  const text = JSON.stringify({ ...data, hash: await sha256(contractText(data)) });
  const begun = performance.now();
  const large = await openPlan(text);
  const opened = performance.now();
  for (let x = 0; x < 10; x++) large.randomize(null, { value: values[x * 4000] });
  const drawn = performance.now();
  // About 0.3 s and 0.03 s on a small machine; the limits only catch another order of growth.
  assert.ok(opened - begun < 5000, `opened in ${opened - begun} ms`);
  assert.ok(drawn - opened < 1000, `ten draws in ${drawn - opened} ms`);
});
