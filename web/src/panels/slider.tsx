/** The slider of one column of z, in scores of the prior, over a histogram of the data. */
import { useMemo } from "preact/hooks";
import type { Variable } from "../bundle";
import { LIMIT, scoreOf, valueAt, type Code, type Model } from "../model";
import { codeOf, originOf } from "../origin";
import { change, code } from "../state";
import { isolated, percent } from "../text";

interface Props {
  model: Model;
  variable: Variable;
  column: number;
  quantiles: readonly number[];
}

export function Slider({ model, variable, column, quantiles }: Props) {
  const value = code.value[column]!;
  const observed = codeOf(model, originOf(model))?.[column] ?? null;
  const score = scoreOf(quantiles, value);
  const set = (to: number) => change({ z: replaced(code.value, column, to) }, `slider ${column}`);
  const reset = () => observed !== null && set(observed);
  const name = nameOf(variable, column);
  const side = beyond(quantiles, value);
  const quantile =
    side === 0
      ? `quantile ${percent(normalCdf(score))} of the prior`
      : "beyond the range of the slider";
  return (
    <div class="slider">
      <div class="track">
        <Histogram
          model={model}
          column={column}
          quantiles={quantiles}
          observed={observed === null ? null : scoreOf(quantiles, observed)}
        />
        <input
          type="range"
          min={-LIMIT}
          max={LIMIT}
          step={0.01}
          value={score}
          aria-label={name}
          aria-valuetext={`${rounded(value)}, ${quantile}`}
          title="Double click or press Delete to go back to the observation"
          onInput={(event) => set(valueAt(quantiles, +event.currentTarget.value))}
          onDblClick={reset}
          onKeyDown={(event) => {
            const next = pressed(event.key, score);
            if (next === null && event.key !== "Delete") return;
            event.preventDefault();
            if (next === null) reset();
            else set(valueAt(quantiles, next));
          }}
        />
        {side !== 0 && (
          <span
            class={side < 0 ? "beyond low" : "beyond high"}
            aria-hidden="true"
            title={`${rounded(value)} lies beyond the range of the slider`}
          >
            {side < 0 ? "‹" : "›"}
          </span>
        )}
      </div>
      <output title={`${quantile[0]!.toUpperCase()}${quantile.slice(1)}`}>{rounded(value)}</output>
      <button
        type="button"
        class="reset"
        aria-label={`Reset ${isolated(name)}`}
        title="Back to the observation"
        disabled={observed === null || value === observed}
        onClick={reset}
      >
        ↺
      </button>
    </div>
  );
}

/** On which side of the slider's range a value lies: -1, 1, or 0 within it. */
export function beyond(quantiles: readonly number[], value: number): number {
  if (value < quantiles[0]!) return -1;
  return value > quantiles.at(-1)! ? 1 : 0;
}

function nameOf(variable: Variable, column: number): string {
  const several = variable.quantiles.length > 1;
  return several
    ? `${isolated(variable.name)}, dimension ${column - variable.columns[0] + 1}`
    : variable.name;
}

/** Two decimals unless it is large, with a minus sign and without a negative zero. */
function rounded(value: number): string {
  const text = value.toFixed(Math.abs(value) < 100 ? 2 : 0);
  return text === "-0.00" ? "0.00" : text.replace("-", "−");
}

function replaced(z: Code, column: number, value: number): number[] {
  const changed = [...z];
  changed[column] = value;
  return changed;
}

const KEYS: Record<string, number> = {
  ArrowRight: 0.1,
  ArrowUp: 0.1,
  ArrowLeft: -0.1,
  ArrowDown: -0.1,
  PageUp: 0.5,
  PageDown: -0.5,
};

/** The score that a key goes to; null if it is not one of the slider's. */
export function pressed(key: string, score: number): number | null {
  if (key === "Home") return -LIMIT;
  if (key === "End") return LIMIT;
  const step = KEYS[key];
  return step === undefined ? null : Math.min(Math.max(score + step, -LIMIT), LIMIT);
}

const BINS = 48;
const MOST = 20_000; // rows of a histogram

/** The share of scores in each of the bins from -LIMIT to LIMIT; those beyond are in the outer bins. */
export function histogram(scores: Iterable<number>, bins: number): number[] {
  const counts = new Array<number>(bins).fill(0);
  let total = 0;
  for (const score of scores) {
    const bin = Math.floor(((score + LIMIT) / (2 * LIMIT)) * bins);
    counts[Math.min(Math.max(bin, 0), bins - 1)]! += 1;
    total++;
  }
  return counts.map((count) => (total > 0 ? count / total : 0));
}

function* scoresOf(model: Model, column: number, quantiles: readonly number[]): Generator<number> {
  const { size } = model.data;
  // Rows are in random order, so the first ones stand for all.
  const end = Math.min(model.means.length, MOST * size);
  for (let at = column; at < end; at += size) yield scoreOf(quantiles, model.means[at]!);
}

interface HistogramProps {
  model: Model;
  column: number;
  quantiles: readonly number[];
  /** The score of the observation, if there is one. */
  observed: number | null;
}

/** Where the means of q(z|x) of the data lie, and a mark at the observation. */
function Histogram({ model, column, quantiles, observed }: HistogramProps) {
  const path = useMemo(
    () => outline(histogram(scoresOf(model, column, quantiles), BINS)),
    [model, column],
  );
  return (
    <svg class="spread" viewBox={`0 0 ${BINS} 1`} preserveAspectRatio="none" aria-hidden="true">
      <path class="density" d={path} />
      {observed !== null && <Observed x={((observed + LIMIT) / (2 * LIMIT)) * BINS} />}
    </svg>
  );
}

function Observed({ x }: { x: number }) {
  return <line class="observed" x1={x} x2={x} y1={0} y2={1} vector-effect="non-scaling-stroke" />;
}

function outline(shares: readonly number[]): string {
  const highest = Math.max(...shares, 1e-12);
  const steps = shares.map((share, n) => `V${(1 - share / highest).toFixed(3)}H${n + 1}`);
  return `M0,1${steps.join("")}V1Z`;
}

/** The standard normal cdf, by the error function of Abramowitz and Stegun 7.1.26. */
export function normalCdf(score: number): number {
  const t = 1 / (1 + 0.3275911 * (Math.abs(score) / Math.SQRT2));
  const series =
    t *
    (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const tail = (series * Math.exp((-score * score) / 2)) / 2;
  return score > 0 ? 1 - tail : tail;
}
