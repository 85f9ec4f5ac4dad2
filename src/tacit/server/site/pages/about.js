/** What the team says about its survey: an introduction, a privacy notice, whom to ask. Text only, never markup. */

import { byId, make } from "./common.js";

const LINK = /(https:\/\/[^\s<>"]+[^\s<>".,;:!?)\]])/;

/** The texts in one language; what has no translation stays in the survey's first language. */
export function textsIn({ translations = {}, ...first }, language) {
  const given = Object.entries(translations[language] ?? {}).filter(([, text]) => text !== null);
  return { ...first, ...Object.fromEntries(given) };
}

/** Fill in what there is. */
export function showTexts({ introduction, privacy_notice: notice, contact, organisation }) {
  byId("brand").textContent = organisation ?? "Tacit";
  byId("icon").hidden = Boolean(organisation);
  byId("introduction").replaceChildren(...paragraphs(introduction));
  byId("notice-text").replaceChildren(...paragraphs(notice));
  byId("notice").hidden = !notice;
  byId("contact-text").replaceChildren(...linked(contact ?? ""));
  byId("contact").hidden = !contact;
  byId("about").hidden = !notice && !contact;
}

/** A text as paragraphs: blank lines part them. */
const paragraphs = (text) =>
  (text ?? "")
    .split(/\n\s*\n/)
    .filter((part) => part.trim())
    .map((part) => make("p", { className: "lines" }, ...linked(part.trim())));

/** A text with its web addresses as links, which tell the other side nothing about this page. */
const linked = (text) =>
  text.split(LINK).map((part, place) => (place % 2 ? make("a", { href: part, rel: "noreferrer noopener" }, part) : part));
