/** Ways to choose one of many names: radio buttons for a few, a select for dozens, a filtered list for more. */

import { Combobox } from "./combobox.js";
import { make } from "./common.js";

const MAX_RADIOS = 12;
const MAX_OPTIONS = 200;

/**
 * Let a person choose one of `names` inside `container`, labelled by its fieldset; `label` repeats it for fields.
 * Returns {value() -> name or null, focus()}; `changed` is called with the name after each choice.
 */
export function choices(container, names, { id, label, changed = () => {} }) {
  if (names.length <= MAX_RADIOS) return radios(container, names, id, changed);
  if (names.length <= MAX_OPTIONS) return options(container, names, id, label, changed);
  return new Combobox(container, names, id, label, changed);
}

/** Radio buttons, each in a row that can be touched as a whole. */
function radios(container, names, id, changed) {
  const inputs = names.map((name, index) =>
    make("input", {
      type: "radio",
      name: id,
      value: name,
      "data-testid": `${id}-${index}`,
      onchange: () => changed(name),
    }),
  );
  const rows = inputs.map((input) =>
    make("label", { className: "choice" }, input, make("span", { dir: "auto" }, input.value)),
  );
  container.replaceChildren(make("div", { className: "choices" }, ...rows));
  return { value: () => inputs.find((input) => input.checked)?.value ?? null, focus: () => inputs[0].focus() };
}

/** A select that starts with nothing chosen. */
function options(container, names, id, label, changed) {
  const field = make(
    "select",
    { "aria-label": label, "data-testid": `${id}-select`, onchange: () => changed(field.value) },
    make("option", { value: "", disabled: true, selected: true }, "Choose one …"),
    ...names.map((name) => make("option", { value: name }, name)),
  );
  container.replaceChildren(make("div", { className: "choices" }, field));
  return { value: () => field.value || null, focus: () => field.focus() };
}
