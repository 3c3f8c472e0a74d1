/** How the selected rows differ from the rest: shares of the values of every column. */
import { extent } from "d3-array";
import type { Model } from "../../model";
import { columnOf, textOf, type Column } from "./columns";

export interface Histogram {
  key: string;
  name: string;
  bins: Bin[];
  /** Names of the first and the last value. */
  ends: [string, string];
  /** Shares of the bins, of the selected rows and of the others. */
  selected: number[];
  rest: number[];
  /** How much they differ: the Jensen-Shannon divergence in bits, from 0 to 1. */
  divergence: number;
}

export interface Bin {
  label: string;
  /** Its values go from low to below high; the last bin has its end, too. */
  low: number;
  high: number;
}

const BINS = 16;
const MOST_VALUES = 40;

/** A bin for each value, or equal bins of a range of numbers or of many values. */
export function binsOf(column: Column): Bin[] {
  if (column.kind !== "number" && column.labels.length <= MOST_VALUES) {
    return column.labels.map((label, n) => ({ label, low: n - 0.5, high: n + 0.5 }));
  }
  const [low, high] = extent(column.values.filter((value) => Number.isFinite(value)));
  if (low === undefined || high === undefined) return [];
  const width = (high - low || 1) / BINS;
  return Array.from({ length: BINS }, (_, n) => {
    const [from, to] = [low + n * width, low + (n + 1) * width];
    const ends = column.kind === "number" ? [from, to] : [Math.ceil(from), Math.floor(to)];
    return {
      label: `${textOf(column, ends[0]!)} to ${textOf(column, ends[1]!)}`,
      low: from,
      high: to,
    };
  });
}

/** Shares of the bins among the values of some rows; values that are missing do not count. */
export function sharesOf(
  values: Float32Array,
  rows: Iterable<number>,
  bins: readonly Bin[],
): number[] {
  const counts = bins.map(() => 0);
  const [low, width] = [bins[0]?.low ?? 0, (bins[0]?.high ?? 1) - (bins[0]?.low ?? 0)];
  let total = 0;
  for (const row of rows) {
    const value = values[row]!;
    if (!Number.isFinite(value)) continue;
    const bin = Math.min(Math.max(Math.floor((value - low) / width), 0), bins.length - 1);
    counts[bin]!++;
    total++;
  }
  return counts.map((count) => (total > 0 ? count / total : 0));
}

/** The Jensen-Shannon divergence in bits: 0 for equal distributions, 1 for disjoint ones. */
export function jensenShannon(p: readonly number[], q: readonly number[]): number {
  const half = (a: readonly number[], b: readonly number[]) =>
    a.reduce(
      (sum, share, n) => (share > 0 ? sum + share * Math.log2((2 * share) / (share + b[n]!)) : sum),
      0,
    );
  return Math.min(Math.max((half(p, q) + half(q, p)) / 2, 0), 1);
}

export function histogram(
  column: Column,
  selected: readonly number[],
  rest: readonly number[],
): Histogram {
  const bins = binsOf(column);
  const [inside, outside] = [
    sharesOf(column.values, selected, bins),
    sharesOf(column.values, rest, bins),
  ];
  const divergence = jensenShannon(inside, outside);
  return {
    key: column.key,
    name: column.name,
    bins,
    ends: endsOf(column, bins),
    selected: inside,
    rest: outside,
    divergence,
  };
}

function endsOf(column: Column, bins: readonly Bin[]): [string, string] {
  const [first, last] = [bins[0], bins.at(-1)];
  if (!first || !last) return ["", ""];
  return column.kind === "number"
    ? [textOf(column, first.low), textOf(column, last.high)]
    : [first.label, last.label];
}

/** Histograms of every factor and every active variable, the most different first. */
export function histograms(model: Model, selected: readonly number[]): Histogram[] {
  const keys = [
    ...model.data.factors.map((_, n) => `factor:${n}`),
    ...model.active.map((variable) => `z:${variable.number}`),
  ];
  const rest = others(model.data.rows.count, selected);
  return keys
    .map((key) => histogram(columnOf(model, key)!, selected, rest))
    .sort((a, b) => b.divergence - a.divergence);
}

function others(count: number, selected: readonly number[]): number[] {
  const chosen = new Set(selected);
  return Array.from({ length: count }, (_, row) => row).filter((row) => !chosen.has(row));
}
