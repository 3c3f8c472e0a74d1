/**
 * The filter of runs: words, and comparisons such as `objective.beta=4` or `mig>0.3`, all of which
 * must hold. The last part of a setting's name and the first or last part of a score's name will do.
 */
import type { RunData } from "../../bundle";
import { isolated } from "../../text";
import { valueText, type Column, type Value } from "./columns";

export type Test = (run: RunData) => boolean;

interface Term {
  /** The text as it was written. */
  text: string;
  key: string;
  /** "" for a word. */
  operator: string;
  value: string;
}

// Between quotation marks, \" and \\ stand for " and \.
const COMPARISON =
  /("(?:[^"\\]|\\[^])*"|[^\s"<>=!]+)?\s*(!=|<=|>=|=|<|>)\s*("(?:[^"\\]|\\[^])*"|[^\s"<>=!][^\s"]*)?/y;
const WORD = /"(?:[^"\\]|\\[^])*"|[^\s"]+/y;

/**
 * Read a filter. Throws an Error that says what is wrong with it.
 *
 * @param columns All columns that it may name; of those that a short name may mean, one that tells
 *     runs apart goes first.
 */
export function parseFilter(text: string, columns: readonly Column[]): Test {
  const { terms, mistake } = scan(text);
  if (mistake) throw mistake;
  const tests = terms.map((term) =>
    term.operator ? comparison(term, columns) : word(term, columns),
  );
  return (run) => tests.every((test) => test(run));
}

interface Scanned {
  terms: Term[];
  /** The text from the first mistake on; "" without one. */
  rest: string;
  mistake: Error | null;
}

function scan(text: string): Scanned {
  const terms: Term[] = [];
  let place = skipSpace(text, 0);
  while (place < text.length) {
    try {
      const [term, end] = termAt(text, place);
      terms.push(term);
      place = skipSpace(text, end);
    } catch (mistake) {
      return { terms, rest: text.slice(place), mistake: mistake as Error };
    }
  }
  return { terms, rest: "", mistake: null };
}

function skipSpace(text: string, place: number): number {
  return place + /^\s*/.exec(text.slice(place))![0].length;
}

function termAt(text: string, place: number): [Term, number] {
  COMPARISON.lastIndex = WORD.lastIndex = place;
  const [whole, key, operator, value] = COMPARISON.exec(text) ?? [];
  if (whole) {
    const term = {
      text: whole.trim(),
      key: unquoted(key ?? ""),
      operator: operator!,
      value: unquoted(value ?? ""),
    };
    if (!term.key)
      throw new Error(
        `“${isolated(term.text)}” has no name before “${term.operator}”. Write, for example, mig>0.3.`,
      );
    if (value === undefined)
      throw new Error(
        `“${isolated(term.text)}” has no value. Write, for example, ${isolated(`${term.text}0.3`)}.`,
      );
    return [term, COMPARISON.lastIndex];
  }
  const plain = WORD.exec(text)?.[0];
  if (!plain) throw new Error(`A quotation mark is not closed: ${isolated(text.slice(place))}`);
  return [{ text: plain, key: "", operator: "", value: unquoted(plain) }, WORD.lastIndex];
}

function unquoted(text: string): string {
  return text.startsWith('"') ? text.slice(1, -1).replace(/\\(["\\])/g, "$1") : text;
}

/** A word must be in the name, the state, the digest or a setting. */
function word(term: Term, columns: readonly Column[]): Test {
  const wanted = term.value.toLowerCase();
  const read = columns.filter((column) => column.kind === "about" || column.kind === "setting");
  return (run) =>
    run.id.toLowerCase().startsWith(wanted) ||
    read.some(
      (column) =>
        typeof column.value(run) === "string" &&
        valueText(column.value(run)).toLowerCase().includes(wanted),
    );
}

function comparison(term: Term, columns: readonly Column[]): Test {
  const column = resolve(term.key, columns);
  if (term.operator === "=") return (run) => equal(column.value(run), term.value);
  if (term.operator === "!=") return (run) => !equal(column.value(run), term.value);
  const [compare, bound] = [COMPARE[term.operator]!, Number(term.value)];
  if (term.value.trim() === "" || Number.isNaN(bound)) {
    throw new Error(
      `“${isolated(term.text)}” compares with “${isolated(term.value)}”, which is not a number.`,
    );
  }
  return (run) => {
    const value = column.value(run);
    return typeof value === "number" && compare(value, bound);
  };
}

const COMPARE: Record<string, (a: number, b: number) => boolean> = {
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
};

/** Numbers are equal as numbers; text without regard to case; "-" is a missing value. */
function equal(value: Value, wanted: string): boolean {
  if (value === undefined || value === null)
    return wanted === "-" || wanted === "–" || wanted === "null";
  if (typeof value === "number") return wanted !== "" && value === Number(wanted);
  return String(value).toLowerCase() === wanted.toLowerCase();
}

/** The column of a name: the whole of it, the end of a setting's, or a part of a score's. */
export function resolve(name: string, columns: readonly Column[]): Column {
  const wanted = name.toLowerCase();
  const exact = columns.find(({ key }) => key.toLowerCase() === wanted);
  if (exact) return exact;
  const meant = columns.filter(({ key }) => isShort(wanted, key.toLowerCase()));
  const different = meant.filter((column) => column.differs);
  const found = different.length > 0 ? different : meant;
  if (found.length === 1) return found[0]!;
  if (found.length === 0)
    throw new Error(
      `No setting or score is called “${isolated(name)}”. ${suggestion(wanted, columns)}`,
    );
  throw new Error(
    `“${isolated(name)}” may be ${found.map(({ key }) => isolated(key)).join(" or ")}. Write one of them.`,
  );
}

function isShort(name: string, key: string): boolean {
  return key.endsWith(`.${name}`) || key.endsWith(`/${name}`) || key.startsWith(`${name}/`);
}

function suggestion(name: string, columns: readonly Column[]): string {
  const near = columns.filter(({ key }) => key.toLowerCase().includes(name)).slice(0, 4);
  const shown = near.length > 0 ? near : columns.slice(0, 4);
  return `There ${shown.length === 1 ? "is" : "are"}, for example, ${shown.map(({ key }) => isolated(key)).join(", ")}.`;
}

/** The filter with the bounds of one column replaced; null bounds are none. */
export function withRange(
  text: string,
  key: string,
  low: number | null,
  high: number | null,
): string {
  const bounds = [
    low === null ? "" : termText(key, ">=", low),
    high === null ? "" : termText(key, "<=", high),
  ];
  return withTerms(text, key, bounds);
}

/** The filter with the value of one column replaced; null is any value. */
export function withValue(text: string, key: string, value: string | null): string {
  return withTerms(text, key, [value === null ? "" : `${quoted(key)}=${quoted(value)}`]);
}

/** The bounds of a column in a filter, and the value that it asks for. */
export function rangeOf(
  text: string,
  key: string,
): { low: number | null; high: number | null; value: string | null } {
  const own = scan(text).terms.filter((term) => term.key === key);
  const bound = (operator: string) => {
    const term = own.find((each) => each.operator === operator);
    return term ? Number(term.value) : null;
  };
  return {
    low: bound(">="),
    high: bound("<="),
    value: own.find((term) => term.operator === "=")?.value ?? null,
  };
}

/** The filter with other terms of one column. What cannot be read stays, behind what can. */
function withTerms(text: string, key: string, added: readonly string[]): string {
  const { terms, rest } = scan(text);
  const others = terms.filter((term) => term.key !== key).map((term) => term.text);
  return [...others, ...added, rest].filter(Boolean).join(" ");
}

function termText(key: string, operator: string, value: number): string {
  return `${quoted(key)}${operator}${value}`;
}

function quoted(text: string): string {
  if (text !== "" && !/[\s<>=!"]/.test(text)) return text;
  return `"${text.replace(/["\\]/g, "\\$&")}"`;
}

const DIGITS = 4;

/** A bound of a brush in few digits, rounded so that nothing inside of the brush is left out. */
export function outwards(value: number, end: "low" | "high"): number {
  if (Number.isInteger(value)) return value;
  const near = +value.toPrecision(DIGITS);
  if (end === "low" ? near <= value : near >= value) return near;
  const step = 10 ** (Number(value.toExponential().split("e")[1]) + 1 - DIGITS);
  return +(end === "low" ? near - step : near + step).toPrecision(DIGITS);
}
