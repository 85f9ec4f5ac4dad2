/** A field for a number within a range, and one for a number that becomes a class such as an age group. */

import { radios } from "./choices.js";
import { make } from "./common.js";
import { numberName, say } from "./language.js";

/**
 * Let a person enter a number that becomes one of the bins of a recoded column, inside `container`. Only the bin leaves
 * this function. A missing answer that counts as an answer can be chosen instead. Returns {value() -> bin, focus(), missing()}.
 */
export function binnedField(container, column, { id, label, shown = (name) => name, changed = () => {} }) {
  const bin = make("p", { className: "soft small", role: "status", "data-testid": `${id}-bin` });
  const instead = make("div", {});
  let chosen = null;
  const missing = column.missingAs === null ? null : radios(instead, [column.missingAs], { id: `${id}-none`, shown, changed: choose });
  function choose(name) {
    chosen = name;
    changed(chosen);
  }
  const read = (number) => {
    if (number !== null) instead.querySelectorAll("input").forEach((input) => (input.checked = false));
    const name = number === null ? (missing?.value() ?? null) : column.read(number);
    bin.textContent = number === null ? "" : say("becomes", { name: shown(name) });
    choose(name);
  };
  const field = numberField(container, [column.edges[0], column.edges.at(-1)].map(String), { id, label, changed: read });
  container.append(bin, instead);
  return { value: () => chosen, focus: field.focus, missing: field.missing };
}

/**
 * Let a person enter a number from `first` to `last`, given as texts, inside `container`; `label` names the field.
 * Returns {value() -> number or null, focus(), missing() -> what to ask for}; `changed` is called after each change.
 */
export function numberField(container, [first, last], { id, label, changed = () => {} }) {
  const range = { first: numberName(first), last: numberName(last) };
  const [open, ends] = [![first, last].every((end) => Number.isFinite(Number(end))), {}];
  if (Number.isFinite(Number(first))) ends.min = first;
  if (Number.isFinite(Number(last))) ends.max = last;
  const hint = make("p", { id: `${id}-hint`, role: "status" });
  const field = make("input", {
    type: "number",
    ...ends,
    step: "any",
    // The keypad for decimals has no minus sign.
    inputMode: Number(first) < 0 ? "text" : "decimal",
    enterKeyHint: "done",
    autocomplete: "off",
    "aria-label": label,
    "aria-describedby": hint.id,
    "data-testid": `${id}-number`,
    oninput: () => judge(false),
    onchange: () => judge(true),
    // Scrolling the page must not change an answer.
    onwheel: () => field.blur(),
  });
  const empty = () => field.value === "" && !field.validity.badInput;
  const value = () => (!empty() && field.validity.valid ? field.valueAsNumber : null);
  /** Mark what is wrong, but not while it is being typed. */
  const judge = (finished) => {
    const wrong = value() === null && !empty();
    if (finished || !wrong) mark(wrong);
    changed(value());
  };
  const mark = (wrong) => {
    hint.className = wrong ? "error small" : "soft small";
    const [wanted, refused] = open ? ["number_open_wanted", "number_open_wrong"] : ["number_wanted", "number_wrong"];
    hint.textContent = say(wrong ? refused : wanted, range);
    field.setAttribute("aria-invalid", String(wrong));
  };
  mark(false);
  container.replaceChildren(make("div", { className: "choices" }, field, hint));
  return { value, focus: () => field.focus(), missing: () => say(open ? "number_open_wanted" : "number_missing", range) };
}
