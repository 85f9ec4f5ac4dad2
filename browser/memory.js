/**
 * What the browser remembers: one report per wave of a plan, so that asking again re-sends it instead of drawing afresh.
 *
 * The answer is never stored. Without a working storage nothing is drawn: the promise is about one report.
 */

import { StorageError } from "./errors.js";
import { toHex } from "./hash.js";
import { randomBytes } from "./words.js";

/** @typedef {import("./index.js").Memory} Memory */
/** @typedef {import("./index.js").Store} Store */
/** @typedef {import("./index.js").AnyPlan} Plan */
/**
 * @typedef {object} Memento what is stored: the report as it is sent, and an invitation's credential in the making
 * @property {string} key
 * @property {string | null} group
 * @property {number} [block] from 1, in plans of several questions
 * @property {number} report
 * @property {Readonly<Record<string, string>>} [public] answers to public questions, which are sent as they are
 * @property {boolean} sent
 * @property {string} [credential]
 * @property {import("./credential.js").Pending} [pending]
 */

/** Processes of one browser exchange what they store a moment later; the lock is held for this many milliseconds. */
const SETTLE = 50;

/**
 * The remembered report of this plan, drawn now if there is none: later calls return the same report. `fresh` tells
 * whether it was drawn by this call.
 *
 * @param {Plan} plan
 * @param {any} answer what the plan's `draw` takes
 * @param {Memory & {words?: import("./index.js").RandomWords}} [options]
 */
export async function respond(plan, answer, { storage = browserStorage(), words } = {}) {
  return exclusively(plan, async (settle) => {
    const known = remembered(plan, { storage });
    if (known) return { ...known, fresh: false };
    const drawn = plan.draw(answer, words);
    const key = toHex(randomBytes(16));
    write(plan, storage, { key, ...drawn, sent: false });
    await settle();
    // Another tab without locks may have written meanwhile: what is stored is what counts.
    const kept = remembered(plan, { storage });
    if (!kept) throw new StorageError(UNABLE);
    return { ...kept, fresh: kept.key === key };
  });
}

/** The report that was drawn for this plan in this browser, or null. @param {Plan} plan @param {Memory} [options] */
export function remembered(plan, { storage = browserStorage() } = {}) {
  const memento = recall(plan, storage);
  if (!memento) return null;
  const { key, group, block, report, public: told, sent } = memento;
  return { key, group, ...(block !== undefined && { block }), report, ...(told && { public: told }), sent };
}

/**
 * Everything stored about this plan, or null; refuses what this plan cannot have stored.
 *
 * @param {Plan} plan
 * @param {Store} storage
 * @returns {Memento | null}
 */
function recall(plan, storage) {
  const stored = attempt(() => storage.getItem(place(plan)));
  if (stored === null || stored === undefined) return null;
  try {
    const data = JSON.parse(stored);
    const formed = /^[0-9a-f]{32}$/.test(data.key) && typeof data.sent === "boolean";
    const sound = formed && plan.canSend(data.group, data.report, data.block, data.public);
    if (sound) return data;
  } catch {
    // Refused below, like any other damage.
  }
  throw new StorageError("What this browser remembers about this survey is damaged, so it cannot be sent again.");
}

/** Everything stored about this plan; there must be something. @param {Plan} plan @param {Store} storage */
export function kept(plan, storage) {
  const memento = recall(plan, storage);
  if (!memento) throw new StorageError("There is no report to send: draw one with respond first.");
  return memento;
}

/**
 * Change what is remembered, once no other tab does.
 *
 * @param {Plan} plan
 * @param {Store} storage
 * @param {(memento: Memento) => Partial<Memento> | Promise<Partial<Memento>>} change
 */
export async function amend(plan, storage, change) {
  return exclusively(plan, async () => {
    const memento = kept(plan, storage);
    const changed = { ...memento, ...(await change(memento)) };
    write(plan, storage, changed);
    return changed;
  });
}

/** Store what is to be remembered. @param {Plan} plan @param {Store} storage @param {Memento} memento */
function write(plan, storage, memento) {
  attempt(() => storage.setItem(place(plan), JSON.stringify(memento)));
}

/**
 * Run a task while no other tab runs one for this plan, where the browser has locks.
 *
 * @template T
 * @param {Plan} plan
 * @param {(settle: () => Promise<void>) => Promise<T>} task
 * @returns {Promise<T>}
 */
async function exclusively(plan, task) {
  const locks = globalThis.navigator?.locks;
  if (!locks) return task(async () => {});
  const settle = () => new Promise((/** @type {(nothing: void) => void} */ resolve) => setTimeout(resolve, SETTLE));
  return /** @type {Promise<T>} */ (/** @type {unknown} */ (locks.request(place(plan), () => task(settle))));
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

/** The same for all wordings of one wave, another for every wave. @param {Plan} plan */
const place = (plan) => `tacit:${plan.hashes[0]}`;

/** What a call to the storage returns; a StorageError if it throws. @template T @param {() => T} call @returns {T} */
function attempt(call) {
  try {
    return call();
  } catch (error) {
    throw new StorageError(UNABLE, { cause: error });
  }
}
