/** How codes respond to factors: mean and spread at each value of a factor. */
import { mean, quantileSorted } from "d3-array";
import type { Variable } from "../../bundle";
import { classOf, type Model } from "../../model";
import { significant } from "../../text";
import { columnOf, type Column } from "../data/columns";

/** The rows of one value of a factor, or of one bin of a continuous factor. */
export interface Level {
  /** Its place on the axis, and its name. */
  at: number;
  label: string;
  rows: number[];
}

export interface Trace {
  variable: Variable;
  share: number;
  means: number[];
  /** Standard deviations. */
  spreads: number[];
}

const BINS = 12;
/** A second variable is drawn if it explains this share of the factor. */
const LEAST_SHARE = 0.1;

/** Active variables, or all if none is active, by their share of a factor, largest first. The
 * mean of an unused variable may follow a factor too, far below its noise. */
export function byShare(model: Model, factor: number): Variable[] {
  const share = (variable: Variable) => model.share(variable.number, factor);
  const candidates = model.active.length > 0 ? model.active : model.data.variables;
  return [...candidates].sort((a, b) => share(b) - share(a));
}

/** Whether a variable explains more of a factor than any variable does of shuffled values. */
export function aboveChance(model: Model, variable: number, factor: number): boolean {
  return model.data.aboveChance[variable]![factor]!;
}

/** The values of a factor that occur; a continuous factor is cut into equally frequent bins. */
export function levelsOf(column: Column): Level[] {
  const key = column.kind === "number" ? binOf(column.values) : (value: number) => value;
  const groups = new Map<number, number[]>();
  column.values.forEach((value, row) => {
    if (Number.isNaN(value)) return;
    const rows = groups.get(key(value));
    if (rows) rows.push(row);
    else groups.set(key(value), [row]);
  });
  const levels = [...groups].map(([value, rows]) => {
    const at = column.kind === "number" ? mean(rows, (row) => column.values[row])! : value;
    return { at, label: column.labels[value] ?? significant(at, 3), rows };
  });
  return levels.sort((a, b) => a.at - b.at);
}

function binOf(values: Float32Array): (value: number) => number {
  const sorted = [...values.filter((value) => !Number.isNaN(value)).sort()];
  const edges = Array.from({ length: BINS - 1 }, (_, n) => quantileSorted(sorted, (n + 1) / BINS)!);
  return (value) => edges.filter((edge) => edge <= value).length;
}

/** Mean and standard deviation of the first column of a continuous variable at each level. */
export function traceOf(
  model: Model,
  variable: Variable,
  factor: number,
  levels: readonly Level[],
): Trace {
  const { values } = columnOf(model, `z:${variable.number}`)!;
  const means = levels.map(({ rows }) => mean(rows, (row) => values[row])!);
  const spreads = levels.map(({ rows }, n) =>
    Math.sqrt(mean(rows, (row) => (values[row]! - means[n]!) ** 2)!),
  );
  return { variable, share: model.share(variable.number, factor), means, spreads };
}

/** The traces to draw: of the best variable, and of a second one that explains something, too. */
export function tracesOf(model: Model, factor: number, levels: readonly Level[]): Trace[] {
  const [first, second] = byShare(model, factor).filter((variable) => !variable.discrete);
  const drawn =
    second &&
    model.share(second.number, factor) >= LEAST_SHARE &&
    aboveChance(model, second.number, factor)
      ? [first!, second]
      : [first!];
  return drawn.map((variable) => traceOf(model, variable, factor, levels));
}

/** Shares of the classes of a discrete variable at each level, (levels, classes). */
export function classShares(
  model: Model,
  variable: Variable,
  levels: readonly Level[],
): number[][] {
  return levels.map(({ rows }) => {
    const counts = new Array<number>(variable.classes).fill(0);
    for (const row of rows) counts[classOf(variable, model.code(row))]!++;
    return counts.map((count) => count / rows.length);
  });
}
