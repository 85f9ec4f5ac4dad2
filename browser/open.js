/** Opening a plan: what is read and audited is exactly the text that was hashed. */

import { PlanError } from "./errors.js";
import { canonicalJson, contractText, sha256 } from "./hash.js";
import { Plan } from "./plan.js";
import { demand, each, object, text } from "./read.js";
import { earlierWords, hashesOf } from "./series.js";

const FORMAT = 1;

/**
 * The plan that a JSON text or object holds, if it is well-formed, unaltered and keeps its promise; else a PlanError.
 *
 * @param {unknown} json
 */
export async function openPlan(json) {
  const data = object(typeof json === "string" ? parse(json) : json, "the plan");
  demand(data.tacit_plan === FORMAT, `Not a plan of format ${FORMAT}.`);
  const contract = contractText(data);
  const hash = await sha256(contract);
  demand(hash === text(data.hash, "hash"), "This plan was altered: its content does not match its hash.");
  const told = JSON.parse(contract);
  const questions = each(told.questions, "questions", object);
  const hashes = await hashesOf(hash, told, (words, where) => earlierWords(questions, words, where));
  return new Plan(hashes, told, await storedHash(told));
}

/** SHA-256 of how reports are stored in two layers; null without. @param {any} contract not read yet */
async function storedHash({ blocks: [{ groups }] }) {
  if (!groups.every((/** @type {any} */ group) => group.layers?.stored)) return null;
  return sha256(canonicalJson(groups.map((/** @type {any} */ { group, prior, layers }) => [group, prior, layers.stored])));
}

/** The JSON in a text. @param {string} json @returns {unknown} */
function parse(json) {
  try {
    return JSON.parse(json);
  } catch {
    throw new PlanError("This is not JSON.");
  }
}
