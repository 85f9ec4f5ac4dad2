/** A field for a number within a range. */

import { make } from "./common.js";
import { numberName, say } from "./language.js";

/**
 * Let a person enter a number from `first` to `last`, given as texts, inside `container`; `label` names the field.
 * Returns {value() -> number or null, focus(), missing() -> what to ask for}; `changed` is called after each change.
 */
export function numberField(container, [first, last], { id, label, changed = () => {} }) {
  const range = { first: numberName(first), last: numberName(last) };
  const hint = make("p", { id: `${id}-hint`, role: "status" });
  const field = make("input", {
    type: "number",
    min: first,
    max: last,
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
    hint.textContent = say(wrong ? "number_wrong" : "number_wanted", range);
    field.setAttribute("aria-invalid", String(wrong));
  };
  mark(false);
  container.replaceChildren(make("div", { className: "choices" }, field, hint));
  return { value, focus: () => field.focus(), missing: () => say("number_missing", range) };
}
