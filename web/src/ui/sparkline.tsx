/** A vector in a few pixels, without axes. */
import { line } from "d3-shape";
import type { VectorObservation } from "../bundle";
import "./sparkline.css";
import { valueScale } from "./vector-scale";

interface Props {
  seen: VectorObservation;
  /** On a scale that columns share. */
  values: ArrayLike<number>;
  limits: readonly [number, number];
}

export function Sparkline({ seen, values, limits }: Props) {
  const shown = Array.from(values);
  const y = valueScale(seen, limits, [29, 1]);
  const [low, high] = limits;
  const x = (n: number) => (60 * (n + 0.5)) / shown.length;
  const zero = y(Math.min(Math.max(0, low), high));
  const path = seen.curve
    ? line<number>(
        (_, n) => x(n),
        (value) => y(value),
      )(shown)
    : shown.map((value, n) => `M${x(n)},${zero}V${y(value)}`).join("");
  return (
    <svg class={seen.curve ? "sparkline" : "sparkline bars"} viewBox="0 0 60 30" aria-hidden="true">
      <path
        d={path ?? ""}
        vector-effect={seen.curve ? "non-scaling-stroke" : undefined}
        stroke-width={seen.curve ? 1.4 : Math.max(48 / shown.length, 0.5)}
      />
    </svg>
  );
}
