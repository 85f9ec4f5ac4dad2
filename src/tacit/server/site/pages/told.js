/** What have I told so far? The browser's ledger in plain words, a limit, a copy to keep, and erasing it. */

import { erase, setLimit, StorageError, told } from "../client/index.js";
import { make } from "./common.js";
import { local, say, speakSomething } from "./language.js";

/** Factors to choose a limit from, and the largest level, rounded down, at which a belief changes by no more. */
const LIMITS = { 3: "1098/1000", 10: "2302/1000", 30: "3401/1000", 100: "4605/1000" };

/** Show the ledger inside `container`, and again after each change. */
export async function showTold(container, saved = false) {
  const again = (changed) => showTold(container, changed);
  try {
    const found = await told();
    const { answered, file } = found;
    const parts = answered.length
      ? [summary(found), make("ol", { className: "surveys", "data-testid": "told-list" }, ...answered.map(entry))]
      : [make("p", { "data-testid": "told-sum" }, say("told_none"))];
    container.replaceChildren(...parts, limitChoice(found, again, saved), ...(file === null ? [] : [keeping(file, again, answered)]));
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    const stored = readAnyway();
    const damaged = make("p", { className: "error", "data-testid": "told-damaged" }, say(stored === null ? "no_storage_text" : "told_damaged"));
    container.replaceChildren(damaged, ...(stored === null ? [] : [keeping(stored, again)]));
  }
}

/** The stored text, which nothing may be read from but which may be kept; null if there is none. */
function readAnyway() {
  try {
    return localStorage.getItem("tacit:ledger");
  } catch {
    return null;
  }
}

/** What all reports add up to. */
function summary({ answered, belief, odds, computed }) {
  const count = answered.length === 1 ? say("told_one") : say("told_many", { count: answered.length });
  const sum = say(odds === "∞" ? "told_sum_unbounded" : "told_sum", { belief: local(belief), odds: local(odds) });
  const how = answered.some(({ rule }) => rule) ? "told_if" : computed ? "told_computed" : "told_bounded";
  return make("p", { "data-testid": "told-sum" }, [count, sum, ...(answered.length > 1 ? [say(how)] : [])].join(" "));
}

/** One report: what was asked, how much it tells, and all that was sent. */
function entry({ question, wave, rule, belief, body, sent }) {
  const name = make("h2", { dir: "auto" }, question || say("untitled"));
  const facts = [
    ...(wave > 1 ? [say("told_wave", { wave })] : []),
    say(sent.length ? "told_sent" : "told_unsent"),
    say({ belief: "told_belief", layers: "told_layers" }[rule] ?? "told_alone", { belief: local(belief) }),
  ];
  const body_ = make("pre", { className: "report", tabIndex: 0 }, JSON.stringify(body, null, 2));
  const whole = make("details", {}, make("summary", {}, say(sent.length ? "all_sent" : "all_to_send")), body_);
  return make("li", { className: "card stack-tight" }, name, make("p", { className: "soft small" }, facts.join(" ")), whole);
}

/** The person's own limit. */
function limitChoice({ limit }, again, saved) {
  const known = Object.entries(LIMITS).find(([, level]) => same(level, limit));
  const options = [["", say("told_no_limit")], ...Object.keys(LIMITS).map((each) => [each, say("told_factor", { factor: each })])];
  if (limit !== null && !known) options.push(["other", say("told_factor", { factor: Math.exp(value(limit)).toFixed(1) })]);
  const select = make("select", { id: "limit", "data-testid": "my-limit" });
  for (const [factor, name] of options) select.append(make("option", { value: factor }, name));
  select.value = known ? known[0] : limit === null ? "" : "other";
  select.onchange = async () => {
    if (select.value === "other") return;
    await setLimit(select.value ? lowest(LIMITS[select.value]) : null);
    await again(true);
  };
  const label = make("label", { className: "field", for: "limit" }, say("told_limit"));
  const note = make("p", { className: "soft small", role: "status", "data-testid": "limit-note" }, say(saved ? "told_limit_saved" : "told_limit_note"));
  return make("div", { className: "card stack-tight" }, label, select, note);
}

const value = (rational) => rational.split("/").reduce((n, d) => Number(n) / Number(d));
const same = (level, limit) => limit !== null && value(level) === value(limit);

/** A rational in lowest terms, as the ledger has it. */
function lowest(rational) {
  const [n, d] = rational.split("/").map(Number);
  const common = (a, b) => (b ? common(b, a % b) : a);
  return `${n / common(n, d)}/${d / common(n, d)}`;
}

/** A copy to keep, and erasing everything, asked twice. */
function keeping(file, again, answered = []) {
  const warnings = ["told_erase_warning", ...(answered.some(({ rule }) => rule === "layers") ? ["told_erase_layers"] : [])].map((key) => say(key));
  const copy = make("a", { className: "button", download: "tacit-ledger.json", "data-testid": "told-export" }, say("told_export"));
  copy.href = URL.createObjectURL(new Blob([`${file}\n`], { type: "application/json" }));
  const sure = make("button", { type: "button", className: "danger", hidden: true, "data-testid": "told-erase-now" }, say("told_erase_now"));
  const warning = make("p", { className: "warning small", hidden: true, role: "alert" }, warnings.join(" "));
  const first = make("button", { type: "button", className: "danger", "data-testid": "told-erase" }, say("told_erase"));
  first.onclick = () => {
    first.hidden = true;
    warning.hidden = sure.hidden = false;
    sure.focus();
  };
  sure.onclick = async () => {
    await erase();
    for (const key of Object.keys(localStorage).filter((each) => each.startsWith("tacit:"))) localStorage.removeItem(key);
    await again();
  };
  const note = make("p", { className: "soft small" }, say("told_keep_note"));
  return make("div", { className: "stack-tight" }, make("div", { className: "row" }, copy, first), warning, sure, note);
}

const page = document.getElementById("told-page");
if (page) {
  await speakSomething();
  document.title = say("told_heading");
  await showTold(page);
}
