/** The columns of the table of runs: about the run, settings that differ, the end of training, scores. */
import type { RunData, Setting, TermLabel } from "../../bundle";
import { own } from "../../own";
import { settingName } from "./names";

export type Value = Setting | undefined;

export interface Column extends TermLabel {
  /** "name", "state", "step", the dotted name of a setting, or the name of a term or a score. */
  key: string;
  /** A "final" value is the mean of a term over the end of training, or was measured last. */
  kind: "about" | "setting" | "final" | "score";
  /** Whether it tells runs apart. */
  differs: boolean;
  /** Whether it is a score that proves nothing in any of the runs that have it. */
  unproven?: boolean;
  value: (run: RunData) => Value;
}

export type Terms = Readonly<Record<string, TermLabel>>;

const PLAIN = { unit: "", better: "", differs: true } as const;
const ABOUT: Column[] = [
  { ...PLAIN, key: "name", name: "name", kind: "about", value: (run) => run.name },
  { ...PLAIN, key: "state", name: "state", kind: "about", value: (run) => run.state },
  { ...PLAIN, key: "step", name: "step", kind: "about", value: (run) => run.step },
];

/** All columns that a filter may name. */
export function allColumns(runs: readonly RunData[], terms: Terms): Column[] {
  const different = new Set(differing(runs.map(settingsOf)));
  const settings = names(runs, settingsOf).map((key) => setting(key, different.has(key)));
  return [...ABOUT, ...settings, ...measures(runs, terms)];
}

/** Name, state, the settings that differ, the seed if there are several, and what was measured. */
export function tableColumns(runs: readonly RunData[], terms: Terms): Column[] {
  const seeds = new Set(runs.map((run) => own(run.settings, "seed"))).size > 1 ? ["seed"] : [];
  const settings = [...differing(runs.map(settingsOf)), ...seeds].map((key) => setting(key, true));
  const about = ABOUT.filter(({ key }) => key !== "step");
  return [...about, ...settings, ...measures(runs, terms)];
}

function settingsOf(run: RunData): Record<string, Setting> {
  return run.settings;
}

function setting(key: string, differs: boolean): Column {
  return {
    ...PLAIN,
    key,
    name: settingName(key),
    kind: "setting",
    differs,
    value: (run) => own(run.settings, key),
  };
}

/** Columns of the ends of curves, and of scores. */
function measures(runs: readonly RunData[], terms: Terms): Column[] {
  const scores = names(runs, (run) => run.scores);
  const ends = names(runs, (run) => ({ ...run.log.terms, ...run.measures.terms }));
  const termOf = (key: string) => own(terms, key) ?? { name: key, unit: "", better: "" as const };
  const column = (key: string, kind: "final" | "score", value: Column["value"]): Column => ({
    key,
    kind,
    differs: true,
    value,
    ...termOf(key),
  });
  return [
    ...ends
      .filter((key) => !scores.includes(key))
      .map((key) => column(key, "final", (run) => endOf(run, key))),
    ...scores.map((key) =>
      scoreOf(
        runs,
        column(key, "score", (run) => own(run.scores, key)),
      ),
    ),
  ];
}

/** A score, whose name says so if it is no evidence in any run. */
function scoreOf(runs: readonly RunData[], score: Column): Column {
  const unproven = runs.every(
    ({ scores, noEvidence }) =>
      own(scores, score.key) === undefined || own(noEvidence, score.key) !== undefined,
  );
  return unproven ? { ...score, name: `${score.name} (no evidence)`, better: "", unproven } : score;
}

/** Why scores prove nothing, with the scores and runs that each reason applies to. */
export function noEvidence(runs: readonly RunData[], columns: readonly Column[]): string[] {
  const reasons = new Map<string, { keys: Set<string>; runs: Set<string> }>();
  for (const { id, noEvidence } of runs)
    for (const [key, reason] of Object.entries(noEvidence)) {
      const found = reasons.get(reason) ?? { keys: new Set(), runs: new Set() };
      reasons.set(reason, found);
      found.keys.add(key);
      found.runs.add(id);
    }
  const scores = columns.filter(({ kind }) => kind === "score").length;
  return [...reasons].map(([reason, found]) => {
    const which =
      found.keys.size === scores ? "all scores" : `${found.keys.size} of ${scores} scores`;
    return `${reason} (${which} in ${found.runs.size} of ${runs.length} runs)`;
  });
}

/** The mean of a term over the end of training, or else the last value that was measured. */
function endOf({ final, measures }: RunData, key: string): Value {
  return own(final, key) ?? own(measures.terms, key)?.findLast((value) => value !== null);
}

function names(runs: readonly RunData[], part: (run: RunData) => object): string[] {
  return [...new Set(runs.flatMap((run) => Object.keys(part(run))))];
}

const MOST_SETTINGS = 4;
const MOST_SCORES = 6;

/** The columns to show at first: what tells runs apart and is not empty for most of them, the seed, the
 * ends of the curves that say which run is better, and scores under one protocol each. */
export function usualColumns(columns: readonly Column[], runs: readonly RunData[]): Column[] {
  const of = (kind: Column["kind"]) => columns.filter((column) => column.kind === kind);
  const filled = (column: Column, share: number) =>
    runs.filter((run) => isPresent(column.value(run))).length > share * runs.length;
  const state = new Set(runs.map((run) => run.state)).size > 1;
  const settings = of("setting").filter((column) => column.key !== "seed" && filled(column, 0.5));
  const scores = of("score").filter(
    (column) => runs.length === 1 || filled(column, 1 / runs.length),
  );
  const chosen = new Set<Column>([
    ...of("about").filter(({ key }) => key !== "state" || state),
    ...mostInformative(settings, runs, MOST_SETTINGS),
    ...of("setting").filter(({ key }) => key === "seed"),
    ...of("final").filter(({ key, better }) => better || key === "rate"),
    ...onePerMetric(scores).slice(0, MOST_SCORES),
  ]);
  return columns.filter((column) => chosen.has(column));
}

/** The first protocol of every metric. */
function onePerMetric(scores: readonly Column[]): Column[] {
  const metric = ({ key }: Column) => key.split("/")[0];
  return scores.filter(
    (column, n) => scores.findIndex((other) => metric(other) === metric(column)) === n,
  );
}

/** What a term or a column is called, with its unit: "distortion (nats)". */
export function titleOf({ name, unit }: TermLabel): string {
  return unit ? `${name} (${unit})` : name;
}

/** Which way is better, in words; "" if neither is. */
export function betterText({ better }: TermLabel): string {
  return better && `${better} is better`;
}

/**
 * The settings, other than the seed, that tell runs apart. A setting that only some have is listed
 * only if it is needed: the critic of one objective follows from the kind of the objective.
 */
export function differing(every: readonly Record<string, Setting>[]): string[] {
  const keys = [...new Set(every.flatMap((each) => Object.keys(each)))].filter(
    (key) => key !== "seed",
  );
  const chosen = keys.filter(
    (key) =>
      new Set(every.filter((each) => Object.hasOwn(each, key)).map((each) => each[key])).size > 1,
  );
  if (distinct(every, chosen) === distinct(every, keys)) return chosen;
  return keys.filter(
    (key) => chosen.includes(key) || every.some((each) => !Object.hasOwn(each, key)),
  );
}

/** How many combinations of values there are. */
export function distinct(
  every: readonly Record<string, Setting>[],
  keys: readonly string[],
): number {
  return new Set(every.map((each) => JSON.stringify(keys.map((key) => own(each, key) ?? null))))
    .size;
}

/** The columns of the highest entropy, in their own order; those of none are left out. */
export function mostInformative(
  columns: readonly Column[],
  runs: readonly RunData[],
  most: number,
): Column[] {
  const entropies = new Map(columns.map((column) => [column, entropy(runs.map(column.value))]));
  const best = [...columns].sort((a, b) => entropies.get(b)! - entropies.get(a)!).slice(0, most);
  return columns.filter((column) => best.includes(column) && entropies.get(column)! > 0);
}

/** The entropy of the values that are there, times their share. */
function entropy(values: readonly Value[]): number {
  const counts = new Map<Value, number>();
  for (const value of values) if (isPresent(value)) counts.set(value, (counts.get(value) ?? 0) + 1);
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  return (
    [...counts.values()].reduce((sum, count) => sum - count * Math.log(count / total), 0) /
    values.length
  );
}

/** A value as commands take it; a missing one is a dash. */
export function valueText(value: Value): string {
  return isPresent(value) ? String(value) : "–";
}

/** A value as CSV has it. */
export function csvValue(value: Value): string | number | null {
  return typeof value === "boolean" ? String(value) : (value ?? null);
}

function isPresent(value: Value): boolean {
  return value !== undefined && value !== null;
}

/** Numbers before text, and missing values last, whatever the direction. */
export function compareValues(a: Value, b: Value, descending: boolean): number {
  const [rankA, rankB] = [rank(a), rank(b)];
  if (rankA !== rankB)
    return rankA === 2 || rankB === 2 || !descending ? rankA - rankB : rankB - rankA;
  const order =
    rankA === 0
      ? Number(a) - Number(b)
      : String(a).localeCompare(String(b), "en", { numeric: true });
  return descending ? -order : order;
}

function rank(value: Value): 0 | 1 | 2 {
  if (value === undefined || value === null) return 2;
  return typeof value === "number" ? 0 : 1;
}
