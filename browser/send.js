/** Sending: the remembered report and nothing else, as often as it takes, counted once because its key stays. */

import { blind, finalize } from "./credential.js";
import { SendError } from "./errors.js";
import { toHex } from "./hash.js";
import { amend, browserStorage, kept } from "./memory.js";

/** @typedef {import("./index.js").SendOptions} SendOptions */
/** @typedef {import("./index.js").PublicKey} PublicKey */
/** @typedef {import("./index.js").Plan} Plan */
/** @typedef {Required<Pick<SendOptions, "fetch" | "attempts" | "wait">> & {url: string}} Courier */

/** Statuses that may pass: timeouts, too early, too many, and the server's own trouble. */
const PASSING = new Set([408, 425, 429]);
const [FIRST_WAIT, LONGEST_WAIT, TIMEOUT] = [500, 30_000, 20_000];
/** At most this many characters of an unknown server's explanation are passed on. */
const MAX_DETAIL = 500;

/**
 * Post the remembered report to the survey at `surveyUrl` and mark it as sent; sending again posts the same body.
 *
 * With an invitation, its blind credential is fetched first. Returns the collector's word for what it did.
 *
 * @param {Plan} plan
 * @param {string} surveyUrl
 * @param {SendOptions} [options]
 * @returns {Promise<{status: "counted" | "already counted"}>}
 */
export async function send(plan, surveyUrl, options = {}) {
  const { invitation, credentialKey, attempts = 5, wait = pause } = options;
  const carry = options.fetch ?? ((...call) => fetch(...call));
  const courier = { url: surveyUrl.replace(/\/+$/, ""), fetch: carry, attempts, wait };
  const memory = { storage: options.storage ?? browserStorage(), person: options.person ?? "" };
  if (invitation && credentialKey) await fetchCredential(plan, memory, courier, invitation, credentialKey);
  const { key, group, block, report, public: told, credential } = await kept(plan, memory);
  const about = { ...(block !== undefined && { block }), report, ...(told && { public: told }) };
  const body = { key, group, ...about, ...(credential && { credential }) };
  const { status } = await post(courier, "reports", body, key);
  if (status !== "counted" && status !== "already counted") throw new SendError(STRANGE, 200);
  await amend(plan, memory, ({ sent }) => ({ sent: [...new Set([...sent, courier.url])] }));
  return { status };
}

/**
 * Get the remembered report's credential, unless it is there; what was blinded once is sent again, not blinded anew.
 *
 * @param {Plan} plan
 * @param {import("./index.js").Memory} memory
 * @param {Courier} courier
 * @param {string} invitation
 * @param {PublicKey} publicKey
 */
async function fetchCredential(plan, memory, courier, invitation, publicKey) {
  const { key, credential, pending } = await amend(plan, memory, async (memento) =>
    memento.credential || memento.pending ? {} : { pending: await blind(publicKey, memento.key) },
  );
  if (credential || !pending) return;
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(invitation));
  const route = toHex(new Uint8Array(digest, 0, 16));
  const answer = await post(courier, "credentials", { invitation, blinded: pending.blinded }, route);
  const signature = await finalize(publicKey, key, answer.blind_signature, pending);
  await amend(plan, memory, () => ({ credential: signature, pending: undefined }));
}

/**
 * The JSON that a POST returns, tried again while the trouble may pass.
 *
 * @param {Courier} courier
 * @param {string} path
 * @param {object} body
 * @param {string} route the same for the same submission, so that a balancer can bring it to the same shard
 * @returns {Promise<Record<string, unknown>>}
 */
async function post(courier, path, body, route) {
  for (let attempt = 1; ; attempt++) {
    const response = await request(courier, path, body, route);
    if (response?.ok) return json(response, new SendError(STRANGE, response.status));
    const passing = !response || PASSING.has(response.status) || response.status >= 500;
    if (!passing || attempt >= courier.attempts) throw await refusal(response);
    const asked = 1000 * Number(response?.headers.get("Retry-After") ?? 0) || 0;
    const backoff = FIRST_WAIT * 2 ** (attempt - 1) * (0.5 + Math.random());
    await courier.wait(Math.min(LONGEST_WAIT, Math.max(asked, backoff)));
  }
}

/**
 * The response to one POST, or null if none came.
 *
 * @param {Courier} courier
 * @param {string} path
 * @param {object} body
 * @param {string} route
 */
async function request(courier, path, body, route) {
  try {
    return await courier.fetch(`${courier.url}/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Tacit-Key": route },
      body: JSON.stringify(body),
      credentials: "omit",
      referrerPolicy: "no-referrer",
      cache: "no-store",
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT),
    });
  } catch {
    return null;
  }
}

/**
 * The JSON object in a response; the given error if there is none.
 *
 * @param {Response} response
 * @param {Error} error
 * @returns {Promise<Record<string, unknown>>}
 */
async function json(response, error) {
  const data = await response.json().catch(() => null);
  if (typeof data !== "object" || data === null) throw error;
  return data;
}

/** Why a report was not taken, from the collector's problem details. @param {Response | null} response */
async function refusal(response) {
  if (!response) return new SendError("The collector could not be reached. The report is kept; try again later.");
  const plain = new SendError(`The collector refused with status ${response.status}.`, response.status);
  const { detail, title } = await json(response, plain).catch(() => /** @type {Record<string, unknown>} */ ({}));
  const told = detail ?? title;
  return typeof told === "string" ? new SendError(told.slice(0, MAX_DETAIL), response.status) : plain;
}

const STRANGE = "Something answered that is not the collector. The report is kept; try again later.";

/** @param {number} milliseconds */
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
