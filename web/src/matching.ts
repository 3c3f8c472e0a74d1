/**
 * Which latent variables of two models are the same: matched one to one by their values on the
 * observations that both models have.
 */
import type { Variable } from "./bundle";
import { classOf, type Model } from "./model";

/** Below this association two variables are not matched. */
export const LEAST = 0.3;
/** With fewer rows in common, correlations say little and nothing is matched. */
export const LEAST_ROWS = 20;
const MOST_ROWS = 5000; // rows are in random order, so the first ones are a sample

/** What a slider or a row of class buttons sets: one column of a continuous variable, or a discrete one. */
export interface Unit {
  variable: Variable;
  /** The column of z, the first one of a discrete variable. */
  column: number;
  name: string;
}

export interface Match {
  first: Unit;
  other: Unit;
  /** Spearman's rank correlation with its sign, or the normalised mutual information of classes. */
  association: number;
  /** Of discrete variables: the class of the other model for every class of the first; null for one
   * that no common observation has. */
  classes: (number | null)[];
}

export interface Matching {
  matches: Match[];
  /** Number of rows in common; 0 for models of different data. */
  rows: number;
}

/** What is matched: active variables only, for an unused one is noise that may correlate by chance. */
export function units(model: Model): Unit[] {
  return model.active.flatMap((variable) => {
    const [first, end] = variable.columns;
    if (variable.discrete || end - first === 1)
      return [{ variable, column: first, name: variable.name }];
    return Array.from({ length: end - first }, (_, n) => ({
      variable,
      column: first + n,
      name: `${variable.name}, dimension ${n + 1}`,
    }));
  });
}

const known = new WeakMap<Model, WeakMap<Model, Matching>>();

/** Match the latent variables of two models; the result is remembered. */
export function matching(first: Model, other: Model): Matching {
  const before = known.get(first)?.get(other);
  if (before) return before;
  const found = findMatching(first, other);
  known.set(first, (known.get(first) ?? new WeakMap<Model, Matching>()).set(other, found));
  return found;
}

function findMatching(first: Model, other: Model): Matching {
  const rows = commonRows(first, other);
  if (rows.length < LEAST_ROWS) return { matches: [], rows: rows.length };
  const [a, b] = [units(first), units(other)];
  const inFirst = a.map((unit) =>
    sampleOf(
      first,
      unit,
      rows.map(([row]) => row),
    ),
  );
  const inOther = b.map((unit) =>
    sampleOf(
      other,
      unit,
      rows.map(([, row]) => row),
    ),
  );
  const table = a.map((unit, i) =>
    b.map((each, j) => association(unit, inFirst[i]!, each, inOther[j]!)),
  );
  const weights = table.map((row) => row.map((x) => (Math.abs(x) < LEAST ? 0 : Math.abs(x))));
  const matches = assign(weights).flatMap(([i, j]) =>
    weights[i]![j]! > 0 ? [matched(a[i]!, b[j]!, table[i]![j]!, inFirst[i]!, inOther[j]!)] : [],
  );
  return { matches, rows: rows.length };
}

function matched(first: Unit, other: Unit, value: number, a: Sample, b: Sample): Match {
  const { variable } = first;
  const classes = variable.discrete
    ? likeliest(counts(a, b, variable.classes, other.variable.classes))
    : [];
  return { first, other, association: value, classes };
}

/** Pairs of rows of two models that are the same observation. */
function commonRows(first: Model, other: Model): [number, number][] {
  if (first.data.data !== other.data.data) return [];
  const pairs: [number, number][] = [];
  first.data.rows.index.forEach((index, row) => {
    const there = other.rowOf(index);
    if (there !== null && pairs.length < MOST_ROWS) pairs.push([row, there]);
  });
  return pairs;
}

/** Classes, or ranks of values. */
type Sample = readonly number[];

function sampleOf(model: Model, unit: Unit, rows: readonly number[]): Sample {
  if (unit.variable.discrete) return rows.map((row) => classOf(unit.variable, model.code(row)));
  return ranks(rows.map((row) => model.means[row * model.data.size + unit.column]!));
}

function association(a: Unit, inFirst: Sample, b: Unit, inOther: Sample): number {
  if (a.variable.discrete !== b.variable.discrete) return 0;
  if (!a.variable.discrete) return pearson(inFirst, inOther);
  return mutualInformation(counts(inFirst, inOther, a.variable.classes, b.variable.classes));
}

/** Ranks from 1; equal values share the mean of their ranks. */
export function ranks(values: readonly number[]): number[] {
  const order = values.map((_, n) => n).sort((m, n) => values[m]! - values[n]!);
  const ranked = new Array<number>(values.length);
  for (let start = 0, end = 0; start < order.length; start = end) {
    while (end < order.length && values[order[end]!] === values[order[start]!]) end++;
    for (let n = start; n < end; n++) ranked[order[n]!] = (start + 1 + end) / 2;
  }
  return ranked;
}

/** The correlation, of ranks Spearman's; 0 if one of them is constant. */
export function pearson(a: readonly number[], b: readonly number[]): number {
  const [meanA, meanB] = [mean(a), mean(b)];
  let [ab, aa, bb] = [0, 0, 0];
  for (let n = 0; n < a.length; n++) {
    const [da, db] = [a[n]! - meanA, b[n]! - meanB];
    ab += da * db;
    aa += da * da;
    bb += db * db;
  }
  return aa > 0 && bb > 0 ? ab / Math.sqrt(aa * bb) : 0;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** How often class i of one and class j of the other come together. */
export function counts(
  a: readonly number[],
  b: readonly number[],
  rows: number,
  columns: number,
): number[][] {
  const table = Array.from({ length: rows }, () => new Array<number>(columns).fill(0));
  a.forEach((value, n) => table[value]![b[n]!]!++);
  return table;
}

/** I(a; b) over the mean of H(a) and H(b), from a table of counts; 0 if both are constant. */
export function mutualInformation(table: readonly (readonly number[])[]): number {
  const columns = (table[0] ?? []).map((_, j) => table.map((row) => row[j]!));
  const [a, b] = [entropy(table.map(sum)), entropy(columns.map(sum))];
  return a + b > 0 ? (2 * (a + b - entropy(table.flat()))) / (a + b) : 0;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function entropy(masses: readonly number[]): number {
  const total = sum(masses);
  return -sum(masses.map((mass) => (mass > 0 ? (mass / total) * Math.log(mass / total) : 0)));
}

/** The most frequent column of every row; null of a row without counts. */
export function likeliest(table: readonly (readonly number[])[]): (number | null)[] {
  return table.map((row) => (sum(row) > 0 ? row.indexOf(Math.max(...row)) : null));
}

/**
 * Pair rows with columns one to one so that the sum of the weights is largest (the Hungarian
 * algorithm by shortest augmenting paths). Every row or every column is paired.
 */
export function assign(weights: readonly (readonly number[])[]): [number, number][] {
  const columns = weights[0]?.length ?? 0;
  if (weights.length > columns) {
    const turned = Array.from({ length: columns }, (_, j) => weights.map((row) => row[j]!));
    return assign(turned)
      .map(([j, i]): [number, number] => [i, j])
      .sort(([i], [k]) => i - k);
  }
  const solver = new Assignment(weights, columns);
  weights.forEach((_, row) => solver.add(row));
  return solver.pairs().sort(([i], [k]) => i - k);
}

/** Rows are added one by one; potentials keep every reduced cost at 0 or above. Column 0 is a root. */
class Assignment {
  private readonly holder: number[];
  private readonly ofRow: number[];
  private readonly ofColumn: number[];

  constructor(
    private readonly weights: readonly (readonly number[])[],
    private readonly columns: number,
  ) {
    this.holder = new Array<number>(columns + 1).fill(-1);
    this.ofRow = new Array<number>(weights.length).fill(0);
    this.ofColumn = new Array<number>(columns + 1).fill(0);
  }

  pairs(): [number, number][] {
    return this.holder.flatMap((row, j): [number, number][] =>
      j > 0 && row >= 0 ? [[row, j - 1]] : [],
    );
  }

  add(row: number): void {
    this.holder[0] = row;
    const shortest = new Array<number>(this.columns + 1).fill(Infinity);
    const from = new Array<number>(this.columns + 1).fill(0);
    const reached = new Set<number>();
    let at = 0;
    while (this.holder[at]! >= 0) {
      reached.add(at);
      this.relax(at, reached, shortest, from);
      at = this.nearest(reached, shortest);
      this.shift(shortest[at]!, reached, shortest);
    }
    for (; at !== 0; at = from[at]!) this.holder[at] = this.holder[from[at]!]!;
  }

  /** Shorten the ways to free columns by a step from the row that column `at` has. */
  private relax(at: number, reached: Set<number>, shortest: number[], from: number[]): void {
    const row = this.holder[at]!;
    for (let j = 1; j <= this.columns; j++) {
      const cost = -this.weights[row]![j - 1]! - this.ofRow[row]! - this.ofColumn[j]!;
      if (!reached.has(j) && cost < shortest[j]!) [shortest[j], from[j]] = [cost, at];
    }
  }

  private nearest(reached: Set<number>, shortest: readonly number[]): number {
    let best = 0;
    for (let j = 1; j <= this.columns; j++) {
      if (!reached.has(j) && (best === 0 || shortest[j]! < shortest[best]!)) best = j;
    }
    return best;
  }

  private shift(by: number, reached: Set<number>, shortest: number[]): void {
    for (let j = 0; j <= this.columns; j++) {
      if (reached.has(j)) {
        this.ofRow[this.holder[j]!]! += by;
        this.ofColumn[j]! -= by;
      } else shortest[j]! -= by;
    }
  }
}
