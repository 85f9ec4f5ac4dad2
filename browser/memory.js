/**
 * What the browser remembers: one report per wave of a plan, so that asking again re-sends it instead of drawing afresh.
 *
 * All reports are in one ledger (`ledger.js`), stored as one text. The answer is never stored. Without a working storage
 * nothing is drawn: the promise is about one report.
 */

import { LimitError, StorageError } from "./errors.js";
import { toHex } from "./hash.js";
import * as ledgers from "./ledger.js";
import { readBudget } from "./group.js";
import { randomBytes } from "./words.js";

/** @typedef {import("./index.js").Memory} Memory */
/** @typedef {import("./index.js").Store} Store */
/** @typedef {import("./index.js").Plan} Plan */
/** @typedef {import("./ledger.js").Ledger} Ledger */
/** @typedef {import("./ledger.js").Memento} Memento */

/** Where the ledger is stored. */
const PLACE = "tacit:ledger";
/** Processes of one browser exchange what they store a moment later; the lock is held for this many milliseconds. */
const SETTLE = 50;

/**
 * The remembered report of this plan, drawn now if there is none: later calls return the same report. `fresh` tells
 * whether it was drawn by this call. Throws a LimitError where the ledger does not allow a draw.
 *
 * @param {Plan} plan
 * @param {import("./index.js").RecordAnswer} answer
 * @param {Memory & {words?: import("./index.js").RandomWords}} [options]
 */
export async function respond(plan, answer, { storage = browserStorage(), person = "", words } = {}) {
  const key = toHex(randomBytes(16));
  const owner = ownerOf(plan, person);
  await change(storage, owner, async (ledger, tag) => {
    if (recall(ledger, plan, tag)) return ledger;
    const placed = ledgers.placed(ledger, plan, answer);
    ledgers.checkDraw(ledger, plan, tag, placed.group);
    // One stored report of each answer for the whole browser: invitations change from wave to wave.
    const stored = plan.rule === "layers" ? await ledgers.storedWords(ledger, "", plan.storedAbout(placed)) : undefined;
    const drawn = plan.draw(placed, words, stored);
    const belief = plan.beliefAfter(drawn.group, drawn.report)?.map(String);
    return ledgers.withReport(ledger, plan, tag, { key, ...drawn, ...(belief && { belief }), sent: [] });
  });
  // Another tab without locks may have written meanwhile: what is stored is what counts.
  const kept = await remembered(plan, { storage, person });
  if (!kept) throw new StorageError(UNABLE);
  return { ...kept, fresh: kept.key === key };
}

/** Who a report of a plan is of: by the belief rule the browser is one person. @param {Plan} plan @param {string} person */
const ownerOf = (plan, person) => (plan.rule === "belief" ? "" : person);

/** The report that was drawn for this plan in this browser, or null. @param {Plan} plan @param {Memory} [options] */
export async function remembered(plan, { storage = browserStorage(), person = "" } = {}) {
  const ledger = await read(attempt(() => storage.getItem(PLACE)));
  const memento = recall(ledger, plan, await ledgers.tagOf(ledger, ownerOf(plan, person)));
  if (!memento) return null;
  const { key, group, block, report, public: told, sent } = memento;
  return { key, group, ...(block !== undefined && { block }), report, ...(told && { public: told }), sent };
}

/**
 * What this browser has drawn so far and what it adds up to, as if one person had drawn all of it; with a plan, also
 * what it would add up to with a report of that, whether another report of it is there, and why none may be drawn.
 *
 * @param {Memory} [options]
 * @param {Plan} [plan]
 */
export async function told({ storage = browserStorage(), person = "" } = {}, plan) {
  const stored = attempt(() => storage.getItem(PLACE));
  const ledger = await read(stored);
  const drawn = ledgers.drawn(ledger);
  const sum = ledgers.addedUp(drawn);
  const factors = ({ lip, ldp } = /** @type {Pick<typeof sum, "lip" | "ldp">} */ (sum)) => ({ belief: ledgers.factorOf(lip), odds: ledgers.factorOf(ldp) });
  const answered = Object.entries(ledger.persons).flatMap(([tag, places]) =>
    places.map((place, at) => {
      const { occasion, series, wave, question, rule = null } = ledger.occasions[place];
      const { key, group, block, report, public: open, sent } = ledger.reports[tag][at];
      const body = { key, group, ...(block !== undefined && { block }), report, ...(open && { public: open }) };
      return { plan: occasion, series, wave, question, rule, ...factors(ledgers.addedUp([ledger.occasions[place]])), body, sent };
    }),
  );
  const now = plan && ledgers.nextRelease(ledger, plan);
  const others = plan && drawn.some(({ occasion }) => occasion === plan.hashes[0]);
  const [alone, after] = now ? [factors(ledgers.addedUp([now])), factors(ledgers.addedUp([...drawn, now]))] : [null, null];
  const limit = ledger.limit && ledgers.written(ledger.limit);
  const refusal = plan ? refusalOf(ledger, plan, await ledgers.tagOf(ledger, ownerOf(plan, person))) : null;
  const group = plan && !refusal ? ledgers.followedGroup(ledger, plan) : null;
  return { answered, ...factors(), computed: sum.computed, limit, file: stored ?? null, alone, after, another: Boolean(others), refusal, group };
}

/** Why no report may be drawn, or null. @param {Ledger} ledger @param {Plan} plan @param {string} tag */
function refusalOf(ledger, plan, tag) {
  if (recall(ledger, plan, tag)) return null;
  try {
    ledgers.checkDraw(ledger, plan, tag);
    ledgers.followedGroup(ledger, plan);
  } catch (error) {
    if (error instanceof LimitError) return error;
    throw error;
  }
  return null;
}

/**
 * Limit what the reports of this browser may add up to; null for no limit.
 *
 * @param {string | null} limit a LIP level, as a rational such as 5/2
 * @param {Memory} [options]
 */
export async function setLimit(limit, { storage = browserStorage() } = {}) {
  const level = limit === null ? null : readBudget(limit, "limit");
  await change(storage, "", (ledger) => ({ ...ledger, limit: level }));
}

/** Forget everything: this browser can then draw again. @param {Memory} [options] */
export async function erase({ storage = browserStorage() } = {}) {
  await exclusively(async () => attempt(() => storage.removeItem(PLACE)));
}

/**
 * What a person has drawn for a plan, or null; refuses what this plan cannot have stored.
 *
 * @param {Ledger} ledger
 * @param {Plan} plan
 * @param {string} tag
 */
function recall(ledger, plan, tag) {
  const memento = ledgers.mementoOf(ledger, plan, tag);
  if (memento && !plan.canSend(memento.group, memento.report, memento.block, memento.public))
    throw new StorageError("What this browser remembers about this survey is damaged, so it cannot be sent again.");
  return memento;
}

/** Everything stored about this plan; there must be something. @param {Plan} plan @param {Memory} memory */
export async function kept(plan, { storage = browserStorage(), person = "" }) {
  const ledger = await read(attempt(() => storage.getItem(PLACE)));
  const memento = recall(ledger, plan, await ledgers.tagOf(ledger, ownerOf(plan, person)));
  if (!memento) throw new StorageError("There is no report to send: draw one with respond first.");
  return memento;
}

/**
 * Change what is remembered, once no other tab does.
 *
 * @param {Plan} plan
 * @param {Memory} memory
 * @param {(memento: Memento) => Partial<Memento> | Promise<Partial<Memento>>} alter
 */
export async function amend(plan, { storage = browserStorage(), person = "" }, alter) {
  /** @type {Memento | null} */
  let changed = null;
  await change(storage, ownerOf(plan, person), async (ledger, tag) => {
    const memento = recall(ledger, plan, tag);
    if (!memento) throw new StorageError("There is no report to send: draw one with respond first.");
    changed = { ...memento, ...(await alter(memento)) };
    return ledgers.withReport(ledger, plan, tag, changed);
  });
  return /** @type {Memento} */ (/** @type {unknown} */ (changed));
}

/** The ledger in a stored text, a new one where there is none. @param {string | null | undefined} stored */
const read = async (stored) => (stored === null || stored === undefined ? ledgers.newLedger() : ledgers.readLedger(stored));

/**
 * Store another ledger in the place of this one, while no other tab does. Without locks another tab may have written
 * meanwhile; it is then made again from what is there, so that no report is lost and none is drawn twice.
 *
 * @param {Store} storage
 * @param {string} person
 * @param {(ledger: Ledger, tag: string) => Ledger | Promise<Ledger>} alter
 */
async function change(storage, person, alter) {
  await exclusively(async (settle) => {
    for (;;) {
      const before = attempt(() => storage.getItem(PLACE));
      const ledger = await read(before);
      const changed = await alter(ledger, await ledgers.tagOf(ledger, person));
      if (changed === ledger) return;
      const text = await ledgers.ledgerText(changed);
      if (attempt(() => storage.getItem(PLACE)) !== before) continue;
      attempt(() => storage.setItem(PLACE, text));
      return settle();
    }
  });
}

/**
 * Run a task while no other tab runs one, where the browser has locks.
 *
 * @template T
 * @param {(settle: () => Promise<void>) => Promise<T>} task
 * @returns {Promise<T>}
 */
async function exclusively(task) {
  const locks = globalThis.navigator?.locks;
  if (!locks) return task(async () => {});
  const settle = () => new Promise((/** @type {(nothing: void) => void} */ resolve) => setTimeout(resolve, SETTLE));
  return /** @type {Promise<T>} */ (/** @type {unknown} */ (locks.request(PLACE, () => task(settle))));
}

/** The browser's own storage. */
export function browserStorage() {
  return attempt(() => {
    const storage = globalThis.localStorage;
    if (!storage) throw new TypeError("no storage");
    return storage;
  });
}

const UNABLE =
  "This browser does not let the page remember anything (a private window, or blocked site data). A second visit " +
  "would then draw a second report and weaken the promise, so none is drawn. Allow site data for this page and reload.";

/** What a call to the storage returns; a StorageError if it throws. @template T @param {() => T} call @returns {T} */
function attempt(call) {
  try {
    return call();
  } catch (error) {
    throw new StorageError(UNABLE, { cause: error });
  }
}
