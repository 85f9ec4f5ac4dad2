import { say } from "./language.js";

/** What all pages share: talking to the service, building elements, formatting numbers. */

/** A refusal of the service, in words; `status` is 0 if it could not be reached. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const TOKEN = "tacit:admin";

/** The team's token, kept for this tab only. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (text) => sessionStorage.setItem(TOKEN, text),
  clear: () => sessionStorage.removeItem(TOKEN),
};

/** What a page that was not served by the service says about it: its address and the survey. */
const stated = (name) => document.querySelector(`meta[name="tacit-${name}"]`)?.content;

/** Where the service lives, maybe below a path of its host: this file is …/v/EDITION/static/common.js there. */
const home = stated("service") ?? new URL("../../../", import.meta.url);

/** An address of this service; `path` has no slash in front. */
export const address = (path) => new URL(path, home).href;

/** The survey that the address names: …/s/ID or …/d/ID. */
export const surveyId = () => stated("survey") ?? decodeURIComponent(location.pathname.split("/").at(-1));

/** The address of a survey in the API. */
export const surveyUrl = (id) => address(`api/surveys/${encodeURIComponent(id)}`);

/** The addresses of a survey's page and of its dashboard. */
export const surveyPage = (id) => address(`s/${encodeURIComponent(id)}`);
export const dashboardPage = (id) => address(`d/${encodeURIComponent(id)}`);

/** One request, with the team's token only where it is asked for; anything but success throws an `ApiError`. */
export async function request(url, { method = "GET", body, team = false } = {}) {
  const headers = {};
  if (team && token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new ApiError(0, "The service cannot be reached. Is this device online?");
  }
  if (!response.ok) throw new ApiError(response.status, await problem(response));
  return response;
}

/** The same, for JSON. */
export const requestJson = async (url, options) => (await request(url, options)).json();

/** What an RFC 9457 problem says, its list of errors included. */
async function problem(response) {
  const said = await response.json().catch(() => ({}));
  const errors = (said.errors ?? []).map((error) => `${error.where}: ${error.message}.`);
  const parts = [said.detail ?? said.title ?? `The service answered with status ${response.status}.`, ...errors];
  return parts.filter(Boolean).join(" ");
}

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/** A new element; `data-*`, `aria-*` and other hyphenated names become attributes, the rest properties. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "for") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

/** A table row: the first cell heads the row, the others hold `cells`. */
export function tableRow(name, cells, attributes = []) {
  const head = make("th", { scope: "row", dir: "auto" }, name);
  return make("tr", {}, head, ...cells.map((cell, place) => make("td", attributes[place] ?? {}, cell)));
}

/** Show the one of `sections` that is wanted, and move the focus to its heading. */
export function showOnly(wanted, sections, { focus = true } = {}) {
  for (const section of sections) section.hidden = section !== wanted;
  if (focus) wanted.querySelector("[tabindex='-1']")?.focus();
}

/** Hand a file to the person. */
export function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Copy text, and say so on the button for a moment. */
export async function copy(text, button) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Copying is not allowed here";
  }
  setTimeout(() => (button.textContent = label), 2000);
}

/** A question, or what stands for one that has no text. */
export const questionOf = (survey) => survey.question || say("untitled");

/** How a group is called; a plan without groups is about everybody. */
export const groupLabel = (name) => name ?? say("board_everybody");

/** A sentence with a capital letter. */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** The language of the page. */
const language = () => document.documentElement.lang;

/** A whole number, thousands in groups. */
export const whole = (number) => number.toLocaleString(language());

/** A number in percent, as the language writes it. */
export const percent = (number, options = {}) => number.toLocaleString(language(), { style: "percent", ...options });

/** A number with two significant digits of its error; a dash if there is no number. */
export function digits(number, error) {
  if (number === null || !Number.isFinite(number)) return "–";
  const exact = error > 0 && Number.isFinite(error) ? Math.min(9, 1 - Math.floor(Math.log10(error))) : 1;
  const places = Math.max(0, exact);
  const unit = exact < 0 ? 10 ** -exact : 1;
  const rounded = unit > 1 ? Math.round(number / unit) * unit : number;
  const text = rounded.toLocaleString(language(), { minimumFractionDigits: places, maximumFractionDigits: places });
  return (/[1-9]/.test(text) ? text : text.replace("-", "")).replace("-", "−");
}

/** Three significant digits, and all digits before the point. */
export const significant = (number) => digits(number, Math.abs(number) / 10);

/** How results read per report: a share in percent where people are counted, else a mean. */
export const perReport = (results) =>
  results.counts_people
    ? { scale: 100, suffix: percentSign(), unit: say("board_unit_share"), halfUnit: say("board_half_share") }
    : { scale: 1, suffix: "", unit: say("board_unit_mean"), halfUnit: say("board_half_mean") };

/** The sign of percent with the space before it, as the language writes it. */
export const percentSign = () => percent(0).slice(1);

/** A total as a share or mean of `results.n_reports`, with the digits that its standard error deserves. */
export function spread(total, error, results) {
  const { scale, suffix } = perReport(results);
  const per = (number) => (number === null ? null : (number / results.n_reports) * scale);
  return total === null ? "–" : digits(per(total), per(error)) + suffix;
}

/** The interval of a row in the same units. */
export const intervalText = ({ low, high, margin }, results) =>
  low === null ? "–" : [low, high].map((end) => spread(end, margin, results)).join(" … ");

/** Fewer reports than this make no estimate that is shown. */
const LEAST_REPORTS = 5;

/** Half an interval with more than this part of what is possible says nothing. */
const ALL_OF_IT = 0.4;

/** Whether a row says nothing: its interval is nearly as wide as what is possible. */
export const saysNothing = ({ margin }, { counts_people: people, n_reports: reports }) =>
  reports < LEAST_REPORTS || (people && margin !== null && margin > ALL_OF_IT * reports);

/** A row's estimate, where people are counted between none and all. */
export const possible = ({ estimate }, { counts_people: people, n_reports: reports }) =>
  people && estimate !== null ? Math.min(reports, Math.max(0, estimate)) : estimate;

/** A row's estimate per report, unless it would only be noise. */
export const estimateText = (row, results) =>
  saysNothing(row, results) ? say("board_too_few") : spread(possible(row, results), row.margin ?? row.standard_error, results);

/** Half an interval per report in the units of the page; null if it is nearly as wide as what is possible. */
export const halfWidth = (reach, results) =>
  results.counts_people && reach > ALL_OF_IT ? null : reach * perReport(results).scale;

/** Whether the interval is narrower than what is possible by now. */
export const shrank = (results) => results.history.length > 0 && halfWidth(results.history.at(-1).reach, results) !== null;

/** A day as people write it, unbroken: 15 Nov 2026, or 15 Nov. */
export const dayName = (day, { year = true } = {}) =>
  new Date(`${day}T00:00:00Z`)
    .toLocaleDateString(language() === "en" ? "en-GB" : language(), {
      day: "numeric",
      month: "short",
      year: year ? "numeric" : undefined,
      timeZone: "UTC",
    })
    .replaceAll(" ", "\u00a0");
