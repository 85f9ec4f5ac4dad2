/** The dashboard: fetches the results of one survey again and again, and shows them. */

import { fillBoard, fillCharts } from "./board.js";
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

const EVERY = 3000;
const LIMIT = 50;
const MAX_LIMIT = 100_000;
const sections = ["loading", "stop", "signin", "board"].map(byId);
const id = surveyId();
const page = surveyPage(id);

let survey = null;
let results = null;
let shown = "";
let estimator = "";
let timer = 0;

/** The address of the results, for the chosen estimator. */
const resultsUrl = (format, more = "") => `${surveyUrl(id)}/results${format}?${estimator && `estimator=${estimator}&`}${more}`;

/** Fetch and show, then again after a while; a newer call replaces an older one. */
async function refresh() {
  clearTimeout(timer);
  const asked = estimator;
  const text = await fetchResults();
  if (text === null || asked !== estimator) return;
  if (text) show(text);
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(refresh, EVERY);
}

/** The results as text; "" if they did not come but may later, null if they never will. */
async function fetchResults() {
  try {
    survey ??= await requestJson(surveyUrl(id));
    if (!survey.public_results && !token.get()) throw new ApiError(401, "These results need the team's token.");
    const response = await request(resultsUrl("", `limit=${LIMIT}`), { team: true });
    const text = await response.text();
    byId("trouble").textContent = "";
    return text;
  } catch (error) {
    return failed(error) ? "" : null;
  }
}

/** Show the results, if they differ from those on the page. */
function show(text) {
  const signedIn = !byId("signin").hidden;
  showOnly(byId("board"), sections, { focus: false });
  if (text !== shown) {
    shown = text;
    results = JSON.parse(text);
    survey.open = results.open;
    fillBoard(results, survey);
  }
  if (signedIn) byId("question").focus();
}

/** Say what went wrong; true if trying again makes sense. */
function failed(error) {
  if (error.status === 401) {
    signIn(token.get() ? "This token does not open these results." : "");
    return false;
  }
  if (results) {
    byId("trouble").textContent = `Not up to date: ${error.message} Trying again …`;
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
    if (format === "png") return download(await chartsPicture(results, questionOf(results)), name);
    const url = format === "csv" ? resultsUrl(".csv") : resultsUrl("", `limit=${Math.min(MAX_LIMIT, results.n_rows)}`);
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
  refresh();
});
for (const button of document.querySelectorAll("[data-format]"))
  button.addEventListener("click", () => save(button.dataset.format));
byId("copy").addEventListener("click", (event) => copy(page, event.target));
byId("survey-link").href = byId("share-link").value = page;
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : refresh()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => results?.n_reports && fillCharts(results));
refresh();
