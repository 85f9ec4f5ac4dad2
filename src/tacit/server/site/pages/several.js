/** The dashboard of several questions: a chart and a table for each, and the table of two. */

import { drawIntervals } from "./charts.js";
import { byId, digits, estimateText, intervalText, make, percent, percentSign, spread, tableRow, whole } from "./common.js";
import { local, say } from "./language.js";
import { pValue } from "./board.js";

let drawn = [];

/**
 * What is shown together, in the form of results: a question, or all parts of one with several choices, of which the
 * share of the first answer, yes, is shown.
 */
export function panels(results) {
  const found = new Map();
  for (const question of results.questions) {
    const { name, text, labels, part_of: partOf, rows, ...facts } = question;
    if (!partOf) {
      const named = rows.map((row) => ({ ...row, name: labels[row.name] ?? row.name, testid: `${name}-${row.name}` }));
      found.set(`question ${name}`, { ...facts, title: text, rows: named, level: results.level });
      continue;
    }
    const place = `parts ${partOf}`;
    const panel = found.get(place) ?? { ...facts, title: partOf, rows: [], level: results.level };
    const counted = rows.slice(0, 1).map((row) => ({ ...row, name: text, n_reports: facts.n_reports, testid: name }));
    found.set(place, { ...panel, rows: [...panel.rows, ...counted] });
  }
  return [...found.values()];
}

/** Fill in a card for each panel; cards stay while their number does, so that nothing jumps. */
export function fillQuestions(results) {
  drawn = panels(results);
  const room = byId("panels");
  room.hidden = !drawn.length || !results.n_reports;
  if (room.children.length !== drawn.length) room.replaceChildren(...drawn.map(panelCard));
  drawn.forEach((panel, place) => fillPanel(room.children[place], panel));
  drawQuestions();
}

/** How many people gave each public answer. */
export function fillPublic(results) {
  byId("public").hidden = !results.public.length || !results.n_reports;
  const rows = results.public.flatMap(({ text, rows: counts }) => [
    make("tr", {}, make("th", { scope: "rowgroup", colSpan: 3, dir: "auto", className: "over" }, text)),
    ...counts.map(({ name, count }) => tableRow(name, [whole(count), digits((100 * count) / results.n_reports, 1) + percentSign()])),
  ]);
  byId("public-rows").replaceChildren(...rows);
}

/** Draw the charts again, for example in other colours. */
export function drawQuestions() {
  if (byId("panels").hidden) return;
  drawn.forEach((panel, place) => {
    const canvas = byId("panels").children[place].querySelector("canvas");
    if (panel.rows.length) drawIntervals(canvas, panel, say("board_chart", { name: panel.title }));
  });
}

/** A card without numbers. */
function panelCard(_, place) {
  const key = (kind, text) => make("span", { className: `key ${kind}` }, text);
  const legend = [
    key("dot", say("board_estimate")), key("bar", say("board_interval")), key("tick", say("board_expected")),
  ];
  const figure = make(
    "figure",
    {},
    make("div", { className: "plot" }, make("canvas", { role: "img", "data-testid": `chart-${place}` })),
    make("figcaption", { className: "legend small soft" }, ...legend),
  );
  const table = make("table", { className: "tight" }, make("thead", {}, make("tr")), make("tbody"));
  const id = `panel-${place}`;
  const scroll = make("div", { className: "scroll tall", role: "region", tabIndex: 0 }, table);
  return make(
    "section",
    { className: "card stack", "aria-labelledby": id, "data-testid": id },
    make("h2", { id, dir: "auto" }),
    make("div", { className: "split two" }, figure, scroll),
    make("p", { className: "soft small" }),
  );
}

/** The numbers of a card. */
function fillPanel(card, panel) {
  card.querySelector("h2").textContent = panel.title;
  card.querySelector("h2").lang = panel.lang ?? "en";
  card.querySelector(".scroll").setAttribute("aria-label", say("board_table", { what: panel.title }));
  card.querySelector(".split").hidden = !panel.rows.length;
  const heads = [
    "", say(panel.counts_people ? "board_share_head" : "board_mean"), say("board_level", { level: percent(panel.level) }),
    say("board_prior"),
  ];
  card
    .querySelector("thead tr")
    .replaceChildren(...heads.map((head) => (head ? make("th", { scope: "col" }, head) : make("td"))));
  const rows = panel.rows.map((row) => {
    const own = { ...panel, n_reports: row.n_reports ?? panel.n_reports };
    const cells = [estimateText(row, own), intervalText(row, own), spread(row.prior, row.margin ?? row.standard_error, own)];
    const share = row.estimate === null ? "" : row.estimate / own.n_reports;
    return tableRow(row.name, cells, [{ "data-testid": `estimate-${row.testid}`, "data-value": share }]);
  });
  card.querySelector("tbody").replaceChildren(...rows);
  const counts = [...new Set(panel.rows.map((row) => row.n_reports ?? panel.n_reports))].sort((a, b) => a - b);
  card.querySelector("p").textContent = panel.rows.length
    ? say("board_panel_reports", { count: [...new Set([counts[0], counts.at(-1)])].map(whole).join(" – ") })
    : say("board_panel_none");
}

// -- two questions ----------------------------------------------------------------------------------------------------

/** The pairs of questions that are reported on together. */
const pairs = ({ questions }) =>
  questions.flatMap((first, place) =>
    questions.slice(place + 1).flatMap((second) => (first.block === second.block ? [[first, second]] : [])),
  );

/** Fetch and show the table of the chosen two questions, where some are reported on together. */
export async function fillCrosstab(results, ask, enough) {
  const found = pairs(results);
  byId("crosstab").hidden = !enough || !found.length;
  if (byId("crosstab").hidden) return;
  const select = byId("pair");
  if (select.options.length !== found.length)
    select.replaceChildren(...found.map(([a, b], place) => make("option", { value: place }, `${a.text} × ${b.text}`)));
  const [first, second] = found[Math.max(0, select.selectedIndex)];
  const table = await ask("/crosstab", { first: first.name, second: second.name });
  const label = (question, answer) => question.labels[answer] ?? answer;
  const columns = [...new Set(table.rows.map((row) => row.second))];
  const heads = columns.map((answer) => make("th", { scope: "col", dir: "auto" }, label(second, answer)));
  byId("crosstab-caption").textContent =
    say("board_two_caption", { first: first.text, second: second.text });
  byId("crosstab-head").replaceChildren(make("td"), ...heads);
  const rows = [...new Set(table.rows.map((row) => row.first))].map((answer) => {
    const mine = table.rows.filter((row) => row.first === answer);
    const cells = mine.map((row) => make("span", {}, share(row), make("span", { className: "soft small over-below" }, ends(row))));
    return tableRow(label(first, answer), cells);
  });
  byId("crosstab-rows").replaceChildren(...rows);
  byId("crosstab-sentence").textContent = related(table).join(" ");
}

/** Whether the answers are related, and how much. */
function related({ independence: { degrees, p_value: p }, association, level }) {
  const said = p === null ? [] : [say(p < 0.05 ? "board_related" : "board_unrelated", { p: pValue(p), degrees })];
  if (!association) return said;
  const kind = say(association.kind === "correlation" ? "board_correlation" : "board_odds_ratio");
  const [estimate, low, high] = [association.estimate, association.low, association.high].map((number) =>
    number === null ? "–" : local(String(Number(number.toPrecision(3)))),
  );
  if (association.estimate === null) return [...said, say("board_association_few", { kind })];
  return [...said, say("board_association", { kind, estimate, low, high, level: percent(level) })];
}

/** A share in percent, and its interval. */
const reach = ({ low, high }) => (low === null ? 0 : (100 * (high - low)) / 2);
const share = (row) => (row.estimate === null ? "–" : digits(100 * row.estimate, reach(row)) + percentSign());
const ends = (row) =>
  row.low === null ? "" : [row.low, row.high].map((end) => digits(100 * end, reach(row))).join(" … ") + percentSign();
