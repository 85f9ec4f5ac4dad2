/** Everything on the dashboard that one results message fills. */

import { drawCharts } from "./charts.js";
import { drawQuestions, fillPublic, fillQuestions } from "./several.js";
import { numberName } from "./language.js";
import {
  byId,
  capital,
  dayName,
  digits,
  estimateText,
  groupLabel,
  halfWidth,
  intervalText,
  make,
  possible,
  questionOf,
  saysNothing,
  shrank,
  significant,
  spread,
  tableRow,
  whole,
} from "./common.js";

const MAX_GROUPS = 200;
/** Fewer reports than intervals and checks, which are normal approximations, need to mean anything. */
export const FEW = 30;

/** What each estimator is called, and what it means. */
const ESTIMATORS = {
  assisted: [
    "Assisted",
    "Uses the prior as far as the reports agree with it (assisted). The interval holds for all answers.",
  ],
  unbiased: [
    "Prior-free",
    "Does not use the prior (unbiased): right on average for all answers. Usually wider, sometimes below zero.",
  ],
  mle: [
    "Likelihood",
    "Does not use the prior (mle): the shares under which these reports are most likely, never below zero.",
  ],
  mmse: ["If the prior is right", "Trusts the prior (mmse): estimates and intervals hold only if it is exactly right."],
};

/** Fill the whole board; of one `part` of the reports, only the estimates. `asked` names the estimator that is wanted. */
export function fillBoard(results, survey, { part = false, asked = "" } = {}) {
  if (part) {
    fillEstimates(results, asked);
    return fillCharts(results);
  }
  const some = results.n_reports > 0;
  fillHead(results);
  fillNumbers(results);
  fillChecks(results);
  fillPrivacy(results);
  byId("empty").hidden = some;
  byId("estimates").hidden = !some;
  byId("history").hidden = !shrank(results);
  byId("picture").hidden = !some;
  byId("estimate-views").hidden = results.questions.length > 0;
  fillQuestions(results);
  fillPublic(results);
  if (!some) return fillEmpty(survey);
  fillEstimates(results, asked);
  if (shrank(results)) fillHistory(results);
  fillCharts(results);
}

/** Whether the reports are too few for the number that the page leads with. */
const tooFew = (row, results) => results.n_reports < FEW || saysNothing(row, results);

/** Draw the charts again, for example in other colours. */
export function fillCharts(results) {
  if (results.questions.length) drawQuestions();
  else drawCharts(results, byId("interval-chart"), byId("history-chart"));
}

/** The question and the state of the survey. */
function fillHead(results) {
  document.title = `${whole(results.n_reports)} reports: ${questionOf(results)}`;
  byId("question").textContent = questionOf(results);
  byId("state").textContent = results.open ? "open" : "closed";
  byId("state").classList.toggle("open", results.open);
  byId("since").textContent = `since ${dayName(results.opened)}`;
}

/** The large numbers: reports, and the one estimate or the largest. */
function fillNumbers(results) {
  byId("reports").textContent = whole(results.n_reports);
  byId("refused").textContent = results.refused
    ? `${whole(results.refused)} more were refused: this plan cannot have sent them`
    : "";
  const known = results.rows.filter((row) => row.estimate !== null);
  // The totals of a matrix overlap: none of them leads.
  const apart = results.n_rows === 1 || results.task === "histogram" || results.median;
  byId("headline").hidden = !results.n_reports || !known.length || !apart;
  if (results.median) return fillMedian(results);
  const leading = known.reduce((most, other) => (other.estimate > most.estimate ? other : most), known[0]);
  if (!byId("headline").hidden) fillHeadline(results, leading);
}

/** The median of a plan for quantiles. */
function fillMedian({ median: { value, low, high }, level }) {
  byId("headline-name").textContent = "median";
  byId("headline-number").textContent = numberName(value);
  byId("headline-interval").textContent = `${level * 100}% interval ${numberName(low)} … ${numberName(high)}`;
}

/** The estimate that the page leads with: the only one, or the largest. */
function fillHeadline(results, row) {
  const middle = spread(row.estimate, row.margin, results);
  const few = tooFew(row, results);
  const below = results.counts_people && row.estimate < 0;
  const above = results.counts_people && row.estimate > results.n_reports;
  const beyond = below ? `, around ${middle}: chance goes below zero` : above ? `, around ${middle}: chance goes beyond` : "";
  const counted = results.n_rows === 1 ? `estimated “${row.name}”` : few ? "most frequent" : `most frequent: ${row.name}`;
  byId("headline-name").textContent = results.counts_people ? counted : "mean per person";
  byId("headline-number").textContent = few ? "too early" : below ? "0%" : above ? "100%" : middle;
  byId("headline-interval").textContent = few
    ? "too few reports to say anything yet"
    : row.low === null
      ? "the reports do not tell this answer from others"
      : `${results.level * 100}% interval ${intervalText(row, results)}${beyond}`;
}

/** What to do while there are no reports. */
function fillEmpty(survey) {
  byId("share").hidden = survey.invited || !survey.open;
  const how = survey.invited
    ? "Each person needs an invitation link of their own; the team's page makes them."
    : "Share this link with the people you want to ask.";
  byId("empty-text").textContent = survey.open
    ? `${how} Estimates appear here as reports come in.`
    : "This survey was closed before any report came.";
}

/** What is said where another estimator is shown than the one that was asked for. */
const INSTEAD =
  "The assisted estimate uses the prior as far as reports of two groups agree with it. Until they are there, this is shown: ";

/** The switch of estimators, and estimates as a table. */
function fillEstimates(results, asked) {
  const switches = results.estimators.map((name) => {
    const input = make("input", {
      type: "radio",
      name: "estimator",
      value: name,
      checked: name === results.estimator,
      "data-testid": `estimator-${name}`,
    });
    return make("label", {}, input, ESTIMATORS[name][0]);
  });
  const shown = byId("estimators").querySelector(".segments");
  if (shown.children.length !== switches.length) shown.replaceChildren(...switches);
  for (const input of shown.querySelectorAll("input")) input.checked = input.value === results.estimator;
  byId("estimators").hidden = switches.length < 2;
  const other = (asked || results.estimators[0]) !== results.estimator;
  byId("estimator-meaning").textContent = (other ? INSTEAD : "") + ESTIMATORS[results.estimator][1];
  const level = `${results.level * 100}% interval`;
  byId("interval-key").textContent = level;
  const people = results.counts_people;
  const heads = people ? ["answer", "share", level, "people", "prior"] : ["", "mean", level, "total", "prior mean"];
  byId("estimate-head").replaceChildren(
    ...heads.map((head) => (head ? make("th", { scope: "col" }, head) : make("td"))),
  );
  byId("estimate-rows").replaceChildren(...results.rows.map((row) => estimateRow(row, results)));
  byId("estimate-views").classList.toggle("two", results.rows.length > 1);
  const cut = results.n_rows - results.rows.length;
  byId("cut").textContent =
    cut > 0 ? `The largest ${results.rows.length} of ${whole(results.n_rows)}; all are in the downloads.` : "";
  const [changed, added] = [results.influence, results.influence_added].map(significant);
  byId("prior-part").textContent = [results.prior_part, results.about].filter(Boolean).join(" ");
  const many = significant((results.influence * results.n_reports) / 100);
  byId("influence").textContent =
    `One forged report can move an estimate by at most ${changed}, one that is added by ${added}. ` +
    `1% forged reports would move it by ${many}.`;
}

/** One estimate in the table. */
function estimateRow(row, results) {
  const { estimate, prior } = row;
  const error = row.margin ?? row.standard_error;
  const people = saysNothing(row, results) ? "–" : digits(possible(row, results), error);
  const cells = [estimateText(row, results), intervalText(row, results), people, spread(prior, error, results)];
  return tableRow(row.name, cells, [{}, {}, { "data-testid": `estimate-${row.name}`, "data-value": estimate ?? "" }]);
}

/** How the interval shrank, in words and as a table. */
function fillHistory(results) {
  const nothing = (reach) => halfWidth(reach, results) === null;
  const half = (reach) => (nothing(reach) ? "–" : `± ${significant(halfWidth(reach, results))}`);
  const several = results.n_rows > 1 ? ", root mean square over the answers" : "";
  const what = results.counts_people ? `percentage points${several}` : "per person";
  const [first, last] = [results.history[0], results.history.at(-1)];
  byId("history-sentence").textContent =
    first === last || nothing(first.reach)
      ? `${first === last ? "One day so far" : `On ${dayName(last.day)}`}: ${half(last.reach)} ${what}.`
      : `From ${half(first.reach)} on ${dayName(first.day)} to ${half(last.reach)} on ${dayName(last.day)}, in ${what}.`;
  const rows = results.history
    .toReversed()
    .map((day) => tableRow(dayName(day.day), [whole(day.n_reports), half(day.reach)]));
  byId("history-rows").replaceChildren(...rows);
}

/** The prior check: one warning on top of the page where it fails, and every sentence where it belongs. */
function fillChecks(results) {
  const checks = results.n_reports ? results.prior_check : [];
  const alarms = checks.filter((check) => check.contradicted);
  const said =
    alarms.length > 1
      ? `${alarms[0].sentence} More below.`
      : (alarms[0]?.sentence ?? "");
  // Rewriting a live region makes screen readers repeat it.
  if (byId("alarm").textContent !== said) byId("alarm").textContent = said;
  byId("prior-check").className = alarms.length ? "warning" : "";
  byId("prior-check").replaceChildren(
    alarms.length > 1
      ? make("ul", {}, ...alarms.map((check) => make("li", {}, check.sentence)))
      : make("p", {}, said || agreement(checks, results.n_reports)),
  );
}

/** What is said where no prior is contradicted. */
function agreement(checks, reports) {
  if (!checks.length && reports) return "There is no prior to compare the reports with.";
  if (!checks.length) return "There are no reports to compare with it yet.";
  return reports < FEW ? "There are too few reports to tell yet." : checks[0].sentence;
}

/** The exact levels and the promise of each group. */
function fillPrivacy(results) {
  const level = (number) => (number === null ? "∞" : (Math.ceil(number * 10_000) / 10_000).toFixed(4));
  const shown = results.groups.slice(0, MAX_GROUPS);
  const rows = shown.map(({ group, n_reports: reports, epsilon, notion, levels }) => {
    const reached = ["lip_upper", "lip_lower", "ldp", "mip"].map((name) => level(levels[name]));
    return tableRow(groupLabel(group), [whole(reports), `${notion.toUpperCase()} ${epsilon}`, ...reached]);
  });
  const more = results.groups.length - shown.length;
  if (more) rows.push(tableRow(`… and ${whole(more)} more groups`, []));
  byId("privacy-rows").replaceChildren(...rows);
  const several = shown.length > 1;
  byId("promise").textContent = several ? "" : capital(shown[0].promise);
  byId("promises").hidden = !several;
  const words = shown.flatMap(({ group, promise }) => [
    make("dt", { dir: "auto" }, groupLabel(group)),
    make("dd", {}, capital(promise)),
  ]);
  byId("promise-list").replaceChildren(...words);
}
