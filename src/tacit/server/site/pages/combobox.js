/** A text field with a filtered list: the combobox pattern of the ARIA Authoring Practices. */

import { make, whole } from "./common.js";
import { say } from "./language.js";

const MAX_MATCHES = 50;

/** What is the same in texts that a person would call the same: case, and blanks around or doubled. */
const plain = (text) => text.trim().replace(/\s+/g, " ").normalize("NFC").toLocaleLowerCase();

/** How many names match, in words. */
function matchCount(found) {
  if (!found) return say("matches_none");
  if (found > MAX_MATCHES) return say("matches_cut", { shown: MAX_MATCHES, count: whole(found) });
  return found === 1 ? say("matches_one") : say("matches", { count: found });
}

/** Chooses one of `names`, which read as `shown` says; `changed` is called with the name, or null while the text is none. */
export class Combobox {
  /** What is shown for each name, in order, and the same as it is compared. */
  #shown;
  #plain;
  #names;
  #id;
  #changed;
  #field;
  #list;
  #count;
  #active = -1;
  /** The places in `names` of the options in the list. */
  #found = [];

  constructor(container, names, { id, label, shown, changed }) {
    this.#names = names;
    this.#shown = names.map(shown);
    this.#plain = this.#shown.map(plain);
    this.#id = id;
    this.#changed = changed;
    this.#list = make("ul", { id: `${id}-list`, role: "listbox", "aria-label": label, hidden: true });
    this.#count = make("p", { className: "soft small", role: "status" });
    this.#field = make("input", {
      type: "text",
      role: "combobox",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: false,
      placeholder: say("search"),
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

  /** The chosen name, or null: what was typed letter by letter, or the only name that differs from it in case alone. */
  value() {
    const exact = this.#shown.indexOf(this.#field.value);
    if (exact >= 0) return this.#names[exact];
    const wanted = plain(this.#field.value);
    const first = this.#plain.indexOf(wanted);
    return first >= 0 && first === this.#plain.lastIndexOf(wanted) ? this.#names[first] : null;
  }

  /** The places of the names that hold what was typed, those that begin with it first. */
  #matching() {
    const wanted = plain(this.#field.value);
    const found = [...this.#plain.keys()].filter((place) => this.#plain[place].includes(wanted));
    const begins = (place) => this.#plain[place].startsWith(wanted);
    return [...found.filter(begins), ...found.filter((place) => !begins(place))];
  }

  focus() {
    this.#field.focus();
  }

  #typed() {
    this.#open();
    this.#changed(this.value());
  }

  #open() {
    const found = this.#matching();
    this.#found = found.slice(0, MAX_MATCHES);
    this.#list.replaceChildren(...this.#found.map((place, index) => this.#option(place, index)));
    this.#list.hidden = !found.length;
    this.#field.setAttribute("aria-expanded", String(found.length > 0));
    this.#count.textContent = matchCount(found.length);
    this.#mark(-1);
  }

  #option(place, index) {
    return make(
      "li",
      {
        id: `${this.#id}-option-${index}`,
        role: "option",
        dir: "auto",
        // The field must not lose the focus, which closes the list, before the click arrives.
        onmousedown: (event) => event.preventDefault(),
        onclick: () => this.#choose(place),
      },
      this.#shown[place],
    );
  }

  #close() {
    this.#list.hidden = true;
    this.#field.setAttribute("aria-expanded", "false");
    this.#field.removeAttribute("aria-activedescendant");
  }

  #choose(place) {
    this.#field.value = this.#shown[place];
    this.#count.textContent = "";
    this.#close();
    this.#changed(this.#names[place]);
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
      if (this.#active >= 0) this.#choose(this.#found[this.#active]);
    }
    if (!step) return;
    event.preventDefault();
    if (this.#list.hidden) this.#open();
    const size = this.#list.children.length;
    if (size) this.#mark(this.#active < 0 && step < 0 ? size - 1 : (this.#active + step + size) % size);
  }
}
