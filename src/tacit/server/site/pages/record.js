/** The form of a plan of several questions, what its report means, and answers outside of any plan's promise. */

import { choices } from "./choices.js";
import { byId, make, tableRow } from "./common.js";
import { inLanguage, list, local, numberName, say } from "./language.js";
import { binnedField, numberField } from "./number.js";

/** What a person is not offered to choose: it is the answer of those who are not asked. */
const NOT_ASKED = "not asked";

/** The wording of a question, in the language of the page or else in the first there is; its name without any. */
const wording = (question) => inLanguage(question.text) ?? question.name;

/** The labels of the answers in the language of the question's wording; without them, answers read as they are. */
const labelsOf = ({ text, labels }) => {
  const language = document.documentElement.lang;
  return labels[language] ?? labels[[language, "en", ...Object.keys(text)].find((code) => text[code]) ?? "en"];
};

/** How an answer to a question reads. */
const label = (question, value) =>
  labelsOf(question)?.[question.answers.indexOf(value)] ?? (question.numeric ? numberName(value) : value);

/** The same in a table of beliefs, where a number is one that answers are rounded to. */
const tabled = (question, value) =>
  question.kind === "number" ? say("near", { name: label(question, value) }) : label(question, value);

/** The wordings of several questions in one phrase, each in quotes. */
export const wordings = (plan, names) =>
  list(plan.questions.filter(({ name }) => names.includes(name)).map((question) => say("quoted", { name: wording(question) })));

/**
 * Ask all questions inside `container`; those that depend on an earlier answer come and go.
 * Returns {value() -> answers by question, or null while some are missing; missing() -> which is; focus() goes there}.
 */
export function askRecord(container, plan, changed, inSteps) {
  const fields = [];
  const answers = () => Object.assign({}, ...fields.map((field) => field.answers()));
  const asked = (field) => field.names.some((name) => plan.isAsked(name, answers()));
  const steps = inSteps ? new Steps(fields, asked) : null;
  const update = () => {
    for (const field of fields) field.card.hidden = !asked(field) || (steps !== null && !steps.isAt(field));
    changed();
  };
  const seen = new Set();
  for (const question of plan.questions) {
    if (seen.has(question.name)) continue;
    const parts = question.partOf ? plan.questions.filter(({ partOf }) => partOf === question.partOf) : [question];
    for (const { name } of parts) seen.add(name);
    fields.push(question.partOf ? askParts(parts, fields.length, update) : askOne(question, binsOf(plan, question), update));
  }
  container.replaceChildren(...fields.map(({ card }) => card), ...(steps ? [steps.start(update)] : []));
  container.hidden = false;
  update();
  const lacking = () => fields.find((field) => asked(field) && field.missing() !== null);
  return {
    value: () => (lacking() ? null : answers()),
    missing: () => lacking().missing(),
    focus: () => {
      steps?.goTo(lacking());
      lacking().focus();
    },
    next: () => steps !== null && steps.next(),
  };
}

/** One question at a time: back, next, and the rest of the page at the end. */
class Steps {
  #fields;
  #asked;
  #place = 0;
  #update = () => {};
  #told = make("p", { className: "soft small", role: "status", "data-testid": "step" });
  #error = make("p", { className: "error", role: "alert" });
  #back = make("button", { type: "button", onclick: () => this.#move(-1), "data-testid": "back" });
  #next = make("button", { type: "button", className: "primary", onclick: () => this.next(), "data-testid": "next" });

  /** @param fields all of the form, filled in later; `asked` tells which of them are asked */
  constructor(fields, asked) {
    this.#fields = fields;
    this.#asked = asked;
  }

  /** What to press; `update` shows what is current. */
  start(update) {
    this.#back.textContent = say("back");
    this.#next.textContent = say("next");
    this.#update = () => {
      const open = this.#fields.filter(this.#asked);
      this.#back.hidden = this.#place === 0;
      const before = this.#place < this.#fields.length;
      this.#next.hidden = !before;
      byId("finish").hidden = before;
      const at = open.indexOf(this.#fields[this.#place]) + 1;
      this.#told.textContent = at ? say("step", { place: at, count: open.length }) : "";
      this.#error.textContent = "";
      update();
    };
    this.#update();
    return make("div", { className: "stack-tight" }, this.#error, make("div", { className: "row" }, this.#back, this.#next), this.#told);
  }

  /** Whether this is the question to be shown. */
  isAt(field) {
    return this.#fields[this.#place] === field;
  }

  /** Show this question. */
  goTo(field) {
    this.#place = this.#fields.indexOf(field);
    this.#update();
  }

  /** Go on, if the question is answered; false at the end, where there is nothing to go on to. */
  next() {
    const field = this.#fields[this.#place];
    if (!field) return false;
    const missing = field.missing();
    if (missing === null) {
      this.#move(1);
      return true;
    }
    this.#error.textContent = missing;
    field.focus();
    return true;
  }

  /** To the next question that is asked, in this direction, or to the end. */
  #move(direction) {
    do this.#place += direction;
    while (this.#fields[this.#place] && !this.#asked(this.#fields[this.#place]));
    this.#update();
    (this.#fields[this.#place]?.card ?? byId("finish")).scrollIntoView({ block: "nearest" });
  }
}

/** A card with a question, and room for its answers. */
function cardFor(heading, note = "") {
  const room = make("div");
  const fieldset = make("fieldset", {}, make("legend", { dir: "auto" }, heading));
  if (note) fieldset.append(make("p", { className: "soft small" }, note));
  fieldset.append(room);
  return { card: make("div", { className: "card", "data-testid": "asked" }, fieldset), room };
}

/** The recoded column of a question whose answer is a number that becomes a bin on this device; else undefined. */
const binsOf = ({ recoding }, { name }) => recoding?.answers.find(({ column, edges }) => column === name && edges.length);

/** One question: a choice, or a number. */
function askOne(question, bins, changed) {
  const heading = wording(question);
  const { card, room } = cardFor(heading, question.public ? say("group_public") : "");
  const offered = question.askedIf ? question.answers.filter((answer) => answer !== NOT_ASKED) : question.answers;
  const options = { id: question.name, label: heading, shown: (value) => label(question, value), changed };
  const field =
    question.kind === "number"
      ? numberField(room, [question.answers[0], question.answers.at(-1)], options)
      : bins
        ? binnedField(room, bins, options)
        : choices(room, offered, options);
  return {
    card,
    names: [question.name],
    answers: () => ({ [question.name]: field.value() }),
    missing: () => (field.value() === null ? (field.missing?.() ?? say("answer_first", { question: heading })) : null),
    focus: field.focus.bind(field),
  };
}

/** "Select all that apply": a box for each question of yes or no, and one for none of them. */
function askParts(parts, place, changed) {
  const heading = parts[0].partOf;
  const { card, room } = cardFor(heading, say("select_all"));
  const box = (testid, text) => {
    const input = make("input", { type: "checkbox", "data-testid": testid });
    return { input, row: make("label", { className: "choice" }, input, make("span", { dir: "auto" }, text)) };
  };
  const boxes = parts.map((question) => box(`${question.name}-box`, wording(question)));
  const none = box(`none-${place}`, say("none_of_these"));
  for (const { input } of boxes)
    input.onchange = () => {
      if (input.checked) none.input.checked = false;
      changed();
    };
  none.input.onchange = () => {
    if (none.input.checked) for (const { input } of boxes) input.checked = false;
    changed();
  };
  room.append(make("div", { className: "choices" }, ...boxes.map(({ row }) => row), none.row));
  const given = () => none.input.checked || boxes.some(({ input }) => input.checked);
  return {
    card,
    names: parts.map(({ name }) => name),
    // The first answer is the one that is counted: yes.
    answers: () =>
      Object.fromEntries(parts.map(({ name, answers }, k) => [name, given() ? answers[boxes[k].input.checked ? 0 : 1] : null])),
    missing: () => (given() ? null : say("select_first", { question: heading, none: say("none_of_these") })),
    focus: () => boxes[0].input.focus(),
  };
}

/** The promise about the whole record, in the plan's own numbers. */
export function recordPromise(plan, group) {
  const { bound, odds, oddsOnly } = plan.promiseParts(group);
  return say(oddsOnly ? "promise_odds" : "promise_record", { bound: local(bound), odds: local(odds) });
}

/** How numbers are rounded, where there are some. */
export const betweenNote = (plan) =>
  plan.questions
    .filter(({ kind }) => kind === "number")
    .map((question) => {
      const knots = question.answers.map(numberName);
      return `${wording(question)} ${say("between", { knots: list(knots), first: knots[0] })}`;
    })
    .join(" ");

/** How far a report can move the belief in each answer: rows for a table, by question. */
export function beliefRows(plan, group) {
  const beliefs = plan.beliefs(group);
  return byQuestion(plan, (question) =>
    beliefs
      .filter((belief) => belief.question === question.name)
      .map(({ value, prior, high, low }) => tableRow(tabled(question, value), [prior, high, low].map(local))),
  );
}

/** Rows for each question that has some, below its wording. */
function byQuestion(plan, rowsOf) {
  return plan.questions.flatMap((question) => {
    const rows = rowsOf(question);
    const head = make("th", { scope: "rowgroup", colSpan: 4, dir: "auto", className: "over" }, wording(question));
    return rows.length ? [make("tr", {}, head), ...rows] : [];
  });
}

/** What is said about combinations of answers that the promise does not cover; nothing where it covers all. */
export function outsideRecord(plan, group, answers) {
  const [found] = plan.outside(group, answers);
  if (!found) return "";
  const said = plan.questions.length > 1 ? say("outside_record", { questions: wordings(plan, found.questions) }) : say("outside");
  return found.exposed ? `${said} ${say("exposed")}` : said;
}

/** Fill in what a report means: its questions, and the belief in each answer before and after it. */
export function describeRecord(plan, { group, block, report }) {
  const { questions: names } = plan.blocks[block - 1];
  const questions = wordings(plan, names);
  byId("meaning-heading").textContent = say("meaning_record");
  byId("guess").textContent = `${say("about_block", { questions })} ${recordPromise(plan, group)}`;
  const meaning = plan.meaning(group, report, block);
  byId("chance-table").hidden = meaning === null;
  byId("chance-head").replaceChildren(
    ...["belief_answer", "belief_before", "belief_after"].map((key) => make("th", { scope: "col" }, say(key))),
  );
  const rows = byQuestion(plan, (question) =>
    (meaning?.find((told) => told.question === question.name)?.answers ?? []).map(({ value, before, after }) =>
      tableRow(tabled(question, value), [local(before), local(after)]),
    ),
  );
  byId("chances").replaceChildren(...rows);
  byId("chances-note").textContent = meaning === null ? "" : say("guess_record");
}
