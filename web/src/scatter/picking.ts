/** Finds points near a place on the screen. */
import KDBush from "kdbush";
import { toData, toScreen, type Box, type Place, type Size } from "./camera";

export type Direction = "left" | "right" | "up" | "down";

const STEPS: Record<Direction, Place> = { left: [-1, 0], right: [1, 0], up: [0, -1], down: [0, 1] };

export class Picker {
  private readonly index: KDBush | null;

  /** Only the points of `rows` are found; all of them must have coordinates. */
  constructor(
    private readonly x: Float32Array,
    private readonly y: Float32Array,
    private readonly rows: Uint32Array,
  ) {
    this.index = rows.length > 0 ? new KDBush(rows.length, 64, Float32Array) : null;
    for (const row of rows) this.index?.add(x[row]!, y[row]!);
    this.index?.finish();
  }

  /** The point nearest to a place on the screen, at most `reach` pixels away, or null. */
  nearest(box: Box, size: Size, at: Place, reach = 12): number | null {
    const [left, high] = toData(box, size, [at[0] - reach, at[1] - reach]);
    const [right, low] = toData(box, size, [at[0] + reach, at[1] + reach]);
    const near = this.index?.range(left, low, right, high).map((n) => this.rows[n]!) ?? [];
    return this.best(near, box, size, at, (dx, dy) => {
      const distance = Math.hypot(dx, dy);
      return distance <= reach ? distance : Infinity;
    });
  }

  /** The nearest point that lies in a direction of another one, within 45 degrees. */
  neighbour(box: Box, size: Size, from: number, direction: Direction): number | null {
    const [sx, sy] = STEPS[direction];
    return this.best(this.rows, box, size, this.screen(box, size, from), (dx, dy) => {
      const along = dx * sx + dy * sy;
      const across = Math.abs(dx * sy + dy * sx);
      return along > 1e-6 && across <= along ? Math.hypot(dx, dy) : Infinity;
    });
  }

  /** The point nearest to the middle of what is seen. */
  middle(box: Box, size: Size): number | null {
    return this.best(this.rows, box, size, [size.width / 2, size.height / 2], Math.hypot);
  }

  screen(box: Box, size: Size, row: number): [number, number] {
    return toScreen(box, size, [this.x[row]!, this.y[row]!]);
  }

  private best(
    rows: Iterable<number>,
    box: Box,
    size: Size,
    at: Place,
    cost: (dx: number, dy: number) => number,
  ): number | null {
    let [found, least]: [number | null, number] = [null, Infinity];
    for (const row of rows) {
      const [x, y] = this.screen(box, size, row);
      const price = cost(x - at[0], y - at[1]);
      if (price < least) [found, least] = [row, price];
    }
    return found;
  }
}

/**
 * Rows whose images of `side` pixels do not overlap at a zoom, the first ones first. Pixels count
 * from the corner of the whole, so the choice stays the same when the content is panned.
 */
export function apart(
  x: Float32Array,
  y: Float32Array,
  rows: Iterable<number>,
  perX: number,
  perY: number,
  side: number,
): number[] {
  const taken = new Map<string, number>();
  const chosen: number[] = [];
  for (const row of rows) {
    const [px, py] = [x[row]! * perX, y[row]! * perY];
    const [column, line] = [Math.floor(px / side), Math.floor(py / side)];
    const overlaps = NEIGHBOURS.some(([dx, dy]) => {
      const other = taken.get(`${column + dx},${line + dy}`);
      return (
        other !== undefined &&
        Math.abs(x[other]! * perX - px) < side &&
        Math.abs(y[other]! * perY - py) < side
      );
    });
    if (overlaps) continue;
    taken.set(`${column},${line}`, row);
    chosen.push(row);
  }
  return chosen;
}

const NEIGHBOURS: Place[] = [-1, 0, 1].flatMap((dx) => [-1, 0, 1].map((dy): Place => [dx, dy]));
