/** The browser client agrees with Python on the golden files, word for word. */

import assert from "node:assert/strict";
import test from "node:test";
import { CoreTail } from "../core_tail.js";
import { atMostExp, compare } from "../exact.js";
import { canonicalJson } from "../hash.js";
import { PlanError, openPlan } from "../index.js";
import { KINDS, readMechanism } from "../mechanism.js";
import { percent, quoted } from "../promise.js";
import { Prior } from "../prior.js";
import { rational } from "../read.js";
import { Channel } from "../table.js";
import { golden, goldenPlans, replay } from "./helpers.js";

const readPrior = (weights) => new Prior(weights, "prior", weights.length);
const asTable = (rows) => ({ kind: "table", denominator: "16", labels: rows[0].map(() => 0), rows });

for (const name of goldenPlans()) {
  const known = golden(name);

  test(`${name}: hash, promise, beliefs and chances`, async () => {
    const plan = await openPlan(known.plan);
    assert.equal(plan.hash, known.plan.hash);
    assert.equal(plan.question, known.plan.question);
    assert.deepEqual(plan.values, known.plan.domain.values);
    for (const [group, sentence] of known.promises) assert.equal(plan.promise(group), sentence);
    for (const [group, rows] of known.beliefs) {
      const said = plan.beliefs(group).map(({ value, prior, low, high }) => [value, prior, high, low]);
      assert.deepEqual(said, rows);
    }
    for (const [group, values] of known.outside) assert.deepEqual(plan.outside(group), values);
    for (const [group, values] of known.exposed) assert.deepEqual(plan.exposed(group), values);
    for (const [group, value, report, meaning, chance] of known.chances) {
      assert.equal(plan.meaning(group, report), meaning);
      assert.equal(plan.chance(group, value, report), chance);
    }
  });

  test(`${name}: every report`, async () => {
    const plan = await openPlan(JSON.stringify(known.plan));
    assert.ok(known.reports.length >= 10);
    for (const [group, value, pairs, report] of known.reports) {
      const words = replay(pairs);
      assert.equal(plan.randomize(group, value, words), report);
      words.done();
      assert.ok(plan.canSend(group, report));
    }
  });
}

for (const { why, plan, says } of golden("refused")) {
  test(`refused: ${why}`, async () => {
    await assert.rejects(openPlan(plan), (error) => error instanceof PlanError && error.message.includes(says));
  });
}

test("e^ε is decided exactly at its best approximations", () => {
  for (const [ratio, epsilon, holds] of golden("numbers").at_most_exp) {
    assert.equal(atMostExp(rational(ratio, "ratio"), rational(epsilon, "epsilon")), holds, `${ratio} ≤ e^${epsilon}`);
  }
});

test("percentages are rounded as in Python", () => {
  for (const [share, near, up, down] of golden("numbers").percent) {
    const exact = rational(share, "share");
    assert.deepEqual([percent(exact), percent(exact, "up"), percent(exact, "down")], [near, up, down], share);
  }
});

test("texts are quoted as in Python", () => {
  for (const [text, expected] of golden("numbers").quoted) assert.equal(quoted(text), expected);
});

test("canonical JSON is Python's", () => {
  const [data, text] = golden("numbers").canonical;
  assert.equal(canonicalJson(data), text);
});

test("the levels of every kind of mechanism are Python's, exactly", () => {
  const equal = (found, expected) =>
    expected === null ? assert.equal(found, null) : assert.equal(compare(found, rational(expected, "level")), 0);
  const levels = golden("levels");
  assert.deepEqual(Object.keys(levels).sort(), Object.keys(KINDS).sort());
  for (const [kind, cases] of Object.entries(levels)) {
    assert.ok(cases.length >= 40);
    for (const known of cases) {
      const prior = readPrior(known.prior);
      const mechanism = readMechanism(known.mechanism ?? asTable(known.rows), prior, "mechanism", () => {});
      assert.equal(mechanism.kind, kind);
      const { lipUpper, lipLower, ldp } = mechanism.audit(prior);
      equal(lipUpper, known.lip_upper);
      equal(lipLower, known.lip_lower);
      equal(ldp, known.ldp);
    }
  }
});

test("a mechanism is asked about the prior that it was made for", () => {
  for (const { mechanism, prior } of golden("levels")["core-tail"].slice(0, 3)) {
    const made = readMechanism(mechanism, readPrior(prior), "mechanism", () => {});
    assert.throws(() => made.audit(readPrior([...prior, "1"])), RangeError);
    assert.throws(() => made.belief(readPrior([...prior, "1"]), 0), RangeError);
  }
  const table = new Channel([[1n], [1n]], 1n, [0]);
  assert.throws(() => table.audit(readPrior(["1"])), RangeError);
});

test("every triple of short words gives the stated counts", async () => {
  for (const { plan, reports, triples } of golden("small_core_tails")) {
    await openPlan(plan);
    const [group] = plan.groups;
    const small = CoreTail.fromDict(group.mechanism, readPrior(group.prior), "mechanism", () => {});
    const words = Array.from({ length: 2 ** small.wordBits }, (_, word) => BigInt(word));
    for (const [x, row] of triples.entries()) {
      const counts = new Map(reports.map((report) => [report, 0]));
      for (const a of words) {
        for (const b of words) {
          for (const c of words) {
            const report = small.sampleOne(x, [a, b, c]);
            counts.set(report, counts.get(report) + 1);
          }
        }
      }
      assert.deepEqual([...counts.values()], row);
    }
  }
});

test("every word of a small table gives the stated counts", async () => {
  for (const [name, group] of [
    ["plan_zeros", "exposed"],
    ["plan_words_of_96_bits", "eighths"],
  ]) {
    const known = golden(name);
    const plan = await openPlan(known.plan);
    const { mechanism } = known.plan.groups.find((each) => each.group === group);
    const bits = Math.log2(Number(mechanism.denominator));
    for (const [x, row] of mechanism.rows.entries()) {
      const counts = row.map(() => 0);
      for (let word = 0n; word < 2n ** BigInt(bits); word++) {
        const [first, last] = [
          (length) => word << BigInt(length - bits),
          (length) => ((word + 1n) << BigInt(length - bits)) - 1n,
        ];
        const report = plan.randomize(group, plan.values[x], { integer: first });
        assert.equal(plan.randomize(group, plan.values[x], { integer: last }), report);
        counts[report] += 1;
      }
      assert.deepEqual(counts.map(String), row);
    }
  }
});
