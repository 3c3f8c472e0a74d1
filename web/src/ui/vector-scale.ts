/** Scales of vectors: which values a drawing goes to, and where they lie. */
import { scaleLinear, scaleSymlog, type ScaleContinuousNumeric } from "d3-scale";
import type { VectorObservation } from "../bundle";
import type { Model } from "../model";
import { range } from "../thumbnails";
import { scaled } from "../units";

/** The limits of the drawing: those of the data, or more if a value lies beyond. They do not follow
 * the values, so that a curve moves and its scale does not. */
export function limits(
  data: readonly [number, number] | null,
  values: readonly ArrayLike<number>[],
  difference: boolean,
  zero: boolean,
): [number, number] {
  let [low, high] = data ?? [Infinity, -Infinity];
  if (difference) [low, high] = data ? [(low - high) / 2, (high - low) / 2] : [0, 0];
  for (const each of values) {
    for (let n = 0; n < each.length; n++) {
      if (!Number.isFinite(each[n]!)) continue;
      low = Math.min(low, each[n]!);
      high = Math.max(high, each[n]!);
    }
  }
  if (zero) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
  if (difference) [low, high] = [-Math.max(-low, high), Math.max(-low, high)];
  if (low > high) return [-1, 1];
  return low < high ? [low, high] : [low - 1, low + 1];
}

export type Scale = ScaleContinuousNumeric<number, number>;

/** A scale of values. Counts go over decades, so they are drawn as log(1 + x). */
export function valueScale(
  { counts }: VectorObservation,
  domain: readonly number[],
  range: readonly number[],
): Scale {
  return counts ? scaleSymlog(domain, range) : scaleLinear(domain, range);
}

const DECADES = [0, 1, 10, 100, 1e3, 1e4, 1e5, 1e6];

/** Round values, or decades of counts. */
export function valueTicks({ counts }: VectorObservation, y: Scale): number[] {
  if (!counts) return y.ticks(4);
  const [low, high] = y.domain() as [number, number];
  const both = [...DECADES.slice(1).map((count) => -count), ...DECADES];
  return both.filter((count) => count >= low && count <= high);
}

/** The limits of the data on the scale that columns share. */
export function dataLimits(
  model: Model,
  seen: VectorObservation,
): readonly [number, number] | null {
  return isMixed(seen) && !seen.curve ? [-3, 3] : range(model);
}

/** Whether columns have units of their own, which cannot share an axis. */
export function isMixed({ units: { scale, shift } }: VectorObservation): boolean {
  return new Set(scale).size > 1 || new Set(shift).size > 1;
}

/** The columns that differ most between series, on one scale, the most different first. */
export function mostDifferent(
  seen: VectorObservation,
  series: readonly ArrayLike<number>[],
  count: number,
): number[] {
  const scale = valueScale(seen, [0, 1], [0, 1]);
  const all = series.map((values) => Array.from(comparable(seen, values), (value) => scale(value)));
  const spread = (column: number) => {
    const values = all.map((each) => each[column]!);
    return Math.max(...values) - Math.min(...values);
  };
  const spreads = Array.from({ length: seen.length }, (_, column) => spread(column));
  const order = spreads.map((_, column) => column).sort((a, b) => spreads[b]! - spreads[a]!);
  return order.slice(0, count);
}

/** A part of the columns, as an observation of its own. */
export function ofColumns(seen: VectorObservation, columns: readonly number[]): VectorObservation {
  const { scale, shift } = seen.units;
  const taken = (values: readonly number[]) => columns.map((n) => values[n] ?? values[0]!);
  return {
    ...seen,
    length: columns.length,
    names: columns.map((n) => seen.names[n]!),
    positions: seen.positions && columns.map((n) => seen.positions![n]!),
    units: { ...seen.units, scale: taken(scale), shift: taken(shift) },
  };
}

/** Values on one scale: as the network has them if columns have units of their own. */
export function comparable(
  seen: VectorObservation,
  values: ArrayLike<number>,
  difference = false,
): ArrayLike<number> {
  return isMixed(seen) ? scaled(seen, values, difference) : values;
}
