/** What a browser has told so far: one format with Python, exact sums, and no draw beyond what is allowed. */

import assert from "node:assert/strict";
import test from "node:test";
import { LimitError, PlanError, erase, openPlan, respond, setLimit, told } from "../index.js";
import { addedUp, factorOf, ledgerText, occasionOf, readLedger, tagOf, withReport, newLedger, written } from "../ledger.js";
import { golden, hashOf, memory, rehashed, worded } from "./helpers.js";

const known = golden("ledger");
const [first, second, odds, wide] = await Promise.all(known.plans.map(openPlan));
const third = await openPlan(rehashed({ ...known.plans[0], wave: 3, series: first.hash }));

test("Python's ledger is read, written alike, and its plans make the same occasions", async () => {
  const ledger = await readLedger(JSON.stringify(known.ledger));
  assert.deepEqual(JSON.parse(await ledgerText(ledger)), known.ledger);
  for (const [person, tag] of Object.entries(known.tags)) assert.equal(await tagOf(ledger, person), tag);
  let again = { ...newLedger(), key: ledger.key, limit: ledger.limit };
  const drawers = [["", "an invitation"], [""], [""], ["an invitation"]];
  for (const [place, plan] of [first, second, odds, wide].entries())
    for (const person of drawers[place]) {
      const tag = known.tags[person];
      again = withReport(again, plan, tag, ledger.reports[tag][(again.persons[tag] ?? []).length]);
    }
  assert.deepEqual(JSON.parse(await ledgerText(again)), known.ledger);
});

test("levels add up as in Python", async () => {
  const { occasions, persons } = await readLedger(JSON.stringify(known.ledger));
  const mine = persons[known.tags[""]].map((place) => occasions[place]);
  for (const [count, sums] of known.sums.entries()) {
    const { lip, ldp } = addedUp(mine.slice(0, count));
    assert.deepEqual([written(lip), written(ldp)], sums);
  }
});

test("altered and foreign ledgers are refused", async () => {
  for (const { why, ledger } of known.refused)
    await assert.rejects(readLedger(JSON.stringify(ledger)), /altered or damaged/, why);
});

test("every wave is asked anew, up to the limit of the plan, which says why", async () => {
  const storage = memory();
  const answer = { group: null, answers: { value: "yes" } };
  const drawn = [await respond(first, answer, { storage }), await respond(second, answer, { storage })];
  assert.ok(drawn.every(({ fresh }) => fresh));
  assert.notEqual(drawn[0].key, drawn[1].key);
  const refusal = await respond(third, answer, { storage, words: { integer: () => assert.fail("drawn") } }).catch((error) => error);
  assert.ok(refusal instanceof LimitError && refusal.reason === "plan", refusal);
  assert.match(refusal.message, /level of 3\.\d\d; the limit of this plan is 3\./);
  assert.ok((await respond(wide, { group: null, answers: { value: "v1" } }, { storage })).fresh, "other surveys are not concerned");
  assert.equal((await respond(second, answer, { storage })).key, drawn[1].key, "the stored report is sent again");
});

test("a person's own limit is about everything in the browser, and can be taken back", async () => {
  const storage = memory();
  await respond(odds, { group: null, answers: { value: "a" } }, { storage });
  await setLimit("5/4", { storage });
  const refusal = await respond(first, { group: null, answers: { value: "no" } }, { storage, person: "somebody" }).catch((error) => error);
  assert.equal(refusal.reason, "browser");
  assert.deepEqual(refusal.factors, { level: "4.49", limit: "3.50" });
  await assert.rejects(setLimit("1.5", { storage }), PlanError);
  await setLimit(null, { storage });
  assert.ok((await respond(first, { group: null, answers: { value: "no" } }, { storage })).fresh);
});

test("a plan that says it is a wave that was answered draws nothing, whatever else it says", async () => {
  const storage = memory();
  await respond(second, { group: null, answers: { value: "yes" } }, { storage });
  const { earlier, ...rest } = known.plans[1];
  const hostile = [
    worded(rest, "Are you ill, again?"),
    { ...worded(rest, "Are you ill?"), earlier: [{ title: null, texts: { value: { "": "Something else?" } }, labels: {} }] },
    { ...rest, limit: "100" },
  ];
  for (const plan of hostile) {
    const opened = await openPlan(rehashed(plan));
    const refusal = await respond(opened, { group: null, answers: { value: "no" } }, { storage }).catch((error) => error);
    assert.equal(refusal.reason, "wave");
  }
  // Under another series it is drawn, and counted.
  const before = await told({ storage });
  await respond(await openPlan(rehashed({ ...rest, series: "0".repeat(64) })), { group: null, answers: { value: "no" } }, { storage });
  const after = await told({ storage });
  assert.deepEqual([before.belief, after.belief, after.answered.length], ["2.72", "9.07", 2]);
});

test("no plan fills the storage, and odds or sums of any size have a place", async () => {
  const { ldp, question } = occasionOf({ ...first, columns: [], heading: "😀".repeat(1e6), levels: { lip: first.levels.lip, ldp: { n: 1n << 4000n, d: 1n } } });
  assert.deepEqual([ldp, question.length], [null, 600]);
  assert.equal(factorOf({ n: 5000n, d: 1n }), "∞");
});

test("what was told is listed without the answer, and can be erased", async () => {
  const storage = memory();
  assert.deepEqual((await told({ storage })).answered, []);
  const { key, report } = await respond(first, { group: null, answers: { value: "yes" } }, { storage });
  const found = await told({ storage }, second);
  assert.equal(found.answered[0].question, "Are you il?");
  assert.deepEqual(found.answered[0].body, { key, group: null, report });
  assert.deepEqual([found.belief, found.after.belief, found.another], ["2.72", "9.07", false]);
  assert.equal((await told({ storage, person: "another" }, first)).another, true);
  assert.equal(found.file, storage.getItem("tacit:ledger"));
  assert.ok(!found.file.includes("yes"));
  await erase({ storage });
  assert.equal(storage.data.size, 0);
});
