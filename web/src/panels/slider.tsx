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
  const spread = useMemo(() => spreadOf(valuesOf(model, column), quantiles), [model, column]);
  const far = spread.below + spread.above;
  const quantile =
    side === 0
      ? `quantile ${percent(normalCdf(score))} of the prior`
      : "beyond the range of the slider";
  return (
    <>
      <div class="slider">
        <div class="track">
          <Histogram
            spread={spread}
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
        <output title={`${quantile[0]!.toUpperCase()}${quantile.slice(1)}`}>
          {rounded(value)}
        </output>
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
      {far >= MENTIONED && (
        <p class="outside-note">
          {percent(far)} of the codes lie beyond this slider, which covers the prior.
        </p>
      )}
    </>
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
const OUTSIDE = 1.5; // width of a bar of codes beyond the slider, in bins
const MENTIONED = 0.05; // share of codes beyond the slider that is put in words
const MOST = 20_000; // rows of a histogram

/** Shares of the codes of the data: within the slider's range by bin, and beyond its ends. */
export interface Spread {
  bins: number[];
  below: number;
  above: number;
}

export function spreadOf(values: Iterable<number>, quantiles: readonly number[]): Spread {
  const spread = { bins: new Array<number>(BINS).fill(0), below: 0, above: 0 };
  let total = 0;
  for (const value of values) {
    total++;
    const side = beyond(quantiles, value);
    if (side < 0) spread.below++;
    else if (side > 0) spread.above++;
    else {
      const bin = Math.floor(((scoreOf(quantiles, value) + LIMIT) / (2 * LIMIT)) * BINS);
      spread.bins[Math.min(bin, BINS - 1)]!++;
    }
  }
  const share = (count: number) => (total > 0 ? count / total : 0);
  return {
    bins: spread.bins.map(share),
    below: share(spread.below),
    above: share(spread.above),
  };
}

function* valuesOf(model: Model, column: number): Generator<number> {
  const { size } = model.data;
  // Rows are in random order, so the first ones stand for all.
  const end = Math.min(model.means.length, MOST * size);
  for (let at = column; at < end; at += size) yield model.means[at]!;
}

interface HistogramProps {
  spread: Spread;
  /** The score of the observation, if there is one. */
  observed: number | null;
}

/** Where the means of q(z|x) of the data lie, and a mark at the observation. Those beyond the slider
 * are bars of another colour outside its ends, at most as high as the highest bar within. */
function Histogram({ spread, observed }: HistogramProps) {
  const { bins, below, above } = spread;
  const highest = Math.max(...bins, 1e-12);
  const outside = (share: number, x: number) => {
    const height = Math.min(share / highest, 1);
    return (
      share > 0 && <rect class="outside" x={x} y={1 - height} width={OUTSIDE} height={height} />
    );
  };
  return (
    <svg class="spread" viewBox={`0 0 ${BINS} 1`} preserveAspectRatio="none" aria-hidden="true">
      <path class="density" d={outline(bins, highest)} />
      {outside(below, -OUTSIDE)}
      {outside(above, BINS)}
      {observed !== null && <Observed x={((observed + LIMIT) / (2 * LIMIT)) * BINS} />}
    </svg>
  );
}

function Observed({ x }: { x: number }) {
  return <line class="observed" x1={x} x2={x} y1={0} y2={1} vector-effect="non-scaling-stroke" />;
}

function outline(shares: readonly number[], highest: number): string {
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
