/** Whatever the JSON: a plan that keeps its promise, or a PlanError with a message, soon. */

import assert from "node:assert/strict";
import test from "node:test";
import { contractText, sha256 } from "../hash.js";
import { PlanError, openPlan } from "../index.js";
import { golden, goldenPlans } from "./helpers.js";

const HOSTILE = [
  null,
  true,
  0,
  -1,
  1.5,
  1e300,
  2 ** 53,
  "",
  "0",
  "-1",
  "1/0",
  "1e9",
  "1e999999999",
  "0x10",
  " 1",
  "９",
  "1".repeat(1001),
  "\ud800",
  [],
  [[]],
  [null],
  {},
  { length: 3 },
  { __proto__: null, toString: 1 },
  undefined,
  "9".repeat(999),
  "1/" + "9".repeat(990),
  "table",
  "many-values",
  "ball",
  "hull",
];

/** Every path to a part of some JSON; of long lists, the first two parts. */
function* paths(data, path = []) {
  if (path.length) yield path;
  if (typeof data !== "object" || data === null) return;
  for (const key of Object.keys(data).slice(0, Array.isArray(data) ? 2 : 99)) yield* paths(data[key], [...path, key]);
}

/** A copy of the plan with another value, or none, at a path, under its new hash. */
async function changed(plan, path, value) {
  const copy = structuredClone(plan);
  const parent = path.slice(0, -1).reduce((part, key) => part[key], copy);
  if (value === undefined) delete parent[path.at(-1)];
  else parent[path.at(-1)] = value;
  try {
    copy.hash = path[0] === "hash" ? copy.hash : await sha256(contractText(copy));
  } catch (error) {
    assert.ok(error instanceof PlanError);
  }
  return copy;
}

/** Whether the plan opens; anything but a PlanError with a sentence fails the test. */
async function opens(json) {
  try {
    await openPlan(json);
    return true;
  } catch (error) {
    assert.ok(error instanceof PlanError, `${error?.stack}`);
    assert.match(error.message, /^[A-Z].*\.$/su);
    return false;
  }
}

for (const name of goldenPlans().filter((each) => !each.includes("large"))) {
  test(`${name}: any part may be replaced by anything`, async () => {
    const { plan } = golden(name);
    let refused = 0;
    // A fifth of the values at each place: the next place, and the next plan, has the others.
    for (const [place, path] of [...paths(plan)].entries()) {
      const derived = path[2] === "groups" && ["levels", "certificate"].includes(path[4]);
      // Derived fields are not read, so their parts are as good as the whole.
      if (derived && path.length > 5) continue;
      for (const value of HOSTILE.filter((_, k) => (k + place + name.length) % 5 === 0)) {
        const open = await opens(await changed(plan, path, value));
        assert.ok(open || !derived, "derived fields are not read");
        refused += Number(!open);
      }
    }
    assert.ok(refused > 50);
  });
}

test("what is no plan at all", async () => {
  for (const json of [
    undefined,
    null,
    5,
    "",
    "{",
    "[]",
    "7",
    "null",
    [],
    {},
    new Map(),
    () => 1,
    { tacit_plan: 1 },
    '{"tacit_plan":1}',
  ]) {
    assert.equal(await opens(json), false);
  }
});

test("deep nesting is refused, not followed", async () => {
  const { plan } = golden("plan_ldp");
  let deep = {};
  for (let depth = 0; depth < 100_000; depth++) deep = { deep };
  assert.equal(await opens({ ...plan, deep }), false);
  assert.equal(await opens(`{"tacit_plan":1,"hash":"","blocks":[{"groups":[{}]}],"x":${"[".repeat(1e6)}${"]".repeat(1e6)}}`), false);
});

test("a rule that would unfold into too many integers is refused before it does", async () => {
  const { plan } = golden("plan_bins");
  const mechanism = { ...plan.blocks[0].groups[0].mechanism, covered: 1, arc: 1, bins: 2 ** 26, heavy: 1 };
  await assert.rejects(changed(plan, ["blocks", 0, "groups", 0, "mechanism"], mechanism).then(openPlan), /too large/);
});

test("sets that would unfold into too many or too long integers are refused before they do", async () => {
  const { plan } = golden("plan_survey");
  const set = (prior_set) => changed(plan, ["blocks", 0, "groups", 0, "prior_set"], prior_set).then(openPlan);
  const everybody = { kind: "box", low: ["0", "0"], high: ["1", "1"] };
  await assert.rejects(set(everybody), /not kept.*a set of priors/);
  const tiny = (k) => `1/${10n ** 990n + BigInt(k)}`;
  await assert.rejects(set({ ...everybody, low: [tiny(1), tiny(3)] }), /common denominator/);
  const candidates = [1, 3].map((k) => ["1", String(10n ** 990n + BigInt(k))]);
  await assert.rejects(set({ kind: "hull", candidates }), /common denominator/);
  const wide = golden("plan_histogram").plan;
  const row = wide.blocks[0].groups[0].prior.map(() => "1");
  const many = { kind: "hull", candidates: Array(Math.ceil(2 ** 21 / row.length)).fill(row) };
  await assert.rejects(changed(wide, ["blocks", 0, "groups", 0, "prior_set"], many).then(openPlan), /too large/);
});

test("what the format does not allow is refused, even where a lenient reader would take it", async () => {
  const { plan } = golden("plan_survey");
  const lenient = [
    [["blocks", 0, "groups", 0, "group"], 3],
    [["blocks", 0, "groups", 0, "prior"], "19"],
    [["blocks", 0, "groups", 0, "notion"], "trust"],
    [["blocks", 0, "groups", 0, "epsilon"], 1],
    [["blocks", 0, "groups", 0, "epsilon"], "1.0"],
    [["blocks", 0, "task", "values"], [-1]],
    [["questions", 0, "answers"], ["yes", "yes "], "open"],
  ];
  for (const [path, value, open] of lenient)
    assert.equal(await opens(await changed(plan, path, value)), open === "open");
});

test("groups must have different names", async () => {
  const { plan } = golden("plan_survey");
  const [first, second] = plan.blocks[0].groups;
  for (const names of [
    ["a", "a"],
    [null, "a"],
    [null, null],
  ]) {
    const groups = [
      { ...first, group: names[0] },
      { ...second, group: names[1] },
    ];
    await assert.rejects(changed(plan, ["blocks", 0, "groups"], groups).then(openPlan), /different names/);
  }
  assert.ok(await opens(await changed(plan, ["blocks", 0, "groups"], [first])));
});

test("only powers of two are denominators", async () => {
  const { plan } = golden("plan_survey");
  const mechanism = {
    kind: "table",
    denominator: "3",
    labels: [0, 1],
    rows: [
      ["2", "1"],
      ["2", "1"],
    ],
  };
  await assert.rejects(changed(plan, ["blocks", 0, "groups", 0, "mechanism"], mechanism).then(openPlan), /power of two/);
});

test("reports that nobody sends are no leak, values that never send a sent one are", async () => {
  const { plan } = golden("plan_ldp");
  const rows = plan.blocks[0].groups[0].mechanism.rows.map(() => ["1", "1", "0"]);
  const mechanism = { kind: "table", denominator: "2", labels: [0, 1, 2], rows };
  assert.ok(await opens(await changed(plan, ["blocks", 0, "groups", 0, "mechanism"], mechanism)));
  rows[0] = ["2", "0", "0"];
  for (const notion of ["lip", "ldp"]) {
    const group = { ...plan.blocks[0].groups[0], notion, epsilon: "100", mechanism };
    await assert.rejects(changed(plan, ["blocks", 0, "groups"], [group]).then(openPlan), /not kept.*∞/);
  }
});

test("a plan promises lip or ldp, and nothing weaker", async () => {
  const { plan } = golden("plan_ldp");
  assert.ok(await opens(plan));
  for (const notion of ["pml", "min_lift", "mip", "LIP", "", null])
    await assert.rejects(changed(plan, ["blocks", 0, "groups", 0, "notion"], notion).then(openPlan), /notion/);
});

test("a page that asks for what is not there gets a RangeError without the answer in it", async () => {
  const plan = await openPlan(golden("plan_survey").plan);
  for (const call of [
    () => plan.randomize("18–29", { value: "secret" }),
    () => plan.promise("secret"),
    () => plan.meaning("18–29", 2),
  ]) {
    assert.throws(call, (error) => error instanceof RangeError && !error.message.includes("secret"));
  }
  for (const report of [-1, 0.5, 2, "0", null, undefined, NaN, 2 ** 60])
    assert.equal(plan.canSend("18–29", report), false);
});

test("what is hashed is what is audited, even if the caller changes it meanwhile", async () => {
  const { plan } = golden("plan_survey");
  const opening = openPlan(plan);
  plan.questions[0].text[""] = "Another?";
  assert.equal((await opening).heading, "Have you ever …?");
});
