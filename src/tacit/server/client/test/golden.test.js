/** The browser client agrees with Python on the golden files, word for word. */

import assert from "node:assert/strict";
import test from "node:test";
import { CoreTail } from "../core_tail.js";
import { atMostExp, compare } from "../exact.js";
import { canonicalJson } from "../hash.js";
import { PlanError, openPlan } from "../index.js";
import { percent, quoted } from "../promise.js";
import { Prior } from "../prior.js";
import { rational } from "../read.js";
import { Table } from "../table.js";
import { golden, goldenPlans, replay } from "./helpers.js";

const readPrior = (weights) => new Prior(weights, "prior", weights.length);
const asTable = (rows) => ({ denominator: "16", labels: rows[0].map(() => 0), rows });

for (const name of goldenPlans()) {
  const known = golden(name);

  test(`${name}: hash, promise, beliefs and chances`, async () => {
    const plan = await openPlan(known.plan);
    assert.equal(plan.hash, known.plan.hash);
    assert.equal(plan.question, known.plan.question);
    assert.deepEqual(plan.values, known.plan.domain.values);
    for (const [group, sentence] of known.promises) assert.equal(plan.promise(group), sentence);
    for (const [group, rows] of known.beliefs) {
      const said = plan.beliefs(group).map(({ value, before, atMost, atLeast }) => [value, before, atMost, atLeast]);
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
      assert.ok(plan.canReport(group, report));
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

test("levels of tables and circles are Python's, exactly", () => {
  const equal = (found, expected) => assert.equal(compare(found, rational(expected, "level")), 0);
  const { tables, circles } = golden("levels");
  const cases = [
    ...tables.map((known) => [known, new Table(asTable(known.rows), "", readPrior(known.prior), () => {})]),
    ...circles.map((known) => [known, new CoreTail(known.mechanism, "", readPrior(known.prior), () => {})]),
  ];
  assert.ok(cases.length >= 100);
  for (const [known, mechanism] of cases) {
    equal(mechanism.lifts.highest, known.highest);
    equal(mechanism.lifts.lowest, known.lowest);
    if (known.odds === null) assert.equal(mechanism.odds, null);
    else equal(mechanism.odds, known.odds);
  }
});

test("every triple of short words gives the stated counts", async () => {
  for (const { plan, reports, triples } of golden("small_circles")) {
    await openPlan(plan);
    const [group] = plan.groups;
    const circle = new CoreTail(group.mechanism, "mechanism", readPrior(group.prior), () => {});
    const words = Array.from({ length: 2 ** circle.wordBits }, (_, word) => BigInt(word));
    for (const [x, row] of triples.entries()) {
      const counts = new Map(reports.map((report) => [report, 0]));
      for (const a of words) {
        for (const b of words) {
          for (const c of words) {
            const report = circle.report(x, [a, b, c]);
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
