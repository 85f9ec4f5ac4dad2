/** Tacit in the browser: check a plan, randomize an answer, remember the report, send it. */

export { CredentialError, PlanError, SendError, StorageError } from "./errors.js";
export { remembered, respond } from "./memory.js";
export { openPlan } from "./open.js";
export { send } from "./send.js";
