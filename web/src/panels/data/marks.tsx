/** Marks over the points: the current code, the point under the pointer, the lasso. */
import type { Model } from "../../model";
import { toScreen, type Box, type Place, type Size } from "../../scatter/camera";
import { lasso, lassoAxes, xAxis, yAxis } from "../../selection";
import { code, known, view } from "../../state";
import { placeOfCode, type Cloud } from "./cloud";

interface Props {
  cloud: Cloud;
  box: Box;
  size: Size;
}

/** Where the sliders are: at their row, or else where their code lies on both axes. */
export function currentPlace(
  model: Model,
  cloud: Cloud,
  z: readonly number[] | null,
  row: number,
): Place | null {
  if (!z) return [cloud.points.x[row]!, cloud.points.y[row]!];
  const [x, y] = [placeOfCode(model, cloud.x, z), placeOfCode(model, cloud.y, z)];
  return x === null || y === null ? null : [x, y];
}

/** Pixels between the edge of the plot and the tip of an arrow. */
const INSET = 4;

/** Where an arrow at the edge points to a place out of view, and its angle in degrees; null if the
 * place is in view. */
export function pointer(
  [x, y]: Place,
  { width, height }: Size,
): { at: Place; angle: number } | null {
  if (x >= 0 && x <= width && y >= 0 && y <= height) return null;
  const clamp = (value: number, end: number) => Math.min(Math.max(value, INSET), end - INSET);
  const at: Place = [clamp(x, width), clamp(y, height)];
  return { at, angle: (Math.atan2(y - at[1], x - at[0]) * 180) / Math.PI };
}

/** A cross at the current code, which moves with the sliders; an arrow to it if it is out of view. */
export function Cross({ model, cloud, box, size }: Props & { model: Model }) {
  const { row, z } = view.value;
  const place = currentPlace(model, cloud, z && code.value, known(model, row));
  if (!place?.every(Number.isFinite)) return null;
  const [x, y] = toScreen(box, size, place);
  const away = size.width > 0 ? pointer([x, y], size) : null;
  if (away) return <Away {...away} />;
  return (
    <g class="code-cross" data-testid="cross" transform={`translate(${x} ${y})`}>
      <path class="halo" d="M-9,0H9M0,-9V9" />
      <path d="M-9,0H9M0,-9V9" />
    </g>
  );
}

function Away({ at: [x, y], angle }: { at: Place; angle: number }) {
  const arrow = "M-26,0H0M-10,-8L0,0L-10,8";
  return (
    <g
      class="code-cross"
      data-testid="cross-away"
      transform={`translate(${x} ${y}) rotate(${angle})`}
    >
      <path class="halo" d={arrow} />
      <path d={arrow} />
    </g>
  );
}

export function CursorRing({ row, cloud, box, size }: Props & { row: number | null }) {
  if (row === null) return null;
  const [x, y] = cloud.picker.screen(box, size, row);
  return <circle class="cursor-ring" cx={x} cy={y} r={7} />;
}

/** The lasso as it is drawn, and the one that selects, if it was drawn on these axes. */
export function LassoLine({ path, box, size }: { path: readonly Place[]; box: Box; size: Size }) {
  const axes = lassoAxes.value;
  const here = !axes || (axes[0] === xAxis.value && axes[1] === yAxis.value);
  const kept = lasso.value && here ? lasso.value.map((at) => toScreen(box, size, at)) : [];
  const corners = path.length > 0 ? path : kept;
  if (corners.length < 2) return null;
  return (
    <polygon
      class="lasso-line"
      points={corners.map((at) => at.map((n) => n.toFixed(1)).join(",")).join(" ")}
    />
  );
}
