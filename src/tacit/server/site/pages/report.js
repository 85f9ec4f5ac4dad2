/** The report on the survey page: what it is, what it means, and sending it. */

import { CredentialError, send, SendError } from "../client/index.js";
import { byId, make, requestJson, surveyUrl, tableRow } from "./common.js";
import { isSpent, markSpent } from "./invitation.js";
import { answerName, local, say, write } from "./language.js";
import { describeRecord, wordings } from "./record.js";

const MAX_CHANCES = 12;
/** Reports from here on are said to be codes. */
const LONG = 10_000;
/** A double click on the button before this one must not send. */
const SINGLE_CLICK = 1;

/** Fill in the remembered report and offer to send it; `fresh` is null for somebody who comes back. */
export function showReport(visit, { fresh, ...report }) {
  const { survey } = visit;
  byId("report-heading").textContent = say(fresh ? "report_fresh" : "report_known");
  const where = counted(visit, report.sent);
  byId("report-lead").textContent = say(lead(survey, fresh, where));
  describe(visit, { ...report, sent: report.sent.length > 0 });
  const button = byId("send");
  button.textContent = say(where === "here" ? "send_again" : "send");
  button.hidden = !survey.open || where === "earlier";
  if (survey.open && isSpent(visit.memory) && where === null) giveUp("spent");
  button.onclick = (event) => event.detail <= SINGLE_CLICK && deliver(visit, button);
}

/** Where the report was counted: here, before the words were corrected, at another place, or nowhere (null). */
function counted({ id, plan }, sent) {
  if (sent.includes(surveyUrl(id))) return "here";
  const earlier = plan.hashes.slice(0, -1).map((hash) => hash.slice(0, 16));
  if (sent.some((each) => earlier.includes(each.split("/").at(-1).split("-")[0]))) return "earlier";
  return sent.length ? "elsewhere" : null;
}

/** What the person should know about the report's state. */
function lead(survey, fresh, where) {
  if (where === "earlier") return "lead_reworded";
  if (fresh === false) return "lead_not_yours";
  if (!survey.open) return where === "here" ? "lead_closed_sent" : "lead_closed_unsent";
  if (fresh) return "lead_fresh";
  return { here: "lead_sent", elsewhere: "lead_elsewhere" }[where] ?? "lead_unsent";
}

/** The report in full, and what it means. */
function describe({ survey, plan }, { sent, ...body }) {
  byId("json-heading").textContent = say(sent ? "all_sent" : "all_to_send");
  byId("json").textContent = JSON.stringify(body, null, 2);
  byId("group-fact").hidden = body.group === null;
  write(byId("group-fact"), say(plan.rule === "belief" ? "fact_followed" : "fact_group"));
  byId("kept-layers").hidden = plan.rule !== "layers";
  byId("code-fact").hidden = body.report < LONG;
  byId("credential-fact").hidden = !survey.invited;
  byId("block-fact").hidden = plan.questions.length === 1;
  byId("public-fact").hidden = !body.public;
  if (plan.questions.length > 1) {
    write(byId("block-fact"), say("fact_block", { questions: wordings(plan, plan.blocks[body.block - 1].questions) }));
    return describeRecord(plan, body);
  }
  byId("meaning-heading").textContent = body.report < LONG ? say("meaning", { report: body.report }) : say("meaning_record");
  const [question] = plan.questions;
  const guess = plan.guess(body.group, body.report);
  byId("meaning").hidden = guess === null;
  if (guess === null) return;
  byId("guess").textContent = say(question.kind === "number" ? "guess_near" : "guess", { name: answerName(question, guess) });
  const heads = ["chance_answer", "chance"].map((key) => make("th", { scope: "col" }, say(key)));
  byId("chance-head").replaceChildren(...heads);
  const chances = question.answers.map((value) => [value, plan.chance(body.group, value, body.report)]);
  if (chances.length > MAX_CHANCES) chances.sort((one, other) => parseFloat(other[1]) - parseFloat(one[1]));
  const rows = chances.slice(0, MAX_CHANCES).map(([value, chance]) => tableRow(answerName(question, value), [local(chance)]));
  byId("chances").replaceChildren(...rows);
  const notes = [];
  if (chances.length > MAX_CHANCES) notes.push(say("chances_cut", { shown: MAX_CHANCES, count: chances.length }));
  if (question.kind === "number") notes.push(say("chances_between"));
  byId("chances-note").textContent = notes.join(" ");
}

/** Send exactly what is shown; a failure leaves everything as it was. */
async function deliver(visit, button) {
  const { id, survey, plan, invitation, memory } = visit;
  let posted = "";
  const watched = (url, options) => {
    posted = options.body;
    return fetch(url, options);
  };
  const label = button.textContent;
  button.disabled = true;
  button.textContent = say("sending");
  byId("send-error").textContent = byId("send-detail").textContent = "";
  try {
    const options = { ...memory, fetch: watched, invitation, credentialKey: survey.credential_key };
    const { status } = await send(plan, surveyUrl(id), options);
    byId("report-heading").textContent = say("thanks");
    byId("report-lead").textContent = "";
    byId("status").textContent = say(status === "counted" ? "counted" : "already_counted");
    describe(visit, { ...JSON.parse(posted), sent: true });
    button.hidden = true;
    byId("report-heading").focus();
  } catch (error) {
    button.textContent = label;
    await explain(visit, error);
  }
  button.disabled = false;
}

/** Why the report was not taken, and whether trying again makes sense. */
async function explain({ id, invitation, memory }, error) {
  const status = error instanceof SendError ? error.status : -1;
  if (status === 403 && invitation) return giveUp("not_invited");
  if (status === 409) {
    const { open } = await requestJson(surveyUrl(id)).catch(() => ({ open: true }));
    if (open) markSpent(memory);
    return giveUp(open ? "spent" : "closed_meanwhile");
  }
  const reason = { 0: "unreachable", 429: "busy", 503: "busy" }[status];
  byId("send-error").textContent = [say("not_taken"), reason && say(reason)].filter(Boolean).join(" ");
  const told = reason || !(error instanceof SendError || error instanceof CredentialError) ? "" : error.message;
  byId("send-detail").textContent = told && say("detail", { detail: told });
}

/** Offer nothing that cannot work. */
function giveUp(reason) {
  byId("send").hidden = true;
  byId("send-error").textContent = say(reason);
}
