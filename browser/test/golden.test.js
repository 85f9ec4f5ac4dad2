/** The browser client agrees with Python on the golden files, word for word. */

import assert from "node:assert/strict";
import test from "node:test";
import { BlockDesign } from "../mechanism/block_design/block_design.js";
import { atMostExp, compare, fraction } from "../exact.js";
import { canonicalJson } from "../hash.js";
import { PlanError, openPlan } from "../index.js";
import { KINDS, readMechanism } from "../mechanism/kinds.js";
import { percent, quoted } from "../promise.js";
import { Prior, readSet } from "../prior.js";
import { Recoding } from "../recoding.js";
import { rational } from "../read.js";
import { layOut } from "../mechanism/many_values/circle.js";
import { keyOf } from "../mechanism/many_values/shuffled_circle.js";
import { Channel } from "../mechanism/table/table.js";
import { golden, goldenPlans, replay } from "./helpers.js";

const readPrior = (weights) => new Prior(weights, "prior", weights.length);
const readRule = (known, prior) => readMechanism(known.mechanism ?? asTable(known.rows), prior, "mechanism", () => {});
const equalRatio = (found, expected) =>
  expected === null ? assert.equal(found, null) : assert.equal(compare(found, quotient(expected)), 0);
/** A fraction, in lowest terms or not. */
const quotient = (text) => fraction(...text.split("/").map(BigInt));
const asTable = (rows) => ({ kind: "table", denominator: "16", labels: rows[0].map(() => 0), rows });

for (const name of goldenPlans()) {
  const known = golden(name);

  test(`${name}: hash, promise, beliefs and chances`, async () => {
    const plan = await openPlan(known.plan);
    assert.equal(plan.hash, known.plan.hash);
    assert.deepEqual(plan.hashes, known.hashes ?? [plan.hash]);
    assert.deepEqual([plan.wave, plan.series], [known.plan.wave ?? 1, known.plan.series ?? null]);
    const [{ name: asked, text, answers }] = known.plan.questions;
    assert.equal(plan.heading, text?.[""] ?? null);
    assert.deepEqual(plan.questions[0].answers, answers);
    for (const [group, sentence] of known.promises) assert.equal(plan.promise(group), sentence);
    const told = known.sets ?? known.promises.map(([group]) => [group, null]);
    for (const [group, sentence] of told) assert.equal(plan.setSentence(group), sentence);
    for (const [place, group] of plan.groups.entries()) {
      const { prior_set: set = null, ldp_cap: cap = null } = known.plan.blocks[0].groups[place];
      assert.equal(group.priorSet, set && set.kind);
      assert.equal(group.ldpCap, cap && Number(cap.split("/")[0]) / Number(cap.split("/")[1] ?? 1));
    }
    for (const [group, rows] of known.beliefs) {
      const said = plan.beliefs(group).map(({ value, prior, low, high }) => [value, prior, high, low]);
      assert.deepEqual(said, rows);
    }
    for (const [place, [group, values]] of known.outside.entries()) {
      const found = answers.slice(0, 400).map((value) => [value, ...plan.outside(group, { [asked]: value })]).filter(([, each]) => each);
      assert.deepEqual(found.map(([value]) => value), values);
      assert.deepEqual(found.filter(([, { exposed }]) => exposed).map(([value]) => value), known.exposed[place][1]);
    }
    for (const [group, value, report, meaning, chance] of known.chances) {
      assert.equal(plan.guess(group, report), meaning);
      assert.equal(plan.chance(group, value, report), chance);
    }
  });

  test(`${name}: every report`, async () => {
    const plan = await openPlan(JSON.stringify(known.plan));
    assert.ok(known.reports.length >= 10);
    for (const [group, value, pairs, report] of known.reports) {
      const words = replay(pairs);
      assert.deepEqual(plan.randomize(group, { [known.plan.questions[0].name]: value }, words), { report });
      words.done();
      assert.ok(plan.canSend(group, report));
    }
  });
}

for (const { why, plan, says } of [...golden("refused"), ...golden("refused_recodings")]) {
  test(`refused: ${why}`, async () => {
    await assert.rejects(openPlan(plan), (error) => error instanceof PlanError && error.message.includes(says));
  });
}

test("raw cells become the names that Python makes of them", () => {
  const text = { en: "How old are you?", de: "Wie alt sind Sie?" };
  assert.deepEqual(new Recoding({ answers: [], groups: [{ column: "age", text }] }).groups[0].text, text);
  assert.throws(() => new Recoding({ answers: [], groups: [{ column: "age", text: { en: 7 } }] }), /text\.en/);
  for (const { recoding, known, cells = [], groups = [] } of golden("recoding")) {
    const read = new Recoding(recoding);
    for (const [cell, name] of cells) assert.equal(read.answers[0].read(cell, known), name, `${recoding.answers[0].column}: ${cell}`);
    for (const [pair, name] of groups) assert.equal(read.group(pair), name, String(pair));
  }
});

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
  const levels = golden("levels");
  assert.deepEqual(Object.keys(levels).sort(), Object.keys(KINDS).sort());
  for (const [kind, cases] of Object.entries(levels)) {
    assert.ok(cases.length >= 40);
    for (const known of cases) {
      const prior = readPrior(known.prior);
      const mechanism = readRule(known, prior);
      assert.equal(mechanism.kind, kind);
      const { lipUpper, lipLower, ldp } = mechanism.audit(prior);
      equalRatio(lipUpper, known.lip_upper);
      equalRatio(lipLower, known.lip_lower);
      equalRatio(ldp, known.ldp);
    }
  }
});

test("the levels for sets of priors are Python's, exactly", () => {
  const cases = golden("set_levels");
  assert.deepEqual([...new Set(cases.map((known) => known.prior_set.kind))].sort(), ["ball", "box", "hull"]);
  assert.ok(cases.length >= 150);
  for (const known of cases) {
    const prior = readPrior(known.prior);
    const set = readSet(known.prior_set, prior, "prior_set", () => {});
    const { upper, lower } = readRule(known, prior).setLevels(set);
    equalRatio(set.radius, known.radius);
    equalRatio(upper, known.upper);
    equalRatio(lower, known.lower);
  }
});

test("a mechanism is asked about the prior that it was made for", () => {
  for (const { mechanism, prior } of golden("levels")["many-values"].slice(0, 3)) {
    const made = readMechanism(mechanism, readPrior(prior), "mechanism", () => {});
    const set = readSet({ kind: "ball", radius: "0" }, readPrior(prior), "prior_set", () => {});
    assert.throws(() => made.audit(readPrior(prior)), RangeError);
    assert.throws(() => made.setLevels(set), RangeError);
  }
  const table = new Channel([[1n], [1n]], 1n, [0]);
  assert.throws(() => table.audit(readPrior(["1"])), RangeError);
});

test("all short words give the stated counts of many values and of tiers", async () => {
  for (const { plan, counts } of [...golden("small_many_values"), ...golden("small_tiers")]) {
    await openPlan(plan);
    const [group] = plan.blocks[0].groups;
    const small = readMechanism(group.mechanism, readPrior(group.prior), "mechanism", () => {});
    const words = Array.from({ length: 2 ** small.wordBits }, (_, word) => BigInt(word));
    const mask = BigInt(words.length - 1);
    const all = Array.from({ length: words.length ** small.wordsPerReport }, (_, i) =>
      Array.from({ length: small.wordsPerReport }, (_, k) => (BigInt(i) >> BigInt(k * small.wordBits)) & mask),
    );
    for (const [x, row] of counts.entries()) {
      const found = row.map(() => 0);
      for (const each of all) found[small.draw(x, each)] += 1;
      assert.deepEqual(found, row);
      for (const [report, count] of row.entries()) {
        equalRatio(small.likelihood(x, report), `${count}/${words.length ** small.wordsPerReport}`);
        assert.equal(count > 0, small.canSend(report));
      }
    }
  }
});

for (const [name, Kind] of [["small_block_designs", BlockDesign]]) {
  test(`every pair of short words gives the stated counts: ${name}`, async () => {
    for (const { plan, pairs } of golden(name)) {
      await openPlan(plan);
      const [group] = plan.blocks[0].groups;
      const small = Kind.fromDict(group.mechanism, readPrior(group.prior), "mechanism", () => {});
      const words = Array.from({ length: 2 ** small.wordBits }, (_, word) => BigInt(word));
      for (const [x, row] of pairs.entries()) {
        const counts = row.map(() => 0);
        for (const first of words) for (const second of words) counts[small.draw(x, [first, second])] += 1;
        assert.deepEqual(counts, row);
        for (const [report, count] of row.entries())
          equalRatio(small.likelihood(x, report), `${count}/${words.length ** 2}`);
      }
    }
  });
}

test("keys and cells are those of Python's examples", () => {
  const key = keyOf(7);
  assert.deepEqual([0, 1, 2].map(key), [701323630, 1712764510, 2136487101]);
  assert.deepEqual(layOut([6n, 1n, 1n], 4n), [2, 1, 1]);
  assert.deepEqual(layOut([1000n, 1n, 1n, 1n], 8n), [5, 1, 1, 1]);
});

test("every word of a small table gives the stated counts", async () => {
  for (const [name, group] of [
    ["plan_zeros", "exposed"],
    ["plan_words_of_96_bits", "eighths"],
  ]) {
    const known = golden(name);
    const plan = await openPlan(known.plan);
    const { mechanism } = known.plan.blocks[0].groups.find((each) => each.group === group);
    const bits = Math.log2(Number(mechanism.denominator));
    for (const [x, row] of mechanism.rows.entries()) {
      const counts = row.map(() => 0);
      for (let word = 0n; word < 2n ** BigInt(bits); word++) {
        const [first, last] = [
          (length) => word << BigInt(length - bits),
          (length) => ((word + 1n) << BigInt(length - bits)) - 1n,
        ];
        const answers = { value: plan.questions[0].answers[x] };
        const { report } = plan.randomize(group, answers, { integer: first });
        assert.deepEqual(plan.randomize(group, answers, { integer: last }), { report });
        counts[report] += 1;
      }
      assert.deepEqual(counts.map(String), row);
    }
  }
});
