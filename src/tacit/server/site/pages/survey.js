/** The survey page: check the plan, ask, randomize here, show the report, send only that. */

import { LimitError, openPlan, PlanError, remembered, respond, StorageError, told } from "../client/index.js";
import { showTexts, textsIn } from "./about.js";
import { choices } from "./choices.js";
import { ApiError, byId, make, request, requestJson, showOnly, surveyId, surveyUrl, tableRow } from "./common.js";
import { answerName, inLanguage, LANGUAGES, list, local, numberName, quotedAnswer, say, speak, speakSomething, write } from "./language.js";
import { isWhole, memoryOf, takeInvitation } from "./invitation.js";
import { binnedField, numberField } from "./number.js";
import { askRecord, beliefRows, betweenNote, outsideRecord, recordPromise } from "./record.js";
import { showReport } from "./report.js";
import { showTold } from "./told.js";

/** Longer tables are cut, for phones. */
const MAX_BELIEFS = 12;
/** Stands between the parts of a crossed group's name. */
const CROSSED = " / ";
const sections = ["loading", "stop", "ask", "report"].map(byId);
const id = surveyId();
/** Shows the same again, in another language. */
let again = () => {};

/** End here, in words; `kind` names the reason for tests, `detail` is what the program says, in English. */
function stop(kind, heading, text, detail = "", values = {}) {
  again = () => stop(kind, heading, text, detail, values);
  byId("stop").dataset.testid = kind;
  byId("stop-heading").textContent = say(heading);
  byId("stop-text").textContent = say(text, values);
  byId("stop-detail").textContent = detail && say("detail", { detail });
  showOnly(byId("stop"), sections);
}

/** The plan of this survey, verified: its integers, its hash, the survey's name for it and the address. */
async function verifiedPlan(survey) {
  const mine = byId("plan")?.textContent;
  const plan = await openPlan(mine ?? (await (await request(`${surveyUrl(id)}/plan`)).text()));
  if (plan.hash !== survey.plan) throw new PlanError("the plan is not the one that the survey names.");
  if (!plan.hash.startsWith(id.split("-")[0])) throw new PlanError("the plan is not the one that the address names.");
  return plan;
}

/** Load, check, and show the right section. */
async function start() {
  const invitation = takeInvitation();
  try {
    const [survey, texts] = await Promise.all([requestJson(surveyUrl(id)), requestJson(`${surveyUrl(id)}/texts`)]);
    await speak(texts.language);
    byId("loading").textContent = say("loading");
    showTexts(texts);
    if (!isSecureContext) return stop("refusal", "refused", "refused_insecure");
    const plan = await verifiedPlan(survey);
    document.title = plan.heading || say("untitled");
    const memory = await memoryOf(survey.invited ? invitation : null);
    const visit = { id, survey, texts: textsIn(texts, texts.language), plan, invitation, memory };
    offerLanguages(visit, texts);
    await begin(visit);
  } catch (error) {
    fail(error);
  }
}

/** A switch, if there are several languages: the team's, and those in which the plan has all questions. */
function offerLanguages(visit, texts) {
  const inPlan = Object.keys(LANGUAGES).filter((code) => visit.plan.questions.every(({ text }) => code in text));
  const codes = [...new Set([texts.language, ...Object.keys(texts.translations ?? {}), ...inPlan])];
  const buttons = codes.map((code) => make("button", { type: "button", lang: code, "data-testid": `language-${code}` }, LANGUAGES[code]));
  const mark = (chosen) => buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.lang === chosen)));
  mark(texts.language);
  for (const [place, code] of codes.entries())
    buttons[place].onclick = async () => {
      const given = keptFields();
      await speak(code);
      mark(code);
      visit.texts = textsIn(texts, code);
      showTexts(visit.texts);
      again();
      given();
      buttons[place].focus();
    };
  byId("languages").replaceChildren(...buttons);
  byId("languages").hidden = codes.length < 2;
}

/** What was answered so far; calling the result fills it in again. Long lists are chosen from again. */
function keptFields() {
  const fields = () => [...document.querySelectorAll("#ask input")];
  const before = new Map(fields().map((field) => [field.dataset.testid, [field.checked, field.value]]));
  return () => {
    for (const field of fields()) {
      const [checked, value] = before.get(field.dataset.testid) ?? [];
      if (field.type === "number" && value) {
        field.value = value;
        field.dispatchEvent(new Event("input"));
      } else if (checked) {
        field.checked = true;
        field.dispatchEvent(new Event("change"));
      }
    }
  };
}

/** Show the report if there is one, else ask, if the survey allows it. */
async function begin(visit) {
  const { survey, plan, invitation, memory } = visit;
  const before = await remembered(plan, memory);
  if (before) show(visit, { ...before, fresh: null });
  else if (!survey.open) stop("closed", "closed", "closed_text");
  else if (survey.invited && !invitation) stop("invitation", "invitation", "invitation_text");
  else if (survey.invited && !isWhole(invitation)) stop("invitation", "cut", "invitation_text");
  else {
    const soFar = await told(memory, plan);
    if (soFar.refusal) return refuse(soFar.refusal);
    // The same object, in which a switch of the language changes the texts.
    visit.soFar = soFar;
    ask(visit);
  }
}

/** Say why no report is drawn: a second one of this wave, or more than a limit allows. */
function refuse({ reason, factors, message }) {
  const heading = { wave: "again", persons: "persons" }[reason] ?? "limit";
  const text = { wave: "again_text", plan: "limit_plan", browser: "limit_browser", persons: "persons_text" }[reason];
  stop("limit", heading, text, message, factors ?? {});
  byId("told").open = true;
}

/** What a panel means for this person: what earlier reports change, what is stored, and what is sent of both. */
function panelText({ rule, resend }, group, { belief }) {
  if (rule === "belief") return group === null ? say("panel_new") : say("panel_belief", { group });
  return rule === "layers" ? say("panel_layers", { share: local(resend), belief: local(belief) }) : "";
}

/** What all reports of this browser would add up to with this one, and whether somebody answered here before. */
function tellSum(plan, { answered, alone, after, another, group }) {
  const panel = panelText(plan, group, alone);
  byId("panel").hidden = !panel;
  write(byId("panel"), panel);
  byId("wave").hidden = plan.wave === 1;
  byId("wave").textContent = say("wave", { wave: plan.wave });
  byId("so-far").hidden = !answered.length;
  const sum = say("so_far", { count: answered.length + 1, belief: local(after.belief) });
  byId("so-far").textContent = another ? `${say("another_invitation")} ${sum}` : sum;
}

/** Show the report in place of everything else. */
function show(visit, report) {
  again = () => show(visit, report);
  showReport(visit, report);
  showOnly(byId("report"), sections);
}

/** Say why there is nothing to answer. */
async function fail(error) {
  await speakSomething();
  if (error instanceof PlanError) return stop("refusal", "refused", "refused_plan", error.message);
  if (error instanceof StorageError) {
    byId("told").open = true;
    return stop("refusal", "no_storage", "no_storage_text", error.message);
  }
  if (error instanceof ApiError && error.status === 404) return stop("unavailable", "no_survey", "no_survey_text");
  stop("unavailable", "unavailable", "unavailable_text", error.message);
}

// -- asking ---------------------------------------------------------------------------------------------------------

/** Show the form; answering it leads to the report. */
function ask(visit) {
  again = () => ask(visit);
  const { survey, texts, plan, soFar } = visit;
  // By the belief rule earlier reports say the group, or there is one for all who have none.
  const first = plan.firstGroups;
  const fixed = soFar.group ?? (first.length === 1 ? first[0] : null);
  const grouped = plan.groups[0].name !== null && fixed === null;
  write(byId("checked"), say("checked", { plan: plan.hash.slice(0, 12) }));
  byId("once").hidden = !survey.invited;
  byId("question").textContent = document.title;
  byId("consent").hidden = !texts.consent;
  byId("consent-text").textContent = texts.consent ?? "";
  const several = plan.questions.length > 1;
  byId("one-question").hidden = several;
  const open = plan.questions.some((question) => question.public);
  if (several) byId("lead").textContent = [say("lead_record"), ...(open ? [say("lead_public")] : [])].join(" ");
  let group = { value: () => fixed };
  let answer = null;
  answer = (several ? askSeveral : askAnswer)(plan, () => {
    byId("ask-error").textContent = "";
    if (answer) noteOutside(plan, group.value(), answer.value());
  }, texts);
  if (grouped)
    group = askGroup(texts.group_question || survey.group_question, plan, first, (name) => {
      showPromise(plan, name);
      noteOutside(plan, name, answer.value());
    });
  if (grouped) byId("promise").textContent = say("promise_group_first");
  else showPromise(plan, fixed);
  tellSum(plan, soFar);
  byId("ask").onsubmit = (event) => {
    event.preventDefault();
    // Enter on a question of several steps goes on to the next.
    if (answer.next?.()) return;
    if (answer.value() === null) return complain(answer.missing?.() ?? say("choose_answer"), answer);
    if (grouped && group.value() === null) return complain(group.missing?.() ?? say("choose_group"), group);
    if (texts.consent && !byId("agreed").checked) return complain(say("agree_first"), byId("agreed"));
    randomize(visit, group.value(), answer.value());
  };
  showOnly(byId("ask"), sections, { focus: false });
}

/** All questions of a plan; where the team wants it so, one after the other on a phone. */
function askSeveral(plan, changed, { layout }) {
  const inSteps = layout === "steps" && matchMedia("(max-width: 40rem)").matches;
  return askRecord(byId("questions"), plan, changed, inSteps);
}

/** The question: one of the plan's values, or any number between them. */
function askAnswer(plan, changed) {
  const [question] = plan.questions;
  const field = { id: "answer", label: document.title, shown: (value) => answerName(question, value), changed };
  const room = byId("answer-choices");
  const column = plan.recoding?.answers[0];
  const asked = isNumber(plan) ? askNumber(room, question, field) : column?.edges.length ? askBins(room, question, column, field) : choices(room, question.answers, field);
  const value = () => (asked.value() === null ? null : { [question.name]: asked.value() });
  return { ...asked, value, focus: () => asked.focus(), ...(asked.missing && { missing: () => asked.missing() }) };
}

/** Whether any number in a range is the answer to the only question. */
const isNumber = ({ questions }) => questions.length === 1 && questions[0].kind === "number";

/** A number between two of the plan's. */
function askNumber(room, { answers }, field) {
  const knots = answers.map(numberName);
  byId("promise-between").textContent = say("between", { knots: list(knots), first: knots[0] });
  return numberField(room, [answers[0], answers.at(-1)], field);
}

/** A number that becomes one of the plan's values on this device. */
function askBins(room, { answers, numeric }, column, field) {
  const asked = binnedField(room, column, { ...field, changed: () => field.changed() });
  const value = () => {
    const name = asked.value();
    return answers.find((each) => each === name || (name !== null && numeric && Number(each) === Number(name))) ?? null;
  };
  return { ...asked, value };
}

/** The question about a recoded column, in the language of the page if it has several; its name where there is none. */
const askedOf = ({ column, text }) => (typeof text === "object" ? text && inLanguage(text) : text) ?? column;

/** The public question about the group; one for each column where groups are crossed, a number where it is in bins. */
function askGroup(question, plan, names, changed) {
  const columns = plan.recoding?.groups ?? [];
  const label = question || say("group_default");
  byId("group-question").textContent = label;
  byId("groups").hidden = false;
  const parts = names.map((name) => (columns.length > 1 ? name.split(CROSSED) : [name]));
  // The arm of a person is no question.
  const alike = columns.length > 0 && parts.every((each) => each.length === columns.length);
  if (!alike) return choices(byId("group-choices"), names, { id: "group", label, changed });
  const rooms = columns.map(() => make("div", {}));
  const value = () => names.find((name) => name === fields.map((field) => field.value()).join(CROSSED)) ?? null;
  const fields = columns.map((column, place) => {
    const told = columns.length > 1 || column.text ? askedOf(column) : label;
    const options = { id: columns.length > 1 ? `group-${place}` : "group", label: told, changed: () => changed(value()) };
    if (column.edges.length) return binnedField(rooms[place], column, options);
    return choices(rooms[place], [...new Set(parts.map((each) => each[place]))], options);
  });
  const legend = (column) => make("legend", { dir: "auto" }, askedOf(column));
  const several = columns.map((column, place) => make("fieldset", {}, legend(column), rooms[place]));
  if (columns.length === 1 && columns[0].text) byId("group-question").textContent = askedOf(columns[0]);
  byId("group-choices").replaceChildren(...(columns.length > 1 ? [make("div", { className: "stack" }, ...several)] : rooms));
  const lacking = () => fields.find((field) => field.value() === null);
  return {
    value,
    missing: () => (lacking() ? (lacking().missing?.() ?? say("choose_group")) : say("group_none")),
    focus: () => (lacking() ?? fields[0]).focus(),
  };
}

/** Say what is missing, and go there. */
function complain(text, field) {
  byId("ask-error").textContent = text;
  field.focus();
}

/** The promise to a group in the plan's own numbers; while there is none of that name, the one before stays. */
function showPromise(plan, group) {
  if (!plan.groups.some(({ name }) => name === group)) return;
  if (plan.questions.length > 1) return showRecordPromise(plan, group);
  const { odds, oddsOnly, rarest } = plan.promiseParts(group);
  const name = quotedAnswer(plan.questions[0], rarest.value);
  const { prior, low, high } = rarest;
  const numbers = Object.fromEntries(Object.entries({ prior, low, high, odds }).map(([key, number]) => [key, local(number)]));
  byId("promise").textContent = say(oddsOnly ? "promise_odds" : "promise", { ...numbers, name: isNumber(plan) ? say("near", { name }) : name });
  byId("promise-set").textContent = plan.setParts(group).map(setSentence).join(" ");
  fillBeliefs(plan, group);
}

/** The same about a whole record of answers. */
function showRecordPromise(plan, group) {
  byId("promise").textContent = recordPromise(plan, group);
  byId("promise-set").textContent = plan.setParts(group).map(setSentence).join(" ");
  byId("promise-between").textContent = betweenNote(plan);
  byId("belief-rows").replaceChildren(...beliefRows(plan, group));
  byId("beliefs").hidden = false;
}

/** For whom the promise holds, where that is a set of priors. */
function setSentence(parts) {
  const key = parts.kind === "distance" && parts.size === "1" ? "set_distance_one" : `set_${parts.kind}`;
  return say(key, { bound: local(parts.bound), size: local(parts.size) });
}

/** How far a report moves beliefs: the rarest answers, for which it matters most. */
function fillBeliefs(plan, group) {
  const all = plan.beliefs(group);
  const rarest = all.length > MAX_BELIEFS ? all.toSorted((a, b) => parseFloat(a.prior) - parseFloat(b.prior)) : all;
  const rows = rarest.slice(0, MAX_BELIEFS).map(({ value, prior, high, low }) => {
    const name = answerName(plan.questions[0], value);
    return tableRow(isNumber(plan) ? say("near", { name }) : name, [prior, high, low].map(local));
  });
  byId("belief-rows").replaceChildren(...rows);
  // Of many reports the beliefs are those of the rarest answers already.
  const many = plan.groups.find(({ name }) => name === group).nPossibleReports === null;
  const cut = Math.max(all.length, many ? plan.questions[0].answers.length : 0) > rows.length;
  byId("beliefs-note").textContent = cut ? say("beliefs_cut", { count: rows.length }) : "";
  byId("beliefs").hidden = false;
}

/** Remark on an answer that the promise does not cover. */
function noteOutside(plan, group, answer) {
  const known = plan.groups.some(({ name }) => name === group);
  const said = known && answer !== null ? outsideRecord(plan, group, answer) : "";
  byId("outside").hidden = !said;
  byId("outside").textContent = said;
}

/** Draw the report, forget the answer, show what would be sent. */
async function randomize(visit, group, answers) {
  const button = byId("randomize");
  // A second click while the first is at work must draw and show nothing.
  if (button.disabled) return;
  button.disabled = true;
  byId("ask-error").textContent = "";
  try {
    const report = await respond(visit.plan, { group, answers }, visit.memory);
    byId("answer-choices").replaceChildren();
    // A number that became a group is more than is sent.
    byId("group-choices").replaceChildren();
    byId("questions").replaceChildren();
    show(visit, report);
  } catch (error) {
    if (error instanceof LimitError) return refuse(error);
    byId("ask-error").textContent = error instanceof StorageError ? say("no_storage_text") : error.message;
    button.disabled = false;
  }
}

byId("told").ontoggle = () => byId("told").open && showTold(byId("told-here"));
if (location.hash === "#told") byId("told").open = true;
// A link with an invitation, pasted into the page that asked for one, does not load the page by itself.
addEventListener("hashchange", () => location.hash.startsWith("#invitation=") && location.reload());
start();
