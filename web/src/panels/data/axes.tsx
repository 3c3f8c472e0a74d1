/**
 * Axes of the scatter: an edge, ticks and names. There are no lines across, because the browser
 * would have to draw the whole plot again whenever they move.
 */
import { scaleLinear } from "d3-scale";
import { toScreen, type Box, type Size, type Span } from "../../scatter/camera";
import { shortened } from "../../text";
import type { Cloud } from "./cloud";
import type { Column } from "./columns";

export const MARGIN = { left: 64, right: 10, top: 10, bottom: 44 };

const TICK = 5;

interface Tick {
  at: number;
  label: string;
}

/** At most about `most` ticks of a column over a span: its classes, or round numbers. */
export function ticksOf(column: Column, [low, high]: Span, most: number): Tick[] {
  if (column.kind === "number") {
    const scale = scaleLinear([low, high], [0, 1]);
    const text = scale.tickFormat(most);
    return scale.ticks(most).map((at) => ({ at, label: text(at) }));
  }
  const first = Math.max(Math.ceil(low), 0);
  const last = Math.min(Math.floor(high), column.labels.length - 1);
  const step = Math.max(Math.ceil((last - first + 1) / most), 1);
  const count = Math.max(Math.floor((last - first) / step) + 1, 0);
  return Array.from({ length: count }, (_, n) => ({
    at: first + n * step,
    label: column.labels[first + n * step]!,
  }));
}

export function Axes({ cloud, box, size }: { cloud: Cloud; box: Box; size: Size }) {
  const most = Math.max(Math.floor(size.width / 80), 2);
  const { width, height } = size;
  return (
    <g class="plot-axes">
      {ticksOf(cloud.x, box.x, most).map(({ at, label }) => {
        const [x] = toScreen(box, size, [at, 0]);
        return (
          <g key={at}>
            <line class="plot-edge" x1={x} x2={x} y1={height} y2={height + TICK} />
            <text x={x} y={height + 17} text-anchor="middle">
              {shortened(label, 12)}
            </text>
          </g>
        );
      })}
      {ticksOf(cloud.y, box.y, Math.max(Math.floor(height / 50), 2)).map(({ at, label }) => {
        const [, y] = toScreen(box, size, [0, at]);
        return (
          <g key={at}>
            <line class="plot-edge" x1={-TICK} x2={0} y1={y} y2={y} />
            <text x={-8} y={y + 4} text-anchor="end">
              {shortened(label, 7)}
            </text>
          </g>
        );
      })}
      <rect class="plot-edge" width={width} height={height} />
      <text class="name" x={width / 2} y={height + 35} text-anchor="middle">
        {cloud.x.name}
      </text>
      <text
        class="name"
        transform={`translate(-50 ${height / 2}) rotate(-90)`}
        text-anchor="middle"
      >
        {cloud.y.name}
      </text>
    </g>
  );
}
