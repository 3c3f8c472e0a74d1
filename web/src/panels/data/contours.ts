/** Lines around the densest places of q(z) and of the prior, for two latent variables. */
import { blur2, deviation } from "d3-array";
import { contours } from "d3-contour";
import { spanOf, type Box, type Place } from "../../scatter/camera";

/** Each line holds this share of the points. */
export const MASSES = [0.5, 0.9];

const CELLS = 128;

export interface Line {
  mass: number;
  /** Closed rings in data coordinates. */
  rings: Place[][];
}

/** Lines around the densest places that hold the shares MASSES of the points (x, y). */
export function densityLines(x: Float32Array, y: Float32Array): Line[] {
  const box: Box = { x: spanOf(x, 0.25), y: spanOf(y, 0.25) };
  const grid = densityGrid(x, y, box);
  const draw = contours().size([CELLS, CELLS]).smooth(true);
  return MASSES.map((mass) => {
    const shape = draw.contour(grid, levelOf(grid, mass));
    const rings = shape.coordinates
      .flat()
      .map((ring) => ring.map(([u, v]) => unscaled(box, u!, v!)));
    return { mass, rings };
  });
}

/** Shares of the points in each cell, smoothed by about a kernel of Scott's bandwidth. */
export function densityGrid(x: Float32Array, y: Float32Array, box: Box): number[] {
  const counts = new Array<number>(CELLS * CELLS).fill(0);
  let total = 0;
  for (let n = 0; n < x.length; n++) {
    const [column, row] = [cell(x[n]!, box.x), cell(y[n]!, box.y)];
    if (!(column >= 0 && row >= 0 && column < CELLS && row < CELLS)) continue;
    counts[row * CELLS + column]!++;
    total++;
  }
  const bandwidth = [x, y].map((values, n) => {
    const [low, high] = n === 0 ? box.x : box.y;
    return Math.max(((deviation(values) ?? 0) * total ** (-1 / 6) * CELLS) / (high - low), 1);
  });
  blur2(
    { data: counts, width: CELLS, height: CELLS },
    radius(bandwidth[0]!),
    radius(bandwidth[1]!),
  );
  return counts.map((count) => count / Math.max(total, 1));
}

function cell(value: number, [low, high]: readonly [number, number]): number {
  return Math.floor(((value - low) / (high - low)) * CELLS);
}

/** The radius for which d3's blur has a standard deviation, as in its own density contours. */
function radius(sigma: number): number {
  return (Math.sqrt(4 * sigma * sigma + 1) - 1) / 2;
}

/** The density above which cells hold a share of the whole. */
export function levelOf(grid: readonly number[], mass: number): number {
  const sorted = [...grid].sort((a, b) => b - a);
  const whole = sorted.reduce((sum, share) => sum + share, 0);
  let sum = 0;
  for (const share of sorted) {
    sum += share;
    if (sum >= mass * whole) return share;
  }
  return 0;
}

function unscaled(box: Box, u: number, v: number): Place {
  return [
    box.x[0] + (u / CELLS) * (box.x[1] - box.x[0]),
    box.y[0] + (v / CELLS) * (box.y[1] - box.y[0]),
  ];
}

/** The path of lines in data coordinates, as the attribute "d". */
export function pathOf(rings: readonly (readonly Place[])[], place: (at: Place) => Place): string {
  return rings
    .map(
      (ring) =>
        `M${ring
          .map((at) =>
            place(at)
              .map((n) => n.toFixed(1))
              .join(","),
          )
          .join("L")}Z`,
    )
    .join("");
}
