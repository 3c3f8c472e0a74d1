/** Curves of runs over training steps, and the mean and band of a group of seeds. */
import type { RunData } from "../../bundle";
import { own } from "../../own";
import { summary } from "./groups";

export interface Point {
  step: number;
  value: number;
}

export interface BandPoint {
  step: number;
  mean: number;
  low: number;
  high: number;
  n: number;
}

const MOST_STEPS = 300;

/** Terms that some run has: "log:rate" of the training log, "measures:mig" of the measures. */
export function termsOf(runs: readonly RunData[]): string[] {
  const found = new Set<string>();
  for (const { log, measures } of runs) {
    for (const name of Object.keys(log.terms)) found.add(`log:${name}`);
    for (const name of Object.keys(measures.terms)) found.add(`measures:${name}`);
  }
  return [...found];
}

/** The curve of a term, without missing values. */
export function curveOf(run: RunData, term: string): Point[] {
  const place = term.indexOf(":");
  const curves = term.slice(0, place) === "measures" ? run.measures : run.log;
  const values = own(curves.terms, term.slice(place + 1)) ?? [];
  return curves.step.flatMap((step, n) => {
    const value = values[n];
    return typeof value === "number" ? [{ step, value }] : [];
  });
}

/** The value at a step, linear between the points; null before the first and after the last. */
export function valueAtStep(curve: readonly Point[], step: number): number | null {
  const above = curve.findIndex((point) => point.step >= step);
  if (above < 0) return null;
  const next = curve[above]!;
  if (next.step === step) return next.value;
  const before = curve[above - 1];
  if (!before) return null;
  return (
    before.value + ((next.value - before.value) * (step - before.step)) / (next.step - before.step)
  );
}

/** Mean of curves with their range, or with one standard deviation on both sides. */
export function band(curves: readonly (readonly Point[])[], deviation: boolean): BandPoint[] {
  return commonSteps(curves).flatMap((step) => {
    const values = curves
      .map((curve) => valueAtStep(curve, step))
      .filter((value) => value !== null);
    const found = summary(values);
    if (!found) return [];
    const { mean, n } = found;
    const low = deviation ? mean - found.deviation : found.min;
    const high = deviation ? mean + found.deviation : found.max;
    return [{ step, mean, low, high, n }];
  });
}

/** The steps of all curves, thinned evenly, with the first and the last. */
function commonSteps(curves: readonly (readonly Point[])[]): number[] {
  const steps = [...new Set(curves.flatMap((curve) => curve.map(({ step }) => step)))].sort(
    (a, b) => a - b,
  );
  if (steps.length <= MOST_STEPS) return steps;
  return Array.from(
    { length: MOST_STEPS },
    (_, n) => steps[Math.round((n * (steps.length - 1)) / (MOST_STEPS - 1))]!,
  );
}
