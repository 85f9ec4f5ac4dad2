/** The survey page: check the plan, ask, randomize here, show the report, send only that. */

import { openPlan, PlanError, remembered, respond, send, StorageError } from "/client/index.js";
import { choices } from "./choices.js";
import { numberField } from "./number.js";
import {
  ApiError,
  byId,
  capital,
  questionOf,
  request,
  requestJson,
  showOnly,
  surveyId,
  surveyUrl,
  tableRow,
} from "./common.js";

const MAX_CHANCES = 12;
const sections = ["loading", "stop", "ask", "report"].map(byId);
const id = surveyId();

/** End here, in words; `kind` names the reason for tests. */
function stop(kind, heading, text) {
  byId("stop").dataset.testid = kind;
  byId("stop-heading").textContent = heading;
  byId("stop-text").textContent = text;
  showOnly(byId("stop"), sections);
}

/** The invitation in the address, taken out of sight; the tab's history entry keeps it for a reload. */
function takeInvitation() {
  const found = new URLSearchParams(location.hash.slice(1)).get("invitation");
  if (found) history.replaceState({ invitation: found }, "", location.pathname + location.search);
  return found ?? history.state?.invitation ?? null;
}

/** The plan of this survey, verified: its integers, its hash, the survey's name for it and the address. */
async function verifiedPlan(survey) {
  const plan = await openPlan(await (await request(`${surveyUrl(id)}/plan`)).text());
  if (plan.hash !== survey.plan) throw new PlanError("the plan is not the one that the survey names");
  if (!plan.hash.startsWith(id)) throw new PlanError("the plan is not the one that the address names");
  return plan;
}

/** Take no part, for a reason. */
const refuse = (reason) => stop("refusal", "This survey is refused", `${capital(reason)}; nothing was sent.`);

/** Load, check, and show the right section. */
async function start() {
  const invitation = takeInvitation();
  if (!isSecureContext) return refuse("the page did not come by HTTPS and could have been altered on the way");
  try {
    const survey = await requestJson(surveyUrl(id));
    const plan = await verifiedPlan(survey);
    document.title = questionOf(plan);
    begin({ survey, plan, invitation });
  } catch (error) {
    fail(error);
  }
}

/** Show the report if there is one, else ask, if the survey allows it. */
function begin(visit) {
  const { survey, plan, invitation } = visit;
  const before = remembered(plan);
  if (before) showReport(visit, before, true);
  else if (!survey.open) stop("closed", "This survey is closed", "It takes no more reports. Nothing was sent.");
  else if (survey.invited && !invitation) {
    const hint = "Please open the link that you were given, with everything after the # sign.";
    stop("invitation", "This survey needs an invitation", hint);
  } else ask(visit);
}

/** Say why there is nothing to answer. */
function fail(error) {
  if (error instanceof PlanError) return refuse(error.message.replace(/\.$/, ""));
  const text = `${error.message} Nothing was sent.`;
  if (error instanceof StorageError) return stop("refusal", "This browser cannot take part", text);
  const missing = error instanceof ApiError && error.status === 404;
  stop("unavailable", missing ? "There is no survey here" : "This survey cannot be shown", text);
}

// -- asking ---------------------------------------------------------------------------------------------------------

/** Show the form; answering it leads to the report. */
function ask(visit) {
  const { survey, plan } = visit;
  const names = plan.groups.map((group) => group.name);
  const grouped = names[0] !== null;
  byId("plan-name").textContent = plan.hash.slice(0, 12);
  byId("question").textContent = questionOf(plan);
  const answer = askAnswer(plan, () => noteOutside(plan, group.value(), answer.value()));
  const group = grouped
    ? askGroup(survey, names, (name) => {
        showPromise(plan, name);
        noteOutside(plan, name, answer.value());
      })
    : { value: () => null };
  if (grouped) byId("promise").textContent = "Choose above what describes you: the promise in numbers depends on it.";
  else showPromise(plan, null);
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    if (grouped && group.value() === null) return complain("Choose what describes you first.", group);
    if (answer.value() === null) return complain(answer.missing?.() ?? "Choose an answer first.", answer);
    randomize(visit, group.value(), answer.value());
  });
  showOnly(byId("ask"), sections, { focus: false });
}

/** The question: one of the plan's values, or any number between them. */
function askAnswer(plan, changed) {
  const field = { id: "answer", label: questionOf(plan), changed };
  if (!plan.between) return choices(byId("answer-choices"), plan.values, field);
  const knots = new Intl.ListFormat("en-GB").format(plan.values);
  byId("promise-between").textContent =
    `A number in between is first rounded at random to one of its two neighbours among ${knots}; ` +
    `“near ${plan.values[0]}” means rounded to ${plan.values[0]}.`;
  return numberField(byId("answer-choices"), [plan.values[0], plan.values.at(-1)], field);
}

/** The public question about the group. */
function askGroup(survey, names, changed) {
  const label = survey.group_question || "Which of these describes you?";
  byId("group-question").textContent = label;
  byId("groups").hidden = false;
  return choices(byId("group-choices"), names, { id: "group", label, changed });
}

/** Say what is missing, and go there. */
function complain(text, field) {
  byId("ask-error").textContent = text;
  field.focus();
}

/** The promise to a group in the plan's own numbers. */
function showPromise(plan, group) {
  const beliefs = plan.beliefs(group);
  byId("promise").textContent = capital(plan.promise(group));
  byId("promise-set").textContent = plan.setSentence(group) ?? "";
  byId("belief-rows").replaceChildren(
    ...beliefs.map((row) => tableRow(plan.between ? `near ${row.value}` : row.value, [row.prior, row.high, row.low])),
  );
  const cut = plan.values.length - plan.outside(group).length - beliefs.length;
  byId("beliefs-note").textContent =
    cut > 0 ? `The ${beliefs.length} rarest answers; beliefs in the others move by no larger factor.` : "";
  byId("beliefs").hidden = false;
}

/** Remark on an answer that the promise does not cover. */
function noteOutside(plan, group, answer) {
  const known = plan.groups.some(({ name }) => name === group);
  const asked = known && answer !== null ? plan.neighbours(answer) : [];
  const outside = asked.find((value) => plan.outside(group).includes(value));
  byId("outside").hidden = outside === undefined;
  if (outside === undefined) return;
  const which = plan.between ? `An answer near ${outside}` : "This answer";
  byId("outside").textContent =
    `${which} is outside of the promise: the survey was planned as if nobody gave it. Nothing is promised about ` +
    (plan.exposed(group).includes(outside) ? "it, and a report can even give it away." : "it.");
}

/** Draw the report, forget the answer, show what would be sent. */
async function randomize(visit, group, value) {
  try {
    const report = await respond(visit.plan, { group, value });
    byId("answer-choices").replaceChildren();
    showReport(visit, report, false);
  } catch (error) {
    byId("ask-error").textContent = error.message;
  }
}

// -- the report -----------------------------------------------------------------------------------------------------

/** Show the remembered report and offer to send it. */
function showReport(visit, report, returning) {
  const { survey } = visit;
  byId("report-heading").textContent = returning
    ? "This device has already randomized its answer"
    : "This is your report";
  byId("report-lead").textContent = leadFor(survey, returning, report.sent);
  describe(visit, report);
  const button = byId("send");
  button.hidden = !survey.open;
  button.textContent = report.sent ? "Send it again" : "Send this report";
  button.addEventListener("click", () => deliver(visit, button));
  showOnly(byId("report"), sections);
}

/** What the person should know about the report's state. */
function leadFor(survey, returning, sent) {
  if (!survey.open && sent) return "Its report was sent. The survey is closed.";
  if (!survey.open) return "The survey is closed and takes no more reports; this one was not sent.";
  if (!returning) return "Read it, then send it. Nothing has been sent yet.";
  return sent
    ? "Its report was sent. There is no need to, but you can send it again: it is the same report, and it counts once."
    : "The report was not sent yet. A second visit draws no new one.";
}

/** The report in full, and what it means. */
function describe({ survey, plan }, { sent, ...body }) {
  byId("json-heading").textContent = sent ? "This is all that was sent" : "This is all that is sent";
  byId("json").textContent = JSON.stringify(body, null, 2);
  byId("group-fact").hidden = body.group === null;
  byId("credential-fact").hidden = !survey.invited;
  byId("meaning-heading").textContent = `What report ${body.report} means`;
  const guess = plan.meaning(body.group, body.report);
  byId("meaning").hidden = guess === null;
  if (guess === null) return;
  byId("guess").textContent =
    "It was drawn at random. Whoever sees it and knows nothing else still does best to guess " +
    (plan.between ? `a number near ${guess}.` : `“${guess}”.`);
  const chances = plan.values.map((value) => [value, plan.chance(body.group, value, body.report)]);
  if (chances.length > MAX_CHANCES) chances.sort((one, other) => parseFloat(other[1]) - parseFloat(one[1]));
  byId("chances").replaceChildren(...chances.slice(0, MAX_CHANCES).map(([value, chance]) => tableRow(value, [chance])));
  const notes = [];
  if (chances.length > MAX_CHANCES)
    notes.push(`The ${MAX_CHANCES} answers that send it most often, of ${chances.length}.`);
  if (plan.between) notes.push("An answer between two of these sends it with a chance between theirs.");
  byId("chances-note").textContent = notes.join(" ");
}

/** Send exactly what is shown; a failure leaves everything as it was. */
async function deliver(visit, button) {
  const { survey, plan, invitation } = visit;
  let posted = "";
  const watched = (url, options) => {
    posted = options.body;
    return fetch(url, options);
  };
  button.disabled = true;
  byId("send-error").textContent = "";
  byId("status").textContent = "Sending …";
  try {
    const { status } = await send(plan, surveyUrl(id), {
      fetch: watched,
      invitation,
      credentialKey: survey.credential_key,
    });
    byId("report-heading").textContent = "Thank you";
    byId("report-lead").textContent = "";
    byId("status").textContent =
      status === "counted" ? "Your report was counted." : "Your report was already counted. It counts once.";
    describe(visit, { ...JSON.parse(posted), sent: true });
    button.hidden = true;
    byId("report-heading").focus();
  } catch (error) {
    byId("status").textContent = "";
    byId("send-error").textContent = `The report was not taken: ${error.message} It is kept on this device.`;
  }
  button.disabled = false;
}

// A link with an invitation, pasted into the page that asked for one, does not load the page by itself.
addEventListener("hashchange", () => location.hash.startsWith("#invitation=") && location.reload());
start();
