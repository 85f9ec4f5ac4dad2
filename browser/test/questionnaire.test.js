/** Plans of several questions: what Python says, word for word; one report for the whole record. */

import assert from "node:assert/strict";
import test from "node:test";
import { atMostExp, fraction } from "../exact.js";
import { PlanError, openPlan, remembered, respond, send } from "../index.js";
import { golden, memory, replay } from "./helpers.js";

const [clinic, oneBlock] = golden("questionnaires");

for (const known of [clinic, oneBlock]) {
  test(`${known.plan.title}: hash, promise, beliefs and what a report means`, async () => {
    const plan = await openPlan(JSON.stringify(known.plan));
    assert.equal(plan.hash, known.plan.hash);
    for (const [group, sentence] of known.promises) assert.equal(plan.promise(group), sentence);
    for (const [group, sentence] of known.sets) assert.equal(plan.setSentence(group), sentence);
    for (const [group, rows] of known.beliefs) {
      const said = plan.beliefs(group).map(({ question, value, prior, low, high }) => [question, value, prior, high, low]);
      assert.deepEqual(said, rows);
    }
    for (const [group, block, report, rows] of known.meanings) {
      const said = plan.meaning(group, report, block).flatMap(({ question, answers }) =>
        answers.map(({ value, before, after }) => [question, value, before, after]),
      );
      assert.deepEqual(said, rows);
    }
  });

  test(`${known.plan.title}: every report`, async () => {
    const plan = await openPlan(known.plan);
    assert.ok(known.records.length >= 30);
    for (const [group, answers, pairs, block, report] of known.records) {
      const words = replay(pairs);
      assert.deepEqual(plan.randomize(group, answers, words), { block, report });
      words.done();
      assert.ok(plan.canSend(group, report, block));
    }
  });
}

for (const { why, plan, says } of golden("refused_questionnaires")) {
  test(`several questions refused: ${why}`, async () => {
    await assert.rejects(openPlan(plan), (error) => error instanceof PlanError && error.message.includes(says));
  });
}

test("corrected words: the earlier hashes are computed again", async () => {
  const [{ plan: told, hashes }] = golden("reworded_questionnaires");
  const plan = await openPlan(told);
  assert.deepEqual(plan.hashes, hashes);
  assert.deepEqual([plan.wave, plan.series, hashes.length], [2, clinic.plan.hash, 3]);
});

test("the questions are as the plan has them", async () => {
  const plan = await openPlan(clinic.plan);
  const [region, smokes, daily, hours, pain, cough] = plan.questions;
  assert.deepEqual([region.public, smokes.public], [true, false]);
  assert.equal(smokes.text.de, "Rauchen Sie?");
  assert.deepEqual(daily.labels.de, ["bis zehn", "mehr", "nicht gefragt"]);
  assert.deepEqual(daily.askedIf, { question: "smokes", answers: ["yes"] });
  assert.deepEqual([hours.kind, hours.answers], ["number", ["0", "2.5", "10"]]);
  assert.deepEqual([pain.partOf, cough.partOf], ["symptoms", "symptoms"]);
  assert.deepEqual(plan.blocks.map(({ questions }) => questions), [["smokes", "daily"], ["hours"], ["pain", "cough"]]);
  assert.equal(plan.blocks.reduce((all, { share }) => all + share, 0), 1);
});

test("every word draws a block by its chance, and the promise is kept for every set of cells", async () => {
  const plan = await openPlan(clinic.plan);
  const answers = { smokes: "no", hours: 3, pain: "no", cough: "yes" };
  const drawn = [0, 0, 0];
  for (let word = 0; word < 2 ** 16; word += 16) {
    const words = { integer: (bits) => (bits === 16 ? BigInt(word) : 0n) };
    drawn[plan.randomize("old", answers, words).block - 1] += 16;
  }
  assert.deepEqual(drawn, clinic.plan.blocks.map(({ chance }) => chance));
  const [{ prior, mechanism }] = clinic.plan.blocks[2].groups;
  const joint = mechanism.rows.map((row, x) => row.map((cell) => BigInt(cell) * BigInt(prior[x])));
  const total = prior.reduce((all, weight) => all + BigInt(weight), 0n);
  for (const y of joint[0].keys())
    for (let set = 1; set < 2 ** joint.length; set++) {
      const held = [...joint.keys()].filter((x) => set & (1 << x));
      const add = (of) => held.reduce((all, x) => all + of(x), 0n);
      const after = fraction(add((x) => joint[x][y]) * total, joint.reduce((all, row) => all + row[y], 0n) * add((x) => BigInt(prior[x])));
      for (const ratio of [after, fraction(after.d, after.n)]) assert.ok(atMostExp(ratio, fraction(1n)));
    }
});

test("a question that is not asked has the answer of everybody who is not asked, whatever was given", async () => {
  const plan = await openPlan(clinic.plan);
  const given = { smokes: "no", hours: 0, pain: "no", cough: "no" };
  assert.equal(plan.isAsked("daily", given), false);
  assert.equal(plan.isAsked("daily", { smokes: "yes" }), true);
  assert.equal(plan.isAsked("daily", {}), false);
  const pairs = () => replay([[16, "0"], [32, "123456789"]]);
  const expected = plan.randomize("old", given, pairs());
  assert.deepEqual(plan.randomize("old", { ...given, daily: "more" }, pairs()), expected);
  assert.deepEqual(plan.outside("old", given), []);
  const answered = { ...given, smokes: "yes", daily: "not asked" };
  assert.deepEqual(plan.outside("old", answered)[0].questions, ["smokes", "daily"]);
});

test("what is missing or unknown is refused without being told, and draws nothing", async () => {
  const plan = await openPlan(clinic.plan);
  const none = replay([]);
  const whole = { smokes: "yes", daily: "more", hours: 1, pain: "no", cough: "no" };
  for (const [name, value] of [["smokes", undefined], ["daily", null], ["pain", "maybe"], ["hours", "many"], ["hours", 11], ["cough", ""]])
    assert.throws(
      () => plan.randomize("old", { ...whole, [name]: value }, none),
      (error) => error instanceof RangeError && !error.message.includes("maybe") && !error.message.includes("many"),
    );
  assert.throws(() => plan.randomize("ancient", whole, none), RangeError);
  assert.throws(() => plan.isAsked("height", whole), RangeError);
  for (const block of [0, 4, 1.5, "1", null, undefined]) assert.equal(plan.canSend("old", 0, block), false);
  assert.throws(() => plan.meaning("old", 0, 4), RangeError);
});

test("a record is drawn once, remembered with its block, and sent with nothing else", async () => {
  const plan = await openPlan(clinic.plan);
  const storage = memory();
  const record = { group: "young", answers: { smokes: "no", hours: 4, pain: "yes", cough: "no", region: "here" } };
  const drawn = await respond(plan, record, { storage });
  assert.equal(drawn.fresh, true);
  const again = await respond(plan, { ...record, answers: { ...record.answers, pain: "no" } }, { storage });
  assert.deepEqual(again, { ...drawn, fresh: false });
  const bodies = [];
  const carry = async (_, { body }) => {
    bodies.push(JSON.parse(body));
    return new Response(JSON.stringify({ status: "counted" }));
  };
  await send(plan, "/api/surveys/x", { storage, fetch: carry });
  const { key, group, block, report } = drawn;
  assert.deepEqual(bodies, [{ key, group, block, report, public: { region: "here" } }]);
  await assert.rejects(respond(plan, { ...record, answers: { ...record.answers, region: "nowhere" } }, { storage: memory() }));
  for (const told of [{}, { region: 1 }, { area: "here" }, "here", null]) assert.equal(plan.canSend(group, report, block, told), false);
  assert.equal((await remembered(plan, { storage })).sent.length, 1);
  const single = await openPlan(golden("plan_survey").plan);
  assert.equal(single.canSend(single.groups[0].name, 0, 1), false, "one question has no blocks");
});

test("any part of a plan of several questions may be replaced by anything", async () => {
  const wrong = [null, true, -1, 1.5, "", "x", [], {}, [[]], 2 ** 60];
  const paths = [];
  const walk = (part, path) => {
    if (path.length) paths.push(path);
    if (part && typeof part === "object" && path.length < 4) for (const key of Object.keys(part)) walk(part[key], [...path, key]);
  };
  walk(clinic.plan, []);
  for (const [place, path] of paths.entries()) {
    const data = structuredClone(clinic.plan);
    const owner = path.slice(0, -1).reduce((part, key) => part[key], data);
    owner[path.at(-1)] = wrong[place % wrong.length];
    if (JSON.stringify(data) === JSON.stringify(clinic.plan)) continue;
    await assert.rejects(openPlan(data), PlanError, path.join("."));
  }
});
