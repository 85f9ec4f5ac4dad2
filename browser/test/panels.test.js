/** The same people again: what reports add up to, two layers, and the belief rule, word for word as in Python. */

import assert from "node:assert/strict";
import test from "node:test";
import { LimitError, PlanError, erase, openPlan, respond, told } from "../index.js";
import { addedUp, ledgerText, newLedger, occasionOf, readLedger, storedWords, written } from "../ledger.js";
import { baseName, followedName } from "../series.js";
import { blockOf, golden, hashOf, memory, rehashed, replay, withGroups } from "./helpers.js";

const known = golden("panels");
const opened = (plans) => Promise.all(plans.map(openPlan));
const [[first, second, third], [named, namedSecond]] = await Promise.all(known.belief.map(opened));

/** The ledger of some occasions, as Python writes them. */
const ledgerOf = (occasions) => {
  const content = { tacit_ledger: 1, key: "0".repeat(32), limit: null, occasions, persons: {}, reports: {} };
  return readLedger(JSON.stringify({ ...content, hash: hashOf(content) }));
};

test("reports add up to Python's numbers: exactly where few, bounded where many, by the rule of the panel", async () => {
  for (const { occasions, sums } of known.added) {
    const ledger = await ledgerOf(occasions);
    assert.deepEqual(JSON.parse(await ledgerText(ledger)).occasions, occasions);
    for (const [count, expected] of sums.entries()) {
      const { lip, ldp } = addedUp(ledger.occasions.slice(0, count));
      assert.deepEqual([written(lip), written(ldp)], expected);
    }
  }
});

test("plans make Python's occasions, with what their reports can tell", async () => {
  for (const [at, plans] of known.plans.entries()) {
    const ledger = { ...newLedger(), occasions: (await opened(plans)).map(occasionOf) };
    assert.deepEqual(JSON.parse(await ledgerText(ledger)).occasions, known.added[at + 1].occasions);
  }
});

test("stored reports and what a wave sends of them are Python's", async () => {
  for (const { plan, key, reports } of known.layers) {
    const [layered, block] = [await openPlan(plan), blockOf(plan)];
    assert.deepEqual([layered.rule, layered.resend.at(-1)], ["layers", "%"]);
    for (const [group, value, person, stored, drawn, report] of reports) {
      const answer = { group, answers: { value } };
      const again = await storedWords({ ...newLedger(), key }, person, layered.storedAbout(answer));
      const { layers, prior } = block.group(group);
      assert.equal(layers.store(prior, block.values.indexOf(value), again), stored);
      const words = replay(drawn);
      const fresh = await storedWords({ ...newLedger(), key }, person, layered.storedAbout(answer));
      assert.deepEqual(layered.draw(answer, words, fresh), { group, report });
      words.done();
    }
    assert.throws(() => layered.randomize(reports[0][0], { value: reports[0][1] }), /has a memory/);
  }
});

test("what Python refuses is refused", async () => {
  for (const { why, plan } of known.refused) await assert.rejects(openPlan(plan), PlanError, why);
});

test("names of groups by the belief rule are Python's", () => {
  for (const [group, report, name, base] of known.names) assert.deepEqual([followedName(group, report), baseName(group)], [name, base]);
});

test("a browser finds its group from its reports, waves left out included; what it tells is the sum", async () => {
  const storage = memory();
  const answer = { group: null, answers: { value: "yes" } };
  const one = await respond(first, answer, { storage });
  assert.deepEqual([(await told({ storage }, second)).group, (await told({ storage }, third)).group], [`after ${one.report}`, `after ${one.report} -`]);
  const two = await respond(second, answer, { storage, person: "another invitation" });
  assert.equal(two.group, `after ${one.report}`);
  const three = await respond(third, answer, { storage });
  assert.equal(three.group, `after ${one.report} ${two.report}`);
  const found = await told({ storage });
  assert.equal(found.belief, "4.49", "e^1.5, three waves at ε = .5");
  assert.deepEqual(found.answered.map(({ rule }) => rule), [null, "belief", "belief"]);
  assert.equal((await respond(third, answer, { storage })).key, three.key, "the same wave sends the same report");
  // Erased, the browser is a new person; it cannot be told to be another.
  await erase({ storage });
  await assert.rejects(respond(third, { group: "after 0 0", answers: { value: "yes" } }, { storage }), RangeError);
  assert.equal((await respond(third, answer, { storage })).group, "new");
});

test("groups with names stay with their people, and new people name theirs", async () => {
  const storage = memory();
  const { report } = await respond(named, { group: "south", answers: { value: "a" } }, { storage });
  await assert.rejects(respond(namedSecond, { group: "north", answers: { value: "a" } }, { storage }), /follows from/);
  assert.equal((await respond(namedSecond, { group: null, answers: { value: "b" } }, { storage })).group, `south / after ${report}`);
  assert.equal((await respond(namedSecond, { group: "north", answers: { value: "b" } }, { storage: memory() })).group, "north");
  await assert.rejects(respond(namedSecond, { group: "north / after 0", answers: { value: "b" } }, { storage: memory() }), /follows from/);
});

test("a plan whose prior is not what the reports leave to believe draws nothing", async () => {
  const storage = memory();
  const { report } = await respond(first, { group: null, answers: { value: "no" } }, { storage });
  const [plan] = known.belief[0].slice(1);
  const [mine, other] = [`after ${report}`, `after ${1 - report}`];
  const swapped = plan.blocks[0].groups.map((group) => ({ ...group, group: { [mine]: other, [other]: mine }[group.group] ?? group.group }));
  const moved = { ...plan, follows: { ...plan.follows, persistence: "1/2" } };
  for (const hostile of [withGroups(plan, swapped), moved]) {
    const wrong = await openPlan(rehashed(hostile));
    await assert.rejects(respond(wrong, { group: null, answers: { value: "no" } }, { storage }), /not what this browser's earlier reports/);
    await assert.rejects(told({ storage }, wrong), PlanError);
  }
  assert.equal((await respond(second, { group: null, answers: { value: "no" } }, { storage })).group, mine);
  // What follows a wave that was drawn afresh does not know what was sent before it.
  const fresh = memory();
  await respond(first, { group: null, answers: { value: "no" } }, { storage: fresh });
  await respond(await openPlan(rehashed({ ...known.belief[0][0], wave: 2, series: first.hash })), { group: null, answers: { value: "no" } }, { storage: fresh });
  await assert.rejects(respond(third, { group: null, answers: { value: "no" } }, { storage: fresh }), /not drawn by the belief rule/);
});

test("two people in one browser, and a wave that is answered late, are refused", async () => {
  const storage = memory();
  await respond(first, { group: null, answers: { value: "no" } }, { storage, person: "a" });
  await respond(first, { group: null, answers: { value: "no" } }, { storage, person: "b" });
  const { refusal } = await told({ storage }, second);
  assert.ok(refusal instanceof LimitError && refusal.reason === "persons");
  await assert.rejects(respond(second, { group: null, answers: { value: "no" } }, { storage }), LimitError);
  const late = memory();
  await respond(second, { group: null, answers: { value: "no" } }, { storage: late });
  await assert.rejects(respond(first, { group: null, answers: { value: "no" } }, { storage: late }), (error) => error.reason === "wave");
});

test("two waves of two layers send one stored report and count once; erased, another is stored", async () => {
  const storage = memory();
  const [plan, , , , next] = await opened(known.layers.map(({ plan }) => plan));
  // Words of which the first resends, and the second gives the other report of the noise.
  const resend = { integer: (bits) => (bits === 16 ? 0n : 2n ** BigInt(bits) - 1n) };
  const answer = { group: null, answers: { value: "yes" } };
  const drawn = [await respond(plan, answer, { storage, words: resend }), await respond(next, answer, { storage, person: "invited", words: resend })];
  assert.equal(drawn[0].report, drawn[1].report);
  assert.deepEqual((await told({ storage })).belief, "2.72");
  const ledger = await readLedger(storage.getItem("tacit:ledger"));
  assert.ok(!storage.getItem("tacit:ledger").includes('"yes"'));
  const words = async () => storedWords(ledger, "", plan.storedAbout(answer));
  const { layers, prior } = blockOf(known.layers[0].plan).group(null);
  assert.equal(drawn[0].report, layers.store(prior, 0, await words()));
  // Of forty erased ledgers some store the other report: it follows from the key alone.
  const others = new Set();
  for (let k = 0; k < 40; k++) others.add(layers.store(prior, 0, await storedWords(newLedger(), "", plan.storedAbout(answer))));
  assert.equal(others.size, 2);
});

test("other layers, or another group, store reports of their own, and count", async () => {
  const storage = memory();
  const [, plan] = await opened(known.layers.map(({ plan }) => plan));
  const again = await openPlan(rehashed({ ...known.layers[1].plan, wave: 2, series: plan.hash }));
  await respond(plan, { group: "north", answers: { value: "a" } }, { storage });
  const once = await told({ storage });
  assert.equal((await told({ storage }, again)).after.belief, once.belief);
  await respond(again, { group: "south", answers: { value: "a" } }, { storage });
  assert.ok(Number((await told({ storage })).belief) > 2 * Number(once.belief));
  // A collector whose later wave stores reports in another way gets an independent one.
  const other = await openPlan(rehashed({ ...known.layers[0].plan, wave: 3, series: plan.hash }));
  assert.notEqual(other.stored, plan.stored);
  assert.equal(again.stored, plan.stored);
  const before = Number((await told({ storage })).belief);
  assert.ok(Number((await told({ storage }, other)).after.belief) > 2 * before);
});
