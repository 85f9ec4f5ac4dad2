/** The dashboard: fetches the results of one survey again and again, and shows them. */

import { fillBoard, fillCharts } from "./board.js";
import { askedBy, askedQuestion, fillBreakdown, fillBreakdownCharts, oneGroup } from "./breakdown.js";
import { chartsPicture } from "./charts.js";
import {
  ApiError,
  byId,
  copy,
  download,
  questionOf,
  request,
  requestJson,
  showOnly,
  surveyId,
  surveyPage,
  surveyUrl,
  token,
} from "./common.js";
import { say, speak, speakSomething } from "./language.js";
import { panels } from "./several.js";

const EVERY = 3000;
/** Rows of a large domain that are shown: a phone has no room for fifty. */
const LIMIT = matchMedia("(max-width: 40rem)").matches ? 15 : 50;
const MAX_LIMIT = 100_000;
const sections = ["loading", "stop", "signin", "board"].map(byId);
const id = surveyId();
const page = surveyPage(id);

let survey = null;
let results = null;
/** Puts results into the survey's first language. */
let worded = null;
let shown = "";
let estimator = "";
let timer = 0;

/** The address of the results or of a part of them, for the chosen estimator. */
function resultsUrl(part, query = {}) {
  const asked = new URLSearchParams({ ...(estimator && { estimator }), ...query });
  return `${surveyUrl(id)}/results${part}?${asked}`;
}

/** A part of the results, for the team. */
const askTeam = (part, query) => requestJson(resultsUrl(part, query), { team: true });

/** Fetch and show, then again after a while; a newer call replaces an older one. */
async function refresh() {
  clearTimeout(timer);
  const asked = estimator;
  const text = await fetchResults();
  if (text === null || asked !== estimator) return;
  if (text) await show(text);
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(refresh, EVERY);
}

/** The results as text; "" if they did not come but may later, null if they never will. */
async function fetchResults() {
  try {
    survey ??= await requestJson(surveyUrl(id));
    worded ??= await inFirstLanguage();
    if (!survey.public_results && !token.get()) throw new ApiError(401, say("board_token_needed"));
    const response = await request(resultsUrl("", { limit: LIMIT }), { team: true });
    const text = await response.text();
    byId("trouble").textContent = "";
    return text;
  } catch (error) {
    return failed(error) ? "" : null;
  }
}

/** Use the survey's first language; returns what writes questions and answers in it, as far as the plan has them. */
async function inFirstLanguage() {
  const { language } = await requestJson(`${surveyUrl(id)}/texts`);
  await speak(language);
  const { questions = [] } = language === "en" ? {} : await requestJson(`${surveyUrl(id)}/plan`);
  const said = new Map(questions.map((question) => [question.name, question]));
  return (found) => {
    for (const question of [...found.questions, ...found.public]) {
      const { text = {}, labels = {}, answers = [] } = said.get(question.name) ?? {};
      question.lang = text[language] && language;
      question.text = text[language] ?? question.text;
      // Answers of a question that is worded in this language but not labelled are in this language.
      const named = labels[language] ?? (text[language] && labels.en && answers.map(String));
      if (named && question.labels) question.labels = Object.fromEntries(answers.map((answer, k) => [answer, named[k]]));
      // Public answers come in the order of the plan, by their English labels.
      else if (named) question.rows.forEach((row, k) => (row.name = named[k]));
    }
    return found;
  };
}

/** Show the results, if they differ from those on the page. */
async function show(text) {
  const signedIn = !byId("signin").hidden;
  showOnly(byId("board"), sections, { focus: false });
  if (text !== shown) {
    shown = text;
    results = worded(JSON.parse(text));
    survey.open = results.open;
    fillBoard(results, survey, { asked: estimator });
    if (token.get()) await details();
  }
  if (signedIn) byId("question").focus();
}

/** Fill in what only the team sees: groups and time. */
async function details() {
  try {
    await fillBreakdown(results, askTeam);
    const part = await oneGroup(results, askTeam, LIMIT);
    if (part) fillBoard({ ...results, ...part }, survey, { part: true, asked: estimator });
  } catch (error) {
    byId("trouble").textContent = error.message;
  }
}

/** Say what went wrong; true if trying again makes sense. */
function failed(error) {
  if (error.status === 401) {
    signIn(token.get() ? say("board_token_wrong") : "");
    return false;
  }
  if (results) {
    byId("trouble").textContent = say("board_trouble", { detail: error.message });
    return true;
  }
  byId("stop-text").textContent = error.message;
  showOnly(byId("stop"), sections);
  return !(error.status >= 400 && error.status < 500);
}

/** Ask for the token. */
function signIn(complaint) {
  token.clear();
  showOnly(byId("signin"), sections, { focus: false });
  byId("signin-error").textContent = complaint;
  byId("token").focus();
}

/** Hand out what is shown, with all rows. */
async function save(format) {
  const name = `tacit-${id}-${results.estimator}.${format}`;
  byId("download-error").textContent = "";
  try {
    const url = {
      csv: () => resultsUrl(".csv"),
      "groups.csv": () => resultsUrl("/groups.csv", { ...askedQuestion(results), ...askedBy() }),
      "trend.csv": () => resultsUrl("/trend.csv", { by: byId("step").value, ...askedQuestion(results) }),
      json: () => resultsUrl("", { limit: Math.min(MAX_LIMIT, Math.max(1, results.n_rows)) }),
    }[format]?.();
    if (format === "png") return download(await chartsPicture(results, questionOf(results), panels(results)), name);
    download(await (await request(url, { team: true })).blob(), name);
  } catch (error) {
    byId("download-error").textContent = error.message;
  }
}

byId("signin").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(byId("token").value.trim());
  byId("token").value = "";
  refresh();
});
byId("estimators").addEventListener("change", (event) => {
  estimator = event.target.value;
  shown = "";
  refresh();
});
byId("asked").addEventListener("change", () => byId("value").replaceChildren());
for (const select of ["group", "value", "step", "asked", "by", "pair"])
  byId(select).addEventListener("change", () => {
    shown = "";
    refresh();
  });
for (const button of document.querySelectorAll("[data-format]"))
  button.addEventListener("click", () => save(button.dataset.format));
byId("copy").addEventListener("click", (event) => copy(page, event.target));
byId("survey-link").href = byId("share-link").value = page;
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : refresh()));
for (const media of ["(prefers-color-scheme: dark)", "print"])
  matchMedia(media).addEventListener("change", () => {
    if (!results?.n_reports) return;
    fillCharts(results);
    fillBreakdownCharts();
  });
// Until the survey is read, and where it cannot be.
await speakSomething();
refresh();
