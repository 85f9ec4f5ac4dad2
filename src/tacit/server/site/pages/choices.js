/** Ways to choose one of many names: radio buttons for a few, a list that is searched by typing for more. */

import { Combobox } from "./combobox.js";
import { make } from "./common.js";

const MAX_RADIOS = 12;

/**
 * Let a person choose one of `names` inside `container`, labelled by its fieldset; `label` repeats it for fields and
 * `shown` tells how a name reads.
 * Returns {value() -> name or null, focus()}; `changed` is called with the name after each choice.
 */
export function choices(container, names, { id, label, shown = (name) => name, changed = () => {} }) {
  if (names.length <= MAX_RADIOS) return radios(container, names, { id, shown, changed });
  return new Combobox(container, names, { id, label, shown, changed });
}

/** Radio buttons, each in a row that can be touched as a whole. */
export function radios(container, names, { id, shown, changed }) {
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
    make("label", { className: "choice" }, input, make("span", { dir: "auto" }, shown(input.value))),
  );
  container.replaceChildren(make("div", { className: "choices" }, ...rows));
  return { value: () => inputs.find((input) => input.checked)?.value ?? null, focus: () => inputs[0].focus() };
}
