/** Everything on the dashboard that one results message fills. */

import { drawCharts } from "./charts.js";
import { drawQuestions, fillPublic, fillQuestions } from "./several.js";
import { list, local, numberName, say } from "./language.js";
import {
  byId,
  dayName,
  digits,
  estimateText,
  groupLabel,
  halfWidth,
  intervalText,
  make,
  percent,
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
  assisted: ["board_assisted", "board_assisted_meaning"],
  unbiased: ["board_unbiased", "board_unbiased_meaning"],
  mle: ["board_mle", "board_mle_meaning"],
  mmse: ["board_mmse", "board_mmse_meaning"],
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
  document.title = say("board_title", { count: whole(results.n_reports), question: questionOf(results) });
  byId("question").textContent = questionOf(results);
  byId("state").textContent = say(results.open ? "board_open" : "board_closed");
  byId("state").classList.toggle("open", results.open);
  byId("since").textContent = say("board_since", { day: dayName(results.opened) });
}

/** The large numbers: reports, and the one estimate or the largest. */
function fillNumbers(results) {
  byId("reports").textContent = whole(results.n_reports);
  byId("refused").textContent = results.refused
    ? say("board_refused", { count: whole(results.refused) })
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
  byId("headline-name").textContent = say("board_median");
  byId("headline-number").textContent = numberName(value);
  byId("headline-interval").textContent = `${say("board_level", { level: percent(level) })} ${numberName(low)} … ${numberName(high)}`;
}

/** The estimate that the page leads with: the only one, or the largest. */
function fillHeadline(results, row) {
  const middle = spread(row.estimate, row.margin, results);
  const few = tooFew(row, results);
  const below = results.counts_people && row.estimate < 0;
  const above = results.counts_people && row.estimate > results.n_reports;
  const beyond = below ? say("board_below", { middle }) : above ? say("board_beyond", { middle }) : "";
  const { name } = row;
  const frequent = few ? say("board_frequent") : say("board_most_frequent", { name });
  const counted = results.n_rows === 1 ? say("board_estimated", { name }) : frequent;
  byId("headline-name").textContent = results.counts_people ? counted : say("board_mean_person");
  byId("headline-number").textContent = few ? say("board_early") : below ? percent(0) : above ? percent(1) : middle;
  byId("headline-interval").textContent = few
    ? say("board_too_few_yet")
    : row.low === null
      ? say("board_not_determined")
      : `${say("board_level", { level: percent(results.level) })} ${intervalText(row, results)}${beyond}`;
}

/** What to do while there are no reports. */
function fillEmpty(survey) {
  byId("share").hidden = survey.invited || !survey.open;
  const how = survey.invited
    ? say("board_share_invited")
    : say("board_share");
  byId("empty-text").textContent = survey.open
    ? `${how} ${say("board_appear")}`
    : say("board_closed_empty");
}

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
    return make("label", {}, input, say(ESTIMATORS[name][0]));
  });
  const shown = byId("estimators").querySelector(".segments");
  if (shown.children.length !== switches.length) shown.replaceChildren(...switches);
  for (const input of shown.querySelectorAll("input")) input.checked = input.value === results.estimator;
  byId("estimators").hidden = switches.length < 2;
  const other = (asked || results.estimators[0]) !== results.estimator;
  const meaning = say(ESTIMATORS[results.estimator][1]);
  byId("estimator-meaning").textContent = other ? `${say("board_instead")} ${meaning}` : meaning;
  const level = say("board_level", { level: percent(results.level) });
  byId("interval-key").textContent = level;
  const people = results.counts_people;
  const counted = [say("board_answer"), say("board_share_head"), level, say("board_people"), say("board_prior")];
  const heads = people ? counted : ["", say("board_mean"), level, say("board_total"), say("board_prior_mean")];
  byId("estimate-head").replaceChildren(
    ...heads.map((head) => (head ? make("th", { scope: "col" }, head) : make("td"))),
  );
  byId("estimate-rows").replaceChildren(...results.rows.map((row) => estimateRow(row, results)));
  byId("estimate-views").classList.toggle("two", results.rows.length > 1);
  const cut = results.n_rows - results.rows.length;
  byId("cut").textContent =
    cut > 0 ? say("board_cut", { shown: results.rows.length, count: whole(results.n_rows) }) : "";
  const [changed, added] = [results.influence, results.influence_added].map(significant);
  byId("prior-part").textContent = [...priorPart(results), aboutWhom(results)].join(" ");
  const many = significant((results.influence * results.n_reports) / 100);
  byId("influence").textContent = say("board_influence", { changed, added, many });
}

/** How much of an assisted estimate is the prior. */
function priorPart({ prior_shares: shares, n_rows: rows }) {
  if (!shares) return [];
  const { mean, most, records } = shares;
  const part = say(rows > 1 ? "board_part_many" : "board_part_one", { mean: percent(mean), most: percent(most) });
  if (records === null) return [part];
  return [part, say(records.fewer ? "board_worth_few" : "board_worth", { count: whole(records.than) })];
}

/** Whom intervals are about, and whether all hold at once. */
export function aboutWhom({ scope, simultaneous }) {
  if (!scope) return "";
  const about = scope === "population" ? "board_about_population" : "board_about_participants";
  const together = scope === "population" ? "board_about_population_together" : "board_about_participants_together";
  return say(simultaneous ? together : about);
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
  const points = say(results.n_rows > 1 ? "board_points_many" : "board_points");
  const what = results.counts_people ? points : say("board_per_person");
  const [first, last] = [results.history[0], results.history.at(-1)];
  byId("history-sentence").textContent =
    first === last || nothing(first.reach)
      ? say(first === last ? "board_history_one" : "board_history_last", { day: dayName(last.day), half: half(last.reach), what })
      : say("board_history_sentence", {
          first: half(first.reach), start: dayName(first.day), last: half(last.reach), end: dayName(last.day), what,
        });
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
      ? `${checked(alarms[0], results)} ${say("board_more_below")}`
      : alarms.length
        ? checked(alarms[0], results)
        : "";
  // Rewriting a live region makes screen readers repeat it.
  if (byId("alarm").textContent !== said) byId("alarm").textContent = said;
  byId("prior-check").className = alarms.length ? "warning" : "";
  byId("prior-check").replaceChildren(
    alarms.length > 1
      ? make("ul", {}, ...alarms.map((check) => make("li", {}, checked(check, results))))
      : make("p", {}, said || agreement(checks, results)),
  );
}

/** What is said where no prior is contradicted. */
function agreement(checks, results) {
  const reports = results.n_reports;
  if (!checks.length && reports) return say("board_check_none");
  if (!checks.length) return say("board_check_empty");
  return reports < FEW ? say("board_check_few") : checked(checks[0], results);
}

/** What the check of one prior found, and what a contradiction means for the estimate. */
function checked({ group: name, pooled, questions, degrees, p_value: p, contradicted }, results) {
  const texts = results.questions.filter((each) => questions.includes(each.name)).map((each) => say("quoted", { name: each.text }));
  const about = texts.length ? say("board_whose_questions", { names: list(texts) }) : say("board_whose");
  const whose = pooled ? say("board_whose_all") : name === null || texts.length ? about : say("board_whose_group", { name });
  if (!degrees) return say("board_check_whose_few", { whose });
  if (!contradicted) return say("board_agrees", { whose, p: pValue(p) });
  const mean = results.prior_shares?.mean ?? 0;
  const used = mean < 0.005 ? "board_alarm_unused" : "board_alarm_part";
  const remark = say(results.estimator === "mmse" ? "board_alarm_mmse" : used, { mean: percent(mean) });
  const sets = results.groups.some((group) => group.prior_set) ? [say("board_alarm_sets")] : [];
  return [say("board_contradicts", { whose, p: pValue(p) }), remark, ...sets].join(" ");
}

/** A p-value with two significant digits. */
export function pValue(p) {
  if (p > 0.5) return `p > ${local("0.5")}`;
  if (p < 1e-16) return "p < 1e-16";
  return `p = ${p < 1e-4 ? p.toExponential(0) : local(String(Number(p.toPrecision(2))))}`;
}

/** The exact levels and the promise of each group. */
function fillPrivacy(results) {
  const level = (number) => (number === null ? "∞" : local((Math.ceil(number * 10_000) / 10_000).toFixed(4)));
  const shown = results.groups.slice(0, MAX_GROUPS);
  const rows = shown.map(({ group, n_reports: reports, epsilon, notion, levels }) => {
    const reached = ["lip_upper", "lip_lower", "ldp", "mip"].map((name) => level(levels[name]));
    return tableRow(groupLabel(group), [whole(reports), `${notion.toUpperCase()} ${local(String(epsilon))}`, ...reached]);
  });
  const more = results.groups.length - shown.length;
  if (more) rows.push(tableRow(say("board_more_groups", { count: whole(more) }), []));
  byId("privacy-rows").replaceChildren(...rows);
  const several = shown.length > 1;
  byId("promise").textContent = several ? "" : promised(shown[0]);
  byId("promises").hidden = !several;
  const words = shown.flatMap((facts) => [
    make("dt", { dir: "auto" }, groupLabel(facts.group)),
    make("dd", {}, promised(facts)),
  ]);
  byId("promise-list").replaceChildren(...words);
}

/** A group's promise as a sentence. */
function promised({ belief, near, bound, odds: factor }) {
  const odds = local(factor);
  if (bound !== null) return say("promise_record", { bound: local(bound), odds });
  if (belief === null) return say("promise_odds", { odds });
  const [answer, ...shares] = belief;
  const [prior, high, low] = shares.map(local);
  const number = Number.isFinite(Number(answer));
  const quoted = number ? numberName(answer) : say("quoted", { name: answer });
  return say("promise", { name: near ? say("near", { name: quoted }) : quoted, prior, high, low, odds });
}
