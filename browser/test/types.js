/** Checked by `npm run types`, never run: index.d.ts declares exactly what the modules hold. */

import { CredentialError, LimitError, PlanError, SendError, StorageError } from "../errors.js";
import { erase, remembered, respond, setLimit, told } from "../memory.js";
import { openPlan } from "../open.js";
import { send } from "../send.js";

const errors = { CredentialError, LimitError, PlanError, SendError, StorageError };
const held = { ...errors, erase, remembered, respond, setLimit, told, openPlan, send };

/** @type {typeof import("../index.js")} */
export const declared = held;
