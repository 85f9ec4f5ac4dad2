/** A text field with a filtered list: the combobox pattern of the ARIA Authoring Practices. */

import { make, whole } from "./common.js";

const MAX_MATCHES = 50;

/** The names that hold what was typed, those that begin with it first. */
function matching(names, typed) {
  const wanted = typed.trim().toLocaleLowerCase();
  const found = names.filter((name) => name.toLocaleLowerCase().includes(wanted));
  const begins = (name) => name.toLocaleLowerCase().startsWith(wanted);
  return [...found.filter(begins), ...found.filter((name) => !begins(name))];
}

/** How many names match, in words. */
function matchCount(found) {
  if (!found) return "No answer matches.";
  if (found > MAX_MATCHES) return `The first ${MAX_MATCHES} of ${whole(found)} matches; keep typing.`;
  return found === 1 ? "1 match." : `${found} matches.`;
}

/** Chooses one of `names`; `changed` hears the name, or null while the text is none of them. */
export class Combobox {
  #names;
  #known;
  #id;
  #changed;
  #field;
  #list;
  #count;
  #active = -1;

  constructor(container, names, id, label, changed) {
    this.#names = names;
    this.#known = new Set(names);
    this.#id = id;
    this.#changed = changed;
    this.#list = make("ul", { id: `${id}-list`, role: "listbox", "aria-label": label, hidden: true });
    this.#count = make("p", { className: "soft small", role: "status" });
    this.#field = make("input", {
      type: "text",
      role: "combobox",
      autocomplete: "off",
      spellcheck: false,
      placeholder: "Type to search …",
      dir: "auto",
      "aria-label": label,
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": this.#list.id,
      "data-testid": `${id}-input`,
      oninput: () => this.#typed(),
      onclick: () => this.#open(),
      onblur: () => this.#close(),
      onkeydown: (event) => this.#pressed(event),
    });
    container.replaceChildren(make("div", { className: "combobox" }, this.#field, this.#list), this.#count);
  }

  /** The chosen name, or null. */
  value() {
    return this.#known.has(this.#field.value) ? this.#field.value : null;
  }

  focus() {
    this.#field.focus();
  }

  #typed() {
    this.#open();
    this.#changed(this.value());
  }

  #open() {
    const found = matching(this.#names, this.#field.value);
    this.#list.replaceChildren(...found.slice(0, MAX_MATCHES).map((name, index) => this.#option(name, index)));
    this.#list.hidden = !found.length;
    this.#field.setAttribute("aria-expanded", String(found.length > 0));
    this.#count.textContent = matchCount(found.length);
    this.#mark(-1);
  }

  #option(name, index) {
    return make(
      "li",
      {
        id: `${this.#id}-option-${index}`,
        role: "option",
        dir: "auto",
        // The field must not lose the focus, which closes the list, before the click arrives.
        onmousedown: (event) => event.preventDefault(),
        onclick: () => this.#choose(name),
      },
      name,
    );
  }

  #close() {
    this.#list.hidden = true;
    this.#field.setAttribute("aria-expanded", "false");
    this.#field.removeAttribute("aria-activedescendant");
  }

  #choose(name) {
    this.#field.value = name;
    this.#count.textContent = "";
    this.#close();
    this.#changed(name);
  }

  /** Make the option at `index` the active one; -1 for none. */
  #mark(index) {
    this.#active = index;
    const options = [...this.#list.children];
    options.forEach((option, place) => option.setAttribute("aria-selected", String(place === index)));
    if (index < 0) return this.#field.removeAttribute("aria-activedescendant");
    options[index].scrollIntoView({ block: "nearest" });
    this.#field.setAttribute("aria-activedescendant", options[index].id);
  }

  #pressed(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") this.#close();
    if (event.key === "Enter" && !this.#list.hidden) {
      event.preventDefault();
      if (this.#active >= 0) this.#choose(this.#list.children[this.#active].textContent);
    }
    if (!step) return;
    event.preventDefault();
    if (this.#list.hidden) this.#open();
    const size = this.#list.children.length;
    if (size) this.#mark(this.#active < 0 && step < 0 ? size - 1 : (this.#active + step + size) % size);
  }
}
