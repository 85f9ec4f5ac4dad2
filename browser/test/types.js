/** Checked by `npm run types`, never run: index.d.ts declares exactly what the modules hold. */

import { CredentialError, PlanError, SendError, StorageError } from "../errors.js";
import { remembered, respond } from "../memory.js";
import { openPlan } from "../open.js";
import { send } from "../send.js";

const held = { CredentialError, PlanError, SendError, StorageError, remembered, respond, openPlan, send };

/** @type {typeof import("../index.js")} */
export const declared = held;
