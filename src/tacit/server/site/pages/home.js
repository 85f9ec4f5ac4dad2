/** The team's page: the surveys of this service; opening, ending, closing and deleting them, texts and invitations. */

import {
  address,
  byId,
  copy,
  dashboardPage,
  dayName,
  download,
  make,
  questionOf,
  request,
  requestJson,
  showOnly,
  surveyPage,
  surveyUrl,
  token,
  whole,
} from "./common.js";
import { LANGUAGES } from "./language.js";

const sections = ["signin", "team"].map(byId);

/** One request of the team. */
const ask = (url, options) => requestJson(url, { ...options, team: true });

// -- the list -------------------------------------------------------------------------------------------------------

/** Fetch the list and show it; a wrong token leads back to the question for it. */
async function refresh() {
  const surveys = await guarded(
    () => ask(address("api/surveys")),
    byId("team").hidden ? byId("signin-error") : byId("trouble"),
  );
  if (!surveys) return;
  if (byId("team").hidden) showOnly(byId("team"), sections);
  byId("signout").hidden = false;
  byId("none").hidden = surveys.length > 0;
  byId("surveys").replaceChildren(...surveys.map(surveyRow));
}

/** What a task gives; if it fails, the reason is said in `place` and nothing is given. */
async function guarded(task, place) {
  place.textContent = "";
  try {
    return await task();
  } catch (error) {
    if (error.status !== 401) place.textContent = error.message;
    else signOut(token.get() ? "This is not the token of this service." : "");
    return null;
  }
}

/** Forget the token and ask for it. */
function signOut(complaint) {
  token.clear();
  byId("signout").hidden = true;
  byId("surveys").replaceChildren();
  showOnly(byId("signin"), sections, { focus: false });
  byId("signin-error").textContent = complaint;
  byId("token").focus();
}

/** One survey: what it asks, how it goes, what can be done. */
function surveyRow(survey) {
  const { id, open, n_reports: reports } = survey;
  const facts = [
    make("span", { className: open ? "pill open" : "pill" }, open ? "open" : "closed"),
    make("span", {}, `${whole(reports)} ${reports === 1 ? "report" : "reports"}`),
    make("span", {}, `since ${dayName(survey.opened)}`),
    make("span", {}, survey.public_results ? "results public" : "results for the team"),
  ];
  if (survey.wave > 1) facts.unshift(make("span", {}, `wave ${survey.wave}`));
  if (open && survey.ends) facts.push(make("span", {}, `until ${dayName(survey.ends)}`));
  if (survey.invited) facts.push(make("span", {}, "by invitation"));
  const heading = make("h2", { dir: "auto", id: `survey-${id}` }, questionOf(survey));
  const button = (text, act, className = "") =>
    make("button", { type: "button", className, "aria-describedby": heading.id, onclick: act }, text);
  const link = (text, path) => make("a", { className: "button", href: path, "aria-describedby": heading.id }, text);
  const actions = [
    link("Survey page", surveyPage(id)),
    link("Results", dashboardPage(id)),
    button("Copy the link", (event) => copy(surveyPage(id), event.target)),
  ];
  if (open) actions.push(button("Texts …", () => openTexts(survey)));
  if (survey.invited && open) actions.push(button("Invitations …", () => openInvitations(survey)));
  actions.push(
    button(survey.public_results ? "Make results private" : "Make results public", () =>
      change(
        survey,
        { public_results: !survey.public_results },
        "The results are now " + (survey.public_results ? "for the team only." : "public."),
      ),
    ),
  );
  if (open) actions.push(button("Last day …", () => openEnd(survey)));
  actions.push(button("Download the tally", () => downloadTally(survey)), button("Next wave …", () => confirmWave(survey)));
  if (open) actions.push(button("Close …", () => confirmClosing(survey), "danger"));
  actions.push(button("Delete …", () => confirmDeleting(survey), "danger"));
  return make(
    "li",
    { className: "card stack", "data-testid": "survey-row", "data-id": id },
    heading,
    make("p", { className: "row soft small" }, ...facts),
    make("div", { className: "row" }, ...actions),
  );
}

/** Change a survey, say so, and show the list again. */
async function change(survey, body, said) {
  const changed = await guarded(() => ask(surveyUrl(survey.id), { method: "PATCH", body }), byId("trouble"));
  if (!changed) return;
  byId("message").textContent = said;
  await refresh();
  document.querySelector(`[data-id="${survey.id}"] a`)?.focus();
}

/** Ask before something that cannot be undone; `act` is called with a yes. */
function confirm(survey, heading, text, yes, act) {
  byId("confirm-heading").textContent = heading;
  byId("confirm-question").textContent = questionOf(survey);
  byId("confirm-text").textContent = text;
  byId("confirm-yes").textContent = yes;
  byId("confirm-yes").onclick = () => {
    byId("confirm-dialog").close();
    act();
  };
  byId("confirm-dialog").showModal();
  byId("confirm-no").focus();
}

/** Ask before closing. */
const confirmClosing = (survey) =>
  confirm(
    survey,
    "Close this survey?",
    "Closing is final: it takes no more reports and cannot be opened again. The results stay.",
    "Close for good",
    () => change(survey, { open: false }, "The survey is closed."),
  );

/** Ask before deleting. */
const confirmDeleting = (survey) =>
  confirm(
    survey,
    "Delete this survey?",
    `Its ${whole(survey.n_reports)} reports, its results and its texts are deleted for good. Download the tally first if you may need it.`,
    "Delete for good",
    () => manage(survey, "", { method: "DELETE" }, () => "The survey is deleted."),
  );

/** Ask before people are asked again. */
const confirmWave = (survey) =>
  confirm(
    survey,
    "Open the next wave?",
    "A new survey with the same plan and settings, one wave later, at an address of its own. Browsers ask again and draw " +
      "a new report, and several reports of one person reveal more than one. This survey stays as it is. For a plan with " +
      "this wave's results as its prior, use “tacit next” and open its file below.",
    "Open it",
    () =>
      manage(survey, "/copies?next_wave=true", { method: "POST" }, ({ id }) => `The next wave is open at ${surveyPage(id)}`),
  );

/** Do something with a survey, say so, and show the list again. */
async function manage(survey, path, options, said) {
  const done = await guarded(() => ask(surveyUrl(survey.id) + path, options), byId("trouble"));
  if (!done) return;
  byId("message").textContent = said(done);
  await refresh();
}

/** Show the dialog for the last day. */
function openEnd(survey) {
  byId("ends-question").textContent = questionOf(survey);
  byId("last-day").value = survey.ends ?? "";
  byId("ends-error").textContent = "";
  byId("ends").onsubmit = async (event) => {
    event.preventDefault();
    const ends = byId("last-day").value || null;
    if (!(await guarded(() => ask(surveyUrl(survey.id), { method: "PATCH", body: { ends } }), byId("ends-error")))) return;
    byId("ends-dialog").close();
    byId("message").textContent = ends ? `The survey ends after ${dayName(ends)}.` : "The survey has no last day.";
    await refresh();
  };
  byId("ends-dialog").showModal();
}

/** Hand over the tally, as “tacit estimate” reads it. */
async function downloadTally(survey) {
  const found = await guarded(() => request(`${surveyUrl(survey.id)}/tally`, { team: true }), byId("trouble"));
  if (found) download(await found.blob(), `tacit-${survey.id}-tally.json`);
}

// -- texts ----------------------------------------------------------------------------------------------------------

const WORDING = ["introduction", "consent", "privacy_notice", "contact"];

/** Show the dialog with what a survey's page says. */
async function openTexts(survey) {
  const texts = await guarded(() => ask(`${surveyUrl(survey.id)}/texts`), byId("trouble"));
  if (!texts) return;
  const form = byId("texts");
  const { translations, ...first } = texts;
  // The first language, and the one that is written in: its texts are those of the survey, or a translation.
  let [main, written] = [first.language, first.language];
  const store = () => {
    for (const name of ["organisation", "layout"]) first[name] = form.elements[name].value.trim() || null;
    const into = written === main ? first : translations[written];
    const names = written === main ? WORDING : [...WORDING, "group_question"];
    for (const name of names) into[name] = form.elements[name].value.trim() || null;
  };
  const show = () => {
    const said = written === main ? first : translations[written];
    for (const name of [...WORDING, "group_question"]) form.elements[name].value = said[name] ?? "";
    byId("translated-group").hidden = written === main;
    const offered = [main, ...Object.keys(translations)];
    byId("written").replaceChildren(...offered.map((code) => make("option", { value: code }, LANGUAGES[code])));
    byId("written").value = written;
    byId("also").replaceChildren(...Object.keys(LANGUAGES).filter((code) => code !== main).map(box));
  };
  const box = (code) => {
    const input = make("input", { type: "checkbox", checked: code in translations, "data-testid": `also-${code}` });
    input.onchange = () => {
      store();
      if (input.checked) translations[code] = {};
      else delete translations[code];
      written = input.checked ? code : main;
      show();
      document.querySelector(`[data-testid="also-${code}"]`).focus();
    };
    return make("label", { className: "tick", lang: code }, input, LANGUAGES[code]);
  };
  form.elements.language.replaceChildren(...Object.entries(LANGUAGES).map(([value, name]) => make("option", { value }, name)));
  for (const name of ["organisation", "language", "layout"]) form.elements[name].value = first[name] ?? "";
  form.elements.language.onchange = ({ target }) => {
    store();
    const { group_question: _, ...there } = translations[target.value] ?? {};
    // A translation that becomes the first language changes places with it.
    if (target.value in translations) translations[main] = Object.fromEntries(WORDING.map((name) => [name, first[name]]));
    Object.assign(first, there);
    delete translations[target.value];
    main = written = first.language = target.value;
    show();
  };
  byId("written").onchange = ({ target }) => {
    store();
    written = target.value;
    show();
  };
  show();
  byId("texts-error").textContent = "";
  form.onsubmit = async (event) => {
    event.preventDefault();
    store();
    const body = { ...first, translations };
    const url = `${surveyUrl(survey.id)}/texts`;
    if (!(await guarded(() => ask(url, { method: "PUT", body }), byId("texts-error")))) return;
    byId("texts-dialog").close();
    byId("message").textContent = "The survey page says it from now on.";
  };
  byId("texts-dialog").showModal();
}

// -- invitations ----------------------------------------------------------------------------------------------------

/** Show the dialog that makes invitations for a survey. */
function openInvitations(survey) {
  byId("invite-links").hidden = true;
  byId("links").value = "";
  byId("invite-error").textContent = "";
  byId("invite").onsubmit = (event) => {
    event.preventDefault();
    makeInvitations(survey);
  };
  byId("save-links").onclick = () =>
    download(new Blob([byId("links").value + "\n"], { type: "text/plain" }), `tacit-${survey.id}-invitations.txt`);
  byId("invite-dialog").showModal();
  byId("invite-count").focus();
}

/** Make as many as asked for, and show their links. */
async function makeInvitations(survey) {
  if (!byId("invite-count").checkValidity()) {
    byId("invite-error").textContent = "Give a whole number from 1 to 100,000.";
    return;
  }
  const body = { count: byId("invite-count").valueAsNumber };
  const made = await guarded(
    () => ask(`${surveyUrl(survey.id)}/invitations`, { method: "POST", body }),
    byId("invite-error"),
  );
  if (!made) return;
  byId("links").value = made.invitations.map((each) => `${surveyPage(survey.id)}#invitation=${each}`).join("\n");
  byId("invite-links").hidden = false;
  byId("links").focus();
}

// -- opening a survey -----------------------------------------------------------------------------------------------

let plan = null;

/** Read a plan file, and say what is in it. */
async function readPlan(file) {
  plan = null;
  byId("create-error").textContent = "";
  try {
    const read = JSON.parse(await file.text());
    const [{ groups }] = read.blocks;
    const named = groups.filter(({ group }) => group !== null).length;
    byId("group-part").hidden = !named;
    const [{ text, answers }, ...more] = read.questions;
    const asked = more.length ? `${whole(read.questions.length)} questions` : `${whole(answers.length)} answers`;
    const title = questionOf({ question: read.title ?? (more.length ? null : Object.values(text ?? {})[0] ?? null) });
    byId("plan-summary").textContent = `${file.name}: ${title} ${asked}${named ? `, ${whole(named)} groups` : ""}.`;
    plan = read;
  } catch {
    byId("plan-summary").textContent = "Choose the file or drop it here.";
    byId("create-error").textContent = `${file.name} is not a plan. Expected the JSON file that “tacit plan” writes.`;
  }
}

/** Open a survey with the plan that was read. */
async function create(event) {
  event.preventDefault();
  if (!plan) {
    byId("create-error").textContent ||= "Choose a plan file first.";
    byId("plan-file").focus();
    return;
  }
  const body = {
    plan,
    public_results: byId("public-results").checked,
    invited: byId("invited").checked,
    group_question: byId("group-question").value.trim() || null,
  };
  const made = await guarded(() => ask(address("api/surveys"), { method: "POST", body }), byId("create-error"));
  if (!made) return;
  plan = null;
  byId("create").reset();
  byId("group-part").hidden = true;
  byId("plan-summary").textContent = "Choose the file or drop it here.";
  byId("message").textContent = `The survey is open at ${surveyPage(made.id)}`;
  await refresh();
}

/** Take files that are dropped on the box. */
function takeDrops(box) {
  for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
    box.addEventListener(name, (event) => {
      event.preventDefault();
      box.classList.toggle("over", name === "dragenter" || name === "dragover");
    });
  }
  box.addEventListener("drop", ({ dataTransfer }) => dataTransfer.files[0] && readPlan(dataTransfer.files[0]));
}

byId("signin").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(byId("token").value.trim());
  byId("token").value = "";
  refresh();
});
byId("signout").addEventListener("click", () => signOut(""));
byId("plan-file").addEventListener("change", ({ target }) => target.files[0] && readPlan(target.files[0]));
byId("create").addEventListener("submit", create);
byId("confirm-no").addEventListener("click", () => byId("confirm-dialog").close());
byId("ends-done").addEventListener("click", () => byId("ends-dialog").close());
byId("texts-done").addEventListener("click", () => byId("texts-dialog").close());
byId("invite-done").addEventListener("click", () => byId("invite-dialog").close());
takeDrops(byId("drop"));
if (token.get()) refresh();
