/** A vector in a few pixels, without axes. */
import { line } from "d3-shape";
import type { VectorObservation } from "../bundle";
import "./sparkline.css";

interface Props {
  seen: VectorObservation;
  /** On a scale that columns share. */
  values: ArrayLike<number>;
  limits: readonly [number, number];
}

export function Sparkline({ seen, values, limits: [low, high] }: Props) {
  const shown = Array.from(values);
  const y = (value: number) => 30 - (28 * (value - low)) / (high - low) - 1;
  const x = (n: number) => (60 * (n + 0.5)) / shown.length;
  const zero = y(Math.min(Math.max(0, low), high));
  const path = seen.curve
    ? line<number>((_, n) => x(n), y)(shown)
    : shown.map((value, n) => `M${x(n)},${zero}V${y(value)}`).join("");
  return (
    <svg class={seen.curve ? "sparkline" : "sparkline bars"} viewBox="0 0 60 30" aria-hidden="true">
      <path d={path ?? ""} vector-effect={seen.curve ? "non-scaling-stroke" : undefined} stroke-width={seen.curve ? 1.4 : Math.max(48 / shown.length, 0.5)} />
    </svg>
  );
}
