/** Tacit in the browser: check a plan, randomize an answer, remember the report, send it. */

export { CredentialError, LimitError, PlanError, SendError, StorageError } from "./errors.js";
export { erase, remembered, respond, setLimit, told } from "./memory.js";
export { openPlan } from "./open.js";
export { send } from "./send.js";
