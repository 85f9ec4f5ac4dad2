/** Opening a plan, of one question or of several: what is read and audited is exactly the text that was hashed. */

import { PlanError } from "./errors.js";
import { canonicalJson, contractText, sha256 } from "./hash.js";
import { Plan } from "./plan.js";
import { Questionnaire } from "./questionnaire.js";
import { demand, each, meter, object, text } from "./read.js";
import { earlierQuestion, earlierWords, hashesOf } from "./series.js";

/** @typedef {import("./read.js").Meter} Meter */

const FORMAT = 1;

/**
 * The plan that a JSON text or object holds, if it is well-formed, unaltered and keeps its promise; else a PlanError.
 *
 * @param {unknown} json
 */
export async function openPlan(json) {
  const data = object(typeof json === "string" ? parse(json) : json, "the plan");
  return "questions" in data ? openQuestionnaire(data) : openSingle(data, meter());
}

/** A plan of one question. @param {Record<string, unknown>} data @param {Meter} spend */
async function openSingle(data, spend) {
  const stated = statedHash(data);
  const contract = contractText(data);
  const hash = await sha256(contract);
  demand(hash === stated, ALTERED);
  const told = JSON.parse(contract);
  return new Plan(await hashesOf(hash, told, earlierQuestion), told, spend, await storedHash(told));
}

/** SHA-256 of how reports are stored in two layers; null without. @param {any} contract not read yet */
async function storedHash({ groups }) {
  if (!Array.isArray(groups) || !groups.every((group) => group?.layers?.stored)) return null;
  return sha256(canonicalJson(groups.map(({ group, prior, layers }) => [group, prior, layers.stored])));
}

/**
 * A plan of several questions: each block holds a whole plan, which stands in the contract as its own hash.
 *
 * @param {Record<string, unknown>} data
 */
async function openQuestionnaire(data) {
  const stated = statedHash(data);
  const { hash: _, ...contract } = data;
  const spend = meter();
  const plans = [];
  const blocks = [];
  for (const block of each(data.blocks, "blocks", object)) {
    const plan = await openSingle(object(block.plan, "a block's plan"), spend);
    plans.push(plan);
    blocks.push({ ...block, plan: plan.hash });
  }
  const whole = canonicalJson({ ...contract, blocks });
  const hash = await sha256(whole);
  demand(hash === stated, ALTERED);
  const told = JSON.parse(whole);
  const hashes = await hashesOf(hash, told, (words, where) => earlierWords(told.questions, words, where));
  return new Questionnaire(hashes, told, plans);
}

/** @param {Record<string, unknown>} data */
function statedHash(data) {
  demand(data.tacit_plan === FORMAT, `Not a plan of format ${FORMAT}.`);
  return text(data.hash, "hash");
}

const ALTERED = "This plan was altered: its content does not match its hash.";

/** The JSON in a text. @param {string} json @returns {unknown} */
function parse(json) {
  try {
    return JSON.parse(json);
  } catch {
    throw new PlanError("This is not JSON.");
  }
}
