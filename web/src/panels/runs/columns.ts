/** The columns of the table of runs: about the run, settings that differ, and scores. */
import type { RunData, Setting } from "../../bundle";

export type Value = Setting | undefined;

export interface Column {
  /** "name", "state", "step", the dotted name of a setting, or the name of a score. */
  key: string;
  kind: "about" | "setting" | "score";
  /** Whether it tells runs apart. */
  differs: boolean;
  value: (run: RunData) => Value;
}

const ABOUT: Column[] = [
  { key: "name", kind: "about", differs: true, value: (run) => run.name },
  { key: "state", kind: "about", differs: true, value: (run) => run.state },
  { key: "step", kind: "about", differs: true, value: (run) => run.step },
];

/** All columns that a filter may name. */
export function allColumns(runs: readonly RunData[]): Column[] {
  const told = new Set(differing(runs.map(settingsOf)));
  const settings = names(runs, settingsOf).map((key) => setting(key, told.has(key)));
  return [...ABOUT, ...settings, ...names(runs, (run) => run.scores).map(score)];
}

/** Name, state, the settings that differ, the seed if there are several, and the scores. */
export function tableColumns(runs: readonly RunData[]): Column[] {
  const seeds = new Set(runs.map((run) => run.settings["seed"])).size > 1 ? ["seed"] : [];
  const settings = [...differing(runs.map(settingsOf)), ...seeds].map((key) => setting(key, true));
  const about = ABOUT.filter(({ key }) => key !== "step");
  return [...about, ...settings, ...names(runs, (run) => run.scores).map(score)];
}

function settingsOf(run: RunData): Record<string, Setting> {
  return run.settings;
}

function setting(key: string, differs: boolean): Column {
  return { key, kind: "setting", differs, value: (run) => run.settings[key] };
}

function score(key: string): Column {
  return { key, kind: "score", differs: true, value: (run) => run.scores[key] };
}

function names(runs: readonly RunData[], part: (run: RunData) => object): string[] {
  return [...new Set(runs.flatMap((run) => Object.keys(part(run))))];
}

/**
 * The settings, other than the seed, that tell runs apart. A setting that only some have is listed
 * only if it is needed: the critic of one objective follows from the kind of the objective.
 */
export function differing(every: readonly Record<string, Setting>[]): string[] {
  const keys = [...new Set(every.flatMap((each) => Object.keys(each)))].filter((key) => key !== "seed");
  const chosen = keys.filter((key) => new Set(every.filter((each) => key in each).map((each) => each[key])).size > 1);
  if (distinct(every, chosen) === distinct(every, keys)) return chosen;
  return keys.filter((key) => chosen.includes(key) || every.some((each) => !(key in each)));
}

/** How many combinations of values there are. */
export function distinct(every: readonly Record<string, Setting>[], keys: readonly string[]): number {
  return new Set(every.map((each) => JSON.stringify(keys.map((key) => each[key] ?? null)))).size;
}

/** The columns that tell most about runs, in their own order; those that tell nothing are left out. */
export function mostTelling(columns: readonly Column[], runs: readonly RunData[], most: number): Column[] {
  const told = new Map(columns.map((column) => [column, entropy(runs.map(column.value))]));
  const best = [...columns].sort((a, b) => told.get(b)! - told.get(a)!).slice(0, most);
  return columns.filter((column) => best.includes(column) && told.get(column)! > 0);
}

/** The entropy of the values that are there, times their share. */
function entropy(values: readonly Value[]): number {
  const counts = new Map<Value, number>();
  for (const value of values) if (value !== undefined && value !== null) counts.set(value, (counts.get(value) ?? 0) + 1);
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  return [...counts.values()].reduce((sum, count) => sum - count * Math.log(count / total), 0) / values.length;
}

/** A value as commands take it; a missing one is a dash. */
export function valueText(value: Value): string {
  if (value === undefined || value === null) return "–";
  return typeof value === "number" ? numberText(value) : String(value);
}

/** Four significant digits; whole numbers as they are. */
export function numberText(value: number): string {
  return Number.isInteger(value) ? String(value) : String(+value.toPrecision(4));
}

/** Numbers before text, and missing values last, whatever the direction. */
export function compareValues(a: Value, b: Value, descending: boolean): number {
  const [rankA, rankB] = [rank(a), rank(b)];
  if (rankA !== rankB) return rankA === 2 || rankB === 2 || !descending ? rankA - rankB : rankB - rankA;
  const order = rankA === 0 ? Number(a) - Number(b) : String(a).localeCompare(String(b), "en", { numeric: true });
  return descending ? -order : order;
}

function rank(value: Value): 0 | 1 | 2 {
  if (value === undefined || value === null) return 2;
  return typeof value === "number" ? 0 : 1;
}
