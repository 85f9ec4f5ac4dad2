/** Tacit in the browser: check a plan, randomize an answer, remember the report, send it. */

/** A source of independent uniform words. */
export interface RandomWords {
  /** One uniform integer below 2^bits. */
  integer(bits: number): bigint;
}

/** People who share a prior, a budget and a mechanism. */
export interface Group {
  /** Null if the plan is about everybody. */
  readonly name: string | null;
  /** The promised budget, as the nearest float. */
  readonly epsilon: number;
  /** What the budget bounds: beliefs (`lip`) or odds (`ldp`); the others are audited as `lip`, which implies them. */
  readonly notion: "lip" | "ldp";
  /** An LDP level that is promised as well, as the nearest float; null if there is none. */
  readonly ldpCap: number | null;
  /** The kind of the set of priors for all of which the promise holds; null if it is about one prior. */
  readonly priorSet: string | null;
  /** The mechanism, as plans name it: `table`, integers written out, or a rule such as `many-values`. */
  readonly kind: string;
  /** How many different reports there are; null where they are too many to be listed. */
  readonly nPossibleReports: number | null;
}

/** What is estimated; a survey counts `values`, a matrix has a total for each of `names`. */
export type Task =
  | { readonly kind: "histogram" | "quantiles" | "sum" | "weighted-sum" }
  | { readonly kind: "survey"; readonly values: readonly string[] }
  | { readonly kind: "matrix"; readonly names: readonly string[] };

/** How the cells of one column of raw data are read: a number is put into the bin between two edges. */
export interface RecodedColumn {
  readonly column: string;
  /** The question about it, or what it is in each language; null where there is none. */
  readonly text: string | Readonly<Record<string, string>> | null;
  /** Edges of bins in ascending order, with a label for each bin; empty where there are none. */
  readonly edges: readonly number[];
  readonly labels: readonly string[];
  /** The answer that missing ones count as; null where they are left out. */
  readonly missingAs: string | null;
  /** The name for answers that the plan does not list; null where there is none. */
  readonly other: string | null;
  /** The name that a cell stands for, null where there is none; `known` are the plan's names, for `other`. */
  read(cell: string | number | null | undefined, known?: readonly string[]): string | null;
}

/** How raw data become the answers and groups of a plan. */
export interface Recoding {
  readonly answers: readonly RecodedColumn[];
  /** Several are the parts of crossed groups. */
  readonly groups: readonly RecodedColumn[];
  /** The name of the group of a person with these cells; null where a part is missing. */
  group(cells: readonly (string | number | null | undefined)[]): string | null;
}

/** How far one report can move the belief in an answer to a question, in percentages. */
export interface Belief {
  readonly question: string;
  readonly value: string;
  /** The belief before the report. */
  readonly prior: string;
  /** At least this after it, rounded down. */
  readonly low: string;
  /** At most this after it, rounded up. */
  readonly high: string;
}

/** What a promise says, in numbers, for pages that say it in their own words. */
export interface PromiseParts {
  /** The factor by which any belief can change, rounded up; "∞" if there is none. */
  readonly bound: string;
  /** The factor by which odds can change for any other belief, rounded up; "∞" if there is none. */
  readonly odds: string;
  /** Whether that is all that is promised: where the plan has no prior but the uniform one. */
  readonly oddsOnly: boolean;
  /** Of one private question the belief in the rarest answer, of those that a survey asks for; else null. */
  readonly rarest: Belief | null;
}

/** What is promised for a set of priors, in numbers. */
export interface SetParts {
  /** Which set: within ranges, mixtures of stated priors, or within a distance. */
  readonly kind: "ranges" | "mixtures" | "distance";
  /** The factor by which a belief can change, rounded up; "∞" if there is none. */
  readonly bound: string;
  /** How many stated priors, or the distance in percentage points; empty for ranges. */
  readonly size: string;
}

/** What one report reaches, as exact fractions. */
export interface Levels {
  readonly lip: { readonly n: bigint; readonly d: bigint };
  readonly ldp: { readonly n: bigint; readonly d: bigint } | null;
}

/** A plan that was checked: well-formed, unaltered, and keeping its promise, decided in exact integers. */
export interface Plan {
  /** SHA-256 of the contract, in hexadecimal: it names the plan. */
  readonly hash: string;
  /**
   * The hashes of the plan in all its wordings, oldest first, its own last. The first names the wave: a browser
   * remembers one report for it, whatever the words.
   */
  readonly hashes: readonly string[];
  /** The wave of a survey that is repeated, counted from 1. */
  readonly wave: number;
  /** The hash of the first plan of the series; null in a first wave. */
  readonly series: string | null;
  /** What the reports of one person in the series may add up to, a LIP level n/d; null without a limit. */
  readonly limit: { readonly n: bigint; readonly d: bigint } | null;
  /** The levels of one report, the worst of all groups: LIP as ε, and LDP as a ratio of odds, null if unbounded. */
  readonly levels: Levels;
  /**
   * How the levels of a person's reports in several waves add up: exactly by the belief rule, as one stored report in two
   * layers; null where the plan is not made for that.
   */
  readonly rule: "belief" | "layers" | null;
  /** In two layers the levels of all waves of an answer that stays; null without. */
  readonly lifelong: Levels | null;
  /** SHA-256 of how reports are stored in two layers: plans of which it is the same share them; null without. */
  readonly stored: string | null;
  /** In two layers in how many of all waves the stored report is sent, as a percentage; null without. */
  readonly resend: string | null;
  /** The names of the groups of people without an earlier report: all, but for those that the belief rule makes. */
  readonly firstGroups: readonly (string | null)[];
  /** How raw data become answers and groups; null where the plan does not say. */
  readonly recoding: Recoding | null;
  readonly title: string | null;
  /** What the plan is about: its title, or its only question; null where there is neither. */
  readonly heading: string | null;
  /** What is asked. One question is the case of one. */
  readonly questions: readonly Question[];
  /** Questions that are reported on together, and the probability that a device reports on them. */
  readonly blocks: readonly { readonly questions: readonly string[]; readonly share: number }[];
  /** What is estimated, of a plan of one question; null for several. */
  readonly task: Task | null;
  /** Those of the first block; the others have the same names, budgets and promises. */
  readonly groups: readonly Group[];
  /** What a respondent of the group is promised, in the words of the command line: about one answer, or about all. */
  promise(group: string | null): string;
  /** The numbers in it. */
  promiseParts(group: string | null): PromiseParts;
  /** For whom that holds, where it is promised for sets of priors; else null. */
  setSentence(group: string | null): string | null;
  /** The numbers in it. */
  setParts(group: string | null): SetParts[];
  /** How far a report can move the belief in each answer; where reports are too many to list, in the 20 least likely ones. */
  beliefs(group: string | null): Belief[];
  /** Whether a question is asked, given the answers so far. */
  isAsked(question: string, answers: Answers): boolean;
  /**
   * Combinations of these answers, by block, that nobody is expected to give: nothing is promised about them. `exposed`
   * where people who give them may send a report that nobody else sends.
   */
  outside(group: string | null, answers: Answers): { questions: string[]; exposed: boolean }[];
  /** What is sent for answers, but for its key, drawn with fresh words. */
  draw(record: RecordAnswer, words?: RandomWords, storedWords?: RandomWords): Sent;
  /** A report drawn with fresh words. Two of them are worth less than one: use `respond`, which remembers. */
  randomize(group: string | null, answers: Answers, words?: RandomWords): { block?: number; report: number };
  /** What a report says about each question of its block; null where the mechanism does not write it out. */
  meaning(group: string | null, report: number, block?: number): QuestionMeaning[] | null;
  /** The answer that a report is the best guess of, of one question; null if there is none. */
  guess(group: string | null, report: number): string | null;
  /** Pr(report | value) as a percentage such as "66.4%", of one question; null where it is not written out. */
  chance(group: string | null, value: string, report: number): string | null;
  /** Whether this group can send this report about this block; a report about one question names no block. */
  canSend(group: unknown, report: unknown, block?: unknown, told?: unknown): boolean;
  /** What reports can tell, for the ledger to add up; empty where that is much, or the plan follows another. */
  readonly columns: readonly Column[];
  /** What the stored report of an answer depends on, beside the memory of the browser. */
  storedAbout(record: RecordAnswer): { series: string; stored: string; group: string; position: string };
  /** Weights of the belief in each answer after a report; null where reports are not listed. */
  beliefAfter(group: string | null, report: number): bigint[] | null;
  /** Whether the prior of a group is what this belief becomes some waves later, by the belief rule. */
  follows(group: string, belief: readonly bigint[], waves: number): boolean;
}

/** How likely a report is: by its likelihood, ascending, the largest and least probability of answers that give at least that. */
export type Column = readonly {
  readonly height: bigint;
  readonly high: { readonly n: bigint; readonly d: bigint };
  readonly low: { readonly n: bigint; readonly d: bigint };
}[];

/** Answers by the names of their questions; those of questions that are not asked may be left out. */
export type Answers = Readonly<Record<string, string | number | null | undefined>>;

/** What a person answers. */
export interface RecordAnswer {
  group: string | null;
  answers: Answers;
}

/** One question of a plan. */
export interface Question {
  readonly name: string;
  readonly kind: "one-of" | "yes-no" | "number";
  /** What is estimated: the share of every answer, of the first one, the mean or quantiles; null where the plan's task says it. */
  readonly task: "shares" | "survey" | "mean" | "quantiles" | null;
  readonly numeric: boolean;
  /** As text; for a number the values, in ascending order, that answers are rounded to. */
  readonly answers: readonly string[];
  /** The wording by the code of its language, empty for that of the answers. */
  readonly text: Readonly<Record<string, string>>;
  /** The wording of the answers, in their order, by the code of the language. */
  readonly labels: Readonly<Record<string, readonly string[]>>;
  /** The question "select all that apply" that this one is a choice of. */
  readonly partOf: string | null;
  /** Whether the answer travels as it is. */
  readonly public: boolean;
  /** Asked only after one of these answers to an earlier question; everybody else has the answer "not asked". */
  readonly askedIf: { readonly question: string; readonly answers: readonly string[] } | null;
}

/** What a report says about a question: the belief in each answer before it and after it, in percentages. */
export interface QuestionMeaning {
  readonly question: string;
  readonly answers: readonly { readonly value: string; readonly before: string; readonly after: string }[];
}

/** What is sent, but for its key. */
export interface Sent {
  readonly group: string | null;
  /** The block of questions that the report is about, from 1; plans of one question have none. */
  readonly block?: number;
  readonly report: number;
  /** The answers to public questions, as they are; only where a plan has some. */
  readonly public?: Readonly<Record<string, string>>;
}

/** The report that a browser drew for a plan; the answer is nowhere. */
export interface Remembered extends Sent {
  /** 32 hexadecimal digits that make sending it twice count once. */
  readonly key: string;
  /** The addresses of the surveys whose collector said that it was counted. */
  readonly sent: readonly string[];
}

/** What `respond` returns. */
export interface Drawn extends Remembered {
  /** Whether it was drawn just now, for the answer that was given; if not, for an earlier one. */
  readonly fresh: boolean;
}

/** What is needed of a storage. */
export type Store = Pick<Storage, "getItem" | "setItem" | "removeItem">;

/** Where reports are remembered. */
export interface Memory {
  /** The browser's `localStorage` unless given. */
  storage?: Store;
  /** Tells people apart who share a browser, such as an invitation; only a keyed hash of it is stored. */
  person?: string;
}

/** A report in the ledger of a browser. */
export interface Answered {
  /** The hash of the plan with its first wording: it names the wave. */
  readonly plan: string;
  /** That of the first wave. */
  readonly series: string;
  readonly wave: number;
  readonly question: string | null;
  /** As of `Plan`; in two layers the factors are those of all waves together. */
  readonly rule: "belief" | "layers" | null;
  /** The factor by which this report can change a belief, rounded up. */
  readonly belief: string;
  /** The factor by which it can change odds, for any belief; "∞" if there is none. */
  readonly odds: string;
  /** What was sent, or would be: the report with its key. */
  readonly body: Sent & { readonly key: string };
  /** The addresses of the surveys that counted it. */
  readonly sent: readonly string[];
}

/** What a browser has drawn so far. */
export interface Told {
  readonly answered: readonly Answered[];
  /** The factor by which all reports together can change a belief, rounded up, if one person drew them all. */
  readonly belief: string;
  readonly odds: string;
  /** Whether `belief` comes from all sequences of reports, or from levels that add up exactly; else it is a bound. */
  readonly computed: boolean;
  /** The limit that the person set, a LIP level as a rational; null without one. */
  readonly limit: string | null;
  /** The ledger as a file, in the format of `tacit.files.Ledger`; null if nothing was drawn. */
  readonly file: string | null;
  /** With a plan: the factors of a report of it alone; in two layers those of all waves. */
  readonly alone: { readonly belief: string; readonly odds: string } | null;
  /** With a plan: the factors with a report of it. */
  readonly after: { readonly belief: string; readonly odds: string } | null;
  /** With a plan: whether a report of it is in this browser, maybe of another person. */
  readonly another: boolean;
  /** With a plan: why no report of it may be drawn; null if one may be, or was. */
  readonly refusal: LimitError | null;
  /** With a plan by the belief rule: the group that earlier reports put this browser in; null without any. */
  readonly group: string | null;
}

/** The collector's RSA key: big-endian integers in base64url, as in a JSON Web Key. */
export interface PublicKey {
  readonly n: string;
  readonly e: string;
}

export interface SendOptions extends Memory {
  fetch?: typeof fetch;
  /** A single-use invitation; with `credentialKey` it is exchanged for a blind credential first. */
  invitation?: string | null;
  credentialKey?: PublicKey | null;
  /** How often to try while the trouble may pass; 5 unless given. */
  attempts?: number;
  /** How to wait between attempts; for tests. */
  wait?: (milliseconds: number) => Promise<unknown>;
}

/** The checked plan in a JSON text or object. Throws `PlanError`. */
export function openPlan(json: unknown): Promise<Plan>;

/**
 * The remembered report of this plan, drawn now if there is none; later calls return it, whatever is asked.
 * Throws `StorageError` rather than draw a report that it cannot remember, and `LimitError` rather than draw a second
 * one of the same wave, or one that exceeds a limit.
 */
export function respond(
  plan: Plan,
  answer: RecordAnswer,
  options?: Memory & { words?: RandomWords },
): Promise<Drawn>;

/** The report that was drawn for this plan in this browser, or null. */
export function remembered(plan: Plan, options?: Memory): Promise<Remembered | null>;

/** What this browser has drawn so far, and what it adds up to; with a plan, also with a report of that. */
export function told(options?: Memory, plan?: Plan): Promise<Told>;

/** Limit what the reports of this browser may add up to, a LIP level as a rational such as "5/2"; null for no limit. */
export function setLimit(limit: string | null, options?: Memory): Promise<void>;

/** Forget all reports: this browser can then draw again, and what it has sent stays sent. */
export function erase(options?: Memory): Promise<void>;

/**
 * Post {key, group, [block, ]report[, credential]} to `surveyUrl`/reports, again while trouble may pass, and mark it as sent.
 * Throws `SendError`; with an invitation also `CredentialError`.
 */
export function send(
  plan: Plan,
  surveyUrl: string,
  options?: SendOptions,
): Promise<{ status: "counted" | "already counted" }>;

/** A plan that cannot be used: malformed, altered, or not keeping its promise. */
export class PlanError extends Error {}

/** The browser cannot remember the report, so none is drawn. */
export class StorageError extends Error {}

/** The ledger does not allow a draw: a second one of a wave, one beyond a limit, or by the belief rule one of two people. */
export class LimitError extends Error {
  constructor(reason: "wave" | "plan" | "browser" | "persons", message: string, factors?: { level: string; limit: string } | null);
  readonly reason: "wave" | "plan" | "browser" | "persons";
  /** Of a limit: the factors by which beliefs could change with this report, and by the limit. */
  readonly factors: { readonly level: string; readonly limit: string } | null;
}

/** A credential cannot be blinded, or what came back is not the collector's signature. */
export class CredentialError extends Error {}

/** The collector did not take the report. */
export class SendError extends Error {
  constructor(message: string, status?: number);
  /** Its HTTP status; 0 if it could not be reached. */
  readonly status: number;
}
