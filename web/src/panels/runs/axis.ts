/** A scale for the values of a setting or a score: linear, logarithmic or of categories. */
import { scaleLinear, scaleLog } from "d3-scale";
import { compareValues, valueText, type Value } from "./columns";
import { numberText, plainValue } from "./names";

export interface Tick {
  at: number;
  text: string;
  /** The value of a category, as filters take it. */
  value?: string;
}

export interface Axis {
  kind: "linear" | "log" | "category";
  /** Null if a value is missing, or has no place on a logarithmic axis. */
  position: (value: Value) => number | null;
  /** The number at a position; null on an axis of categories. */
  invert: (position: number) => number | null;
  ticks: Tick[];
}

/** Whether a logarithmic axis is of use: positive numbers over two decades or more. */
export function spansDecades(values: readonly Value[]): boolean {
  const numbers = present(values);
  if (numbers.length === 0 || !numbers.every((value) => typeof value === "number" && value > 0))
    return false;
  const [low, high] = extent(numbers as number[]);
  return high / low >= 100;
}

/** Make an axis for values over a range of pixels. Text and flags are categories. */
export function axisOf(
  values: readonly Value[],
  range: [number, number],
  log = false,
  ticks = 5,
): Axis {
  const found = present(values);
  if (!found.every((value) => typeof value === "number")) return categories(found, range);
  const numbers = found as number[];
  return log
    ? logarithmic(
        numbers.filter((value) => value > 0),
        range,
      )
    : linear(numbers, range, ticks);
}

function present(values: readonly Value[]): Exclude<Value, undefined | null>[] {
  return values.filter((value) => value !== undefined && value !== null);
}

function extent(values: readonly number[]): [number, number] {
  return values.reduce<[number, number]>(
    ([low, high], value) => [Math.min(low, value), Math.max(high, value)],
    [Infinity, -Infinity],
  );
}

/** Bounds with some room if all values are equal. */
function bounds(values: readonly number[]): [number, number] {
  const [low, high] = values.length > 0 ? extent(values) : [0, 1];
  return low < high
    ? [low, high]
    : [low - Math.max(Math.abs(low) / 2, 0.5), high + Math.max(Math.abs(high) / 2, 0.5)];
}

function linear(values: readonly number[], range: [number, number], count: number): Axis {
  const scale = scaleLinear(bounds(values), range).nice(count);
  const whole = values.every(Number.isInteger); // such as seeds: there is nothing between
  const text = scale.tickFormat(count, whole ? ",d" : undefined); // digits that tell ticks apart
  const ticks = scale
    .ticks(count)
    .filter((value) => !whole || Number.isInteger(value))
    .map((value) => ({ at: scale(value), text: text(value) }));
  const position = (value: Value) => (typeof value === "number" ? scale(value) : null);
  return { kind: "linear", position, invert: (at) => scale.invert(at), ticks };
}

function logarithmic(values: readonly number[], range: [number, number]): Axis {
  const [low, high] = values.length > 0 ? extent(values) : [1, 10];
  const scale = scaleLog([low, Math.max(high, low * 10)], range).nice();
  const powers = scale.ticks().filter((value) => Number.isInteger(+Math.log10(value).toFixed(9)));
  const position = (value: Value) => (typeof value === "number" && value > 0 ? scale(value) : null);
  return {
    kind: "log",
    position,
    invert: (at) => scale.invert(at),
    ticks: powers.map((value) => ({ at: scale(value), text: numberText(value) })),
  };
}

function categories(values: readonly Value[], [start, end]: [number, number]): Axis {
  const found = new Map(
    [...values]
      .sort((a, b) => compareValues(a, b, false))
      .map((value) => [valueText(value), plainValue(value)]),
  );
  const at = (n: number) => start + ((n + 0.5) / found.size) * (end - start);
  const places = new Map([...found.keys()].map((value, n) => [value, at(n)]));
  const position = (value: Value) =>
    value === undefined || value === null ? null : (places.get(valueText(value)) ?? null);
  return {
    kind: "category",
    position,
    invert: () => null,
    ticks: [...found].map(([value, text], n) => ({ at: at(n), text, value })),
  };
}
