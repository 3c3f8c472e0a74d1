/** Colours of runs by a setting or a score: marks for few values, a gradient for many numbers. */
import type { RunData } from "../../bundle";
import { isolated } from "../../text";
import { markOf, symbolPath, type LegendItem, type Mark } from "./chart";
import { compareValues, valueText, type Column, type Value } from "./columns";
import { numberText, plainValue } from "./names";

const MOST_CATEGORIES = 8;

export interface Shades {
  mark: (run: RunData) => Mark;
  legend: LegendItem[];
}

export function shadesOf(runs: readonly RunData[], column: Column | undefined): Shades {
  if (!column) return { mark: () => markOf(0), legend: [] };
  const values = [...new Set(runs.map(column.value))].sort((a, b) => compareValues(a, b, false));
  const numbers = values.filter((value) => typeof value === "number");
  return values.length > MOST_CATEGORIES && numbers.length > 1
    ? gradient(numbers, column)
    : categories(values, column);
}

/** Values after the eighth share the last mark. */
function categories(values: readonly Value[], column: Column): Shades {
  const marks = new Map(
    values.map((value, n) => [valueText(value), markOf(Math.min(n, MOST_CATEGORIES))]),
  );
  const listed = values.slice(0, MOST_CATEGORIES).map((value, n) => ({
    mark: markOf(n),
    name: `${isolated(column.name)} ${isolated(plainValue(value))}`,
  }));
  const rest = values.length - listed.length;
  if (rest > 0) listed.push({ mark: markOf(MOST_CATEGORIES), name: `${rest} other values` });
  return { mark: (run) => marks.get(valueText(column.value(run)))!, legend: listed };
}

function gradient(values: readonly number[], column: Column): Shades {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const mark = (value: unknown): Mark => {
    const share = typeof value === "number" ? (value - low) / (high - low) : null;
    const colour =
      share === null
        ? "var(--muted)"
        : `color-mix(in oklab, var(--orange) ${Math.round(100 * share)}%, var(--blue))`;
    return { colour, dash: "", symbol: symbolPath(0) };
  };
  const legend = [low, (low + high) / 2, high].map((value) => ({
    mark: mark(value),
    name: `${isolated(column.name)} ${numberText(value)}`,
  }));
  return { mark: (run) => mark(column.value(run)), legend };
}
