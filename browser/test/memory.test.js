/** One report per plan and browser, drawn once, and the answer nowhere. */

import assert from "node:assert/strict";
import test from "node:test";
import { StorageError, erase, openPlan, remembered, respond } from "../index.js";
import { golden, hashOf, memory, worded } from "./helpers.js";

const plan = await openPlan(golden("plan_survey").plan);
const large = await openPlan(golden("plan_bins").plan);
const GROUP = "18–29";

test("the first call draws, later calls remember, whatever is asked", async () => {
  const storage = memory();
  assert.equal(await remembered(plan, { storage }), null);
  const { fresh, ...first } = await respond(plan, { group: GROUP, answers: { value: "yes" } }, { storage });
  assert.equal(fresh, true);
  assert.match(first.key, /^[0-9a-f]{32}$/);
  assert.deepEqual(Object.keys(first), ["key", "group", "report", "sent"]);
  assert.deepEqual(first.sent, []);
  for (let visit = 0; visit < 20; visit++) {
    assert.deepEqual(await respond(plan, { group: "30+", answers: { value: "no" } }, { storage }), { ...first, fresh: false });
  }
  assert.deepEqual(await remembered(plan, { storage }), first);
  assert.deepEqual([...storage.data.keys()], ["tacit:ledger"]);
  const [[stored]] = Object.values(JSON.parse([...storage.data.values()][0]).reports);
  assert.deepEqual(Object.keys(stored), ["key", "group", "report", "belief", "sent"]);
});

test("a corrected question keeps the report, a new wave asks anew", async () => {
  const { plan: told, hashes } = golden("plan_second_wave");
  const { earlier, ...first } = told;
  const [old, now] = [await openPlan({ ...worded(first, earlier[0].texts.value?.[""]), hash: hashes[0] }), await openPlan(told)];
  const storage = memory();
  const { fresh, ...drawn } = await respond(old, { group: null, answers: { value: "yes" } }, { storage });
  assert.ok(fresh && old.hash !== now.hash);
  for (let visit = 0; visit < 20; visit++) {
    assert.deepEqual(await respond(now, { group: null, answers: { value: "no" } }, { storage }), { ...drawn, fresh: false });
  }
  assert.equal(await remembered({ ...now, hashes: ["another wave"] }, { storage }), null);
});

test("different browsers draw different keys and both reports", async () => {
  const drawn = await Promise.all(
    Array.from({ length: 64 }, () => respond(plan, { group: "30+", answers: { value: "yes" } }, { storage: memory() })),
  );
  assert.equal(new Set(drawn.map(({ key }) => key)).size, 64);
  assert.equal(new Set(drawn.map(({ report }) => report)).size, 2);
});

test("calls at the same moment share one report", async () => {
  const storage = memory();
  const both = await Promise.all(
    Array.from({ length: 8 }, () => respond(large, { group: null, answers: { value: "word 3" } }, { storage })),
  );
  assert.equal(new Set(both.map(({ fresh, ...each }) => JSON.stringify(each))).size, 1);
  assert.equal(both.filter(({ fresh }) => fresh).length, 1);
});

test("tabs take turns where the browser has locks", async (t) => {
  const queue = [];
  let turn = Promise.resolve();
  const request = (name, task) => {
    queue.push(name);
    return (turn = turn.then(task));
  };
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  Object.defineProperty(globalThis, "navigator", { value: { locks: { request } }, configurable: true });
  t.after(() => (before ? Object.defineProperty(globalThis, "navigator", before) : delete globalThis.navigator));
  const storage = memory();
  const answers = [
    { group: GROUP, answers: { value: "yes" } },
    { group: "30+", answers: { value: "no" } },
  ];
  const [first, second] = await Promise.all(answers.map((answer) => respond(plan, answer, { storage })));
  assert.deepEqual({ ...first, fresh: false }, second);
  assert.equal(first.fresh, true);
  assert.deepEqual(queue, ["tacit:ledger", "tacit:ledger"]);
});

test("the report that another tab stored meanwhile is the one that counts", async () => {
  const storage = memory();
  const { fresh, ...other } = await respond(plan, { group: "30+", answers: { value: "no" } }, { storage });
  const stored = storage.getItem("tacit:ledger");
  storage.data.clear();
  storage.setItem = (key) => storage.data.set(key, stored);
  assert.deepEqual(await respond(plan, { group: GROUP, answers: { value: "yes" } }, { storage }), { ...other, fresh: false });
});

test("without a working storage nothing is drawn", async () => {
  const fails = () => {
    throw new DOMException("denied", "SecurityError");
  };
  const words = { integer: () => assert.fail("drawn") };
  const answer = { group: GROUP, answers: { value: "yes" } };
  await assert.rejects(respond(plan, answer, { storage: { ...memory(), getItem: fails }, words }), StorageError);
  await assert.rejects(respond(plan, answer, { storage: { ...memory(), setItem: fails } }), StorageError);
  await assert.rejects(respond(plan, answer, { storage: { ...memory(), setItem: () => {} } }), StorageError);
  await assert.rejects(respond(plan, answer, {}), /private window/);
  await assert.rejects(() => remembered(plan), StorageError);
});

test("a damaged memory is refused, not replaced by a second draw", async () => {
  const storage = memory();
  await respond(plan, { group: GROUP, answers: { value: "yes" } }, { storage });
  const sound = JSON.parse(storage.getItem("tacit:ledger"));
  const [tag] = Object.keys(sound.reports);
  const texts = [{ key: "x" }, { group: "nobody" }, { group: null }, { report: 2 }, { report: "1" }, { sent: true }, { key: null }].map(
    (damage) => ({ ...sound, reports: { [tag]: [{ ...sound.reports[tag][0], ...damage }] } }),
  );
  const rehashed = ({ hash, ...rest }) => JSON.stringify({ ...rest, hash: hashOf(rest) });
  const altered = [{ ...sound, limit: "1" }, { ...sound, persons: {}, reports: {} }].map((each) => JSON.stringify(each));
  for (const text of ["", "{", "null", "[]", ...altered, ...texts.map(rehashed)]) {
    storage.setItem("tacit:ledger", text);
    await assert.rejects(respond(plan, { group: GROUP, answers: { value: "yes" } }, { storage }), /damaged/);
    assert.equal(storage.getItem("tacit:ledger"), text);
  }
  await erase({ storage });
  assert.equal((await respond(plan, { group: GROUP, answers: { value: "yes" } }, { storage })).fresh, true);
});

test("an answer that is not there leaves nothing behind", async () => {
  const storage = memory();
  await assert.rejects(respond(plan, { group: GROUP, answers: { value: "maybe" } }, { storage }), RangeError);
  assert.equal(storage.data.size, 0);
});
