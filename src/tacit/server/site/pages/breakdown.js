/** Groups side by side, and the trend: what only the team sees of the results. */

import { aboutWhom, FEW } from "./board.js";
import { drawIntervals, drawTrend } from "./charts.js";
import { byId, dayName, estimateText, intervalText, make, spread, tableRow, whole } from "./common.js";
import { say } from "./language.js";
import { fillCrosstab } from "./several.js";

/** What is on the page, to be drawn again in other colours. */
const drawn = { groups: null, trend: null, waves: null };

/** Fetch and show both, where there is something to compare; `ask` fetches a part of the results. */
export async function fillBreakdown(results, ask) {
  const enough = results.n_reports >= FEW;
  const grouped = results.groups.filter((group) => group.n_reports).length > 1;
  const several = enough && (grouped || results.public.length > 0);
  fillBy(results, grouped);
  const days = enough && results.n_days > 1;
  await fillCrosstab(results, ask, enough);
  const question = askedQuestion(results);
  byId("groups").hidden = byId("groups-csv").hidden = !several;
  byId("trend").hidden = byId("trend-csv").hidden = !days;
  const value = byId("value").value;
  const asked = value && !byId("compared").hidden ? { value } : {};
  drawn.groups = several ? await ask("/groups", { ...asked, ...question, ...askedBy() }) : null;
  drawn.trend = days ? await ask("/trend", { ...asked, ...question, by: byId("step").value }) : null;
  if (several) fillGroups(drawn.groups);
  if (days) fillTrend(drawn.trend);
  await fillWaves(enough, ask, { ...asked, ...question });
  fillBreakdownCharts();
}

/** Which of several questions is compared, as the service is asked for it; nothing where there is one. */
export function askedQuestion({ questions }) {
  byId("of-question").hidden = !questions.length;
  const select = byId("asked");
  if (select.options.length !== questions.length)
    select.replaceChildren(...questions.map(({ name, text }) => make("option", { value: name }, text)));
  return questions.length ? { question: select.value } : {};
}

/** What people are compared by: their group, or a public answer. */
function fillBy({ public: open }, grouped) {
  const names = [...(grouped ? [["", say("board_group")]] : []), ...open.map(({ name, text }) => [name, text])];
  byId("by-what").hidden = names.length < 2;
  if (byId("by").options.length !== names.length)
    byId("by").replaceChildren(...names.map(([value, text]) => make("option", { value }, text)));
}

/** The same as the service is asked for it. */
export const askedBy = () => (byId("by").value ? { by: byId("by").value } : {});

/** Draw the charts again, for example in other colours. */
export function fillBreakdownCharts() {
  if (drawn.groups) drawIntervals(byId("group-chart"), shown(drawn.groups), say("board_groups"));
  if (drawn.trend) drawTrend(byId("trend-chart"), shown(drawn.trend));
  if (drawn.waves) drawTrend(byId("waves-chart"), shown(drawn.waves));
}

/** The estimates of the chosen group in the form of results; null while all are shown together. */
export async function oneGroup(results, ask, limit) {
  const select = byId("group");
  byId("one-group").hidden = results.groups.length < 2 || results.questions.length > 0;
  if (byId("one-group").hidden) return null;
  const names = results.groups.map(({ group }) => group);
  if (select.options.length !== names.length + 1)
    fillSelect(select, [say("board_everybody"), ...names], (place) => (place ? names[place - 1] : ""));
  if (select.selectedIndex <= 0) return null;
  const { rows, n_reports, n_rows } = await ask("/group", { name: select.value, limit });
  const found = n_reports ? { rows, n_reports, n_rows } : { rows: [], n_reports: 1, n_rows: 0 };
  return { ...found, prior_shares: null };
}

/** Options for a select; `value` gives what is asked for at a place. */
function fillSelect(select, names, value = (place) => names[place]) {
  select.replaceChildren(...names.map((name, place) => make("option", { value: value(place) }, name)));
}

/** A breakdown in the form of results: each part is a row with its own number of reports. */
const shown = ({ parts, ...facts }) => ({ ...facts, rows: parts.map((part) => ({ ...part, name: partName(part) })) });

/** A group's name, or a stretch of time. */
function partName({ group, wave, since, until }) {
  if (wave !== null) return say("board_wave", { wave });
  if (since === null) return group;
  return since === until ? dayName(since) : `${dayName(since, { year: false })} – ${dayName(until)}`;
}

/** The number that is compared, in words. */
const what = ({ name, counts_people: people }) => say(people ? "board_what_share" : "board_what_mean", { name });

/** The groups, and the choice of what is compared. */
function fillGroups(groups) {
  byId("compared").hidden = groups.names.length < 2;
  const known = [...byId("value").options].map((option) => option.value);
  if (known.join() !== groups.names.join()) fillSelect(byId("value"), groups.names);
  byId("value").value = groups.name;
  byId("groups-sentence").textContent =
    say("board_groups_sentence", { what: what(groups), about: aboutWhom(groups) });
  fillParts("group", groups, say("board_group"));
}

/** The stretches of time. */
function fillTrend(trend) {
  byId("trend-sentence").textContent =
    say("board_trend_sentence", { what: what(trend), about: aboutWhom(trend) });
  fillParts("trend", trend, say("board_when"));
}

/** The waves of the series, and the changes between them, where there are several. */
async function fillWaves(enough, ask, query) {
  const waves = enough ? await ask("/waves", query) : null;
  drawn.waves = waves?.parts.length > 1 ? waves : null;
  byId("waves").hidden = !drawn.waves;
  if (!drawn.waves) return;
  byId("waves-sentence").textContent =
    say("board_waves_sentence", { what: what(waves), about: aboutWhom(waves) });
  fillParts("waves", waves, say("board_wave_head"));
  const unit = say(waves.counts_people ? "board_change_points" : "board_change");
  byId("changes-head").replaceChildren(...[say("board_from_to"), unit, say("board_interval"), say("board_verdict")].map((head) => make("th", { scope: "col" }, head)));
  byId("changes-rows").replaceChildren(...waves.changes.map((change) => changeRow(change, waves.counts_people)));
}

/** One change: by how much, its interval, and whether that leaves out zero, so that there surely was one. */
function changeRow({ wave, since, change, low, high, significant }, people) {
  const signed = (number) =>
    (people ? 100 * number : number).toLocaleString(document.documentElement.lang, {
      ...(people ? { minimumFractionDigits: 1, maximumFractionDigits: 1 } : { maximumSignificantDigits: 3 }),
      signDisplay: "exceptZero",
    });
  const told = change === null ? ["", ""] : [signed(change), low === null || high === null ? "" : say("board_to", { low: signed(low), high: signed(high) })];
  const verdict = say(significant ? (change > 0 ? "board_higher" : "board_lower") : "board_not_clear");
  return tableRow(say("board_wave", { wave: `${since} – ${wave}` }), [...told, verdict], [{}, { "data-testid": `change-${since}-${wave}` }]);
}

/** Parts as a table. */
function fillParts(id, breakdown, first) {
  const heads = [
    first, say("board_reports"), say(breakdown.counts_people ? "board_share_head" : "board_mean"), say("board_interval"),
    say("board_prior"),
  ];
  byId(`${id}-head`).replaceChildren(...heads.map((head) => make("th", { scope: "col" }, head)));
  const rows = shown(breakdown).rows.map((part) => {
    const { estimate, prior, n_reports: reports } = part;
    const error = part.margin ?? part.standard_error;
    const results = { ...breakdown, n_reports: reports };
    const cells = [whole(reports), estimateText(part, results), intervalText(part, results), spread(prior, error, results)];
    return tableRow(part.name, cells, [{}, { "data-testid": `${id}-${part.name}`, "data-value": estimate ?? "" }]);
  });
  byId(`${id}-rows`).replaceChildren(...rows);
}
