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
export function currentPlace(model: Model, cloud: Cloud, z: readonly number[] | null, row: number): Place | null {
  if (!z) return [cloud.points.x[row]!, cloud.points.y[row]!];
  const [x, y] = [placeOfCode(model, cloud.x, z), placeOfCode(model, cloud.y, z)];
  return x === null || y === null ? null : [x, y];
}

/** A cross at the current code, which moves with the sliders. */
export function Cross({ model, cloud, box, size }: Props & { model: Model }) {
  const { row, z } = view.value;
  const place = currentPlace(model, cloud, z && code.value, known(model, row));
  if (!place?.every(Number.isFinite)) return null;
  const [x, y] = toScreen(box, size, place);
  return (
    <g class="code-cross" data-testid="cross" transform={`translate(${x} ${y})`}>
      <path class="halo" d="M-9,0H9M0,-9V9" />
      <path d="M-9,0H9M0,-9V9" />
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
  return <polygon class="lasso-line" points={corners.map((at) => at.map((n) => n.toFixed(1)).join(",")).join(" ")} />;
}
