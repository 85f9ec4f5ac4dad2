/** The words of the survey page and the dashboard, in the survey's language; English until another one is loaded. */

import english from "./languages/en.js";
import { make } from "./common.js";

let words = english;
let code = "en";

/** The languages of the pages, as they call themselves. */
export const LANGUAGES = { en: "English", de: "Deutsch", es: "Español", fr: "Français" };
let chosen = false;

/** Use this language from now on, and fill in all elements of the page that wait for words. */
export async function speak(language) {
  words = language === "en" ? english : (await import(`./languages/${language}.js`)).default;
  chosen = true;
  code = language;
  document.documentElement.lang = code;
  for (const element of document.querySelectorAll("[data-say]")) write(element, say(element.dataset.say));
  for (const element of document.querySelectorAll("[data-label]")) element.ariaLabel = say(element.dataset.label);
  for (const element of document.querySelectorAll("[data-label-table]"))
    element.ariaLabel = say("board_table", { what: say(element.dataset.labelTable) });
}

/** Use the language that the visitor's browser prefers, where the survey's own is not known. */
export async function speakSomething() {
  const wanted = navigator.languages.map((each) => each.slice(0, 2)).find((each) => each in LANGUAGES);
  if (!chosen) await speak(wanted ?? "en").catch(() => speak("en"));
}

/** A sentence of this language; what stands in braces is replaced by `values`. */
export const say = (key, values = {}) => words[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);

/** Write a sentence into an element; what stands between backticks becomes code. */
export function write(element, sentence) {
  const parts = sentence.split("`").map((part, place) => (place % 2 ? make("code", {}, part) : part));
  element.replaceChildren(...parts);
}

/** A decimal number or percentage, exact in its digits, as this language writes it: 27.2% is 27,2 % in German. */
export function local(number) {
  const point = new Intl.NumberFormat(code).formatToParts(1.5).find(({ type }) => type === "decimal").value;
  return number.replace(/(\.\d+)?(%?)$/, (_, decimals = "", percent) => {
    const space = percent && code !== "en" ? "\u00a0" : "";
    return decimals.replace(".", point) + space + percent;
  });
}

/** A number of a plan without the zeros that Python writes: 2500.0 is 2500. */
export const numberName = (number) => local(number.replace(/\.0+$/, ""));

/** An answer as people read it. */
export const answerName = ({ numeric }, value) => (numeric ? numberName(value) : value);

/** The same inside a sentence, where names stand in quotes. */
export const quotedAnswer = (question, value) =>
  question.numeric ? answerName(question, value) : say("quoted", { name: value });

/** A text that a plan holds in several languages: in this one, else in English, else in the first there is. */
export const inLanguage = (texts) => texts[code] ?? texts.en ?? Object.values(texts)[0];

/** Several things in one phrase. */
export const list = (names) => new Intl.ListFormat(code === "en" ? "en-GB" : code).format(names);
