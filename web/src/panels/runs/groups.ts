/** Runs that differ only in their seed, and numbers over them. */
import type { RunData, Setting } from "../../bundle";
import { own } from "../../own";
import { isolated } from "../../text";
import { differing, distinct } from "./columns";
import { plainValue, settingName } from "./names";

export interface RunGroup {
  key: string;
  /** The settings that tell it from the other groups, "beta 4". */
  name: string;
  runs: RunData[];
}

/** Group runs in the order of their first ones. */
export function groupSeeds(runs: readonly RunData[]): RunGroup[] {
  const groups = new Map<string, RunData[]>();
  for (const run of runs) {
    const key = settingsKey(run);
    const members = groups.get(key);
    if (members) members.push(run);
    else groups.set(key, [run]);
  }
  const every = [...groups.values()].map(([run]) => run!.settings);
  const names = groupNames(every);
  return [...groups].map(([key, members], n) => ({ key, name: names[n]!, runs: members }));
}

const keys = new WeakMap<RunData, string>();

/** All settings but the seed. Remembered, because every change of a filter groups thousands of runs. */
function settingsKey(run: RunData): string {
  let key = keys.get(run);
  if (key === undefined) {
    key = JSON.stringify(
      Object.entries(run.settings)
        .filter(([name]) => name !== "seed")
        .sort(),
    );
    keys.set(run, key);
  }
  return key;
}

/** Names of few settings that tell all groups apart: "beta 4". */
function groupNames(every: readonly Settings[]): string[] {
  const keys = fewest(every, differing(every));
  return every.map((settings) => {
    const parts = keys.map(
      (key) => `${isolated(settingName(key))} ${isolated(plainValue(own(settings, key)))}`,
    );
    const known = parts.filter((_, n) => Object.hasOwn(settings, keys[n]!));
    return (known.length > 0 ? known : parts).join(", ") || "all runs";
  });
}

type Settings = Readonly<Record<string, Setting>>;

/** Choose a few keys that distinguish groups as well as all keys do: the objective, then those that
 * distinguish most. */
function fewest(every: readonly Settings[], keys: readonly string[]): string[] {
  const chosen: string[] = keys.filter((key) => key === "objective");
  const goal = distinct(every, keys);
  for (let apart = distinct(every, chosen); apart < goal;) {
    const gains = keys.map((key) => distinct(every, [...chosen, key]));
    apart = Math.max(...gains);
    chosen.push(keys[gains.indexOf(apart)]!);
  }
  return keys.filter((key) => chosen.includes(key));
}

export interface Summary {
  mean: number;
  min: number;
  max: number;
  /** Standard deviation with n - 1; 0 of one value. */
  deviation: number;
  n: number;
}

/** Null of no values. */
export function summary(values: readonly number[]): Summary | null {
  const n = values.length;
  if (n === 0) return null;
  const mean = values.reduce((sum, value) => sum + value, 0) / n;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const deviation = n > 1 ? Math.sqrt(squares / (n - 1)) : 0;
  return { mean, min: Math.min(...values), max: Math.max(...values), deviation, n };
}
