/** The points of a scatter: where they lie, which have coordinates, and an index to find them. */
import { classOf, type Code, type Model } from "../../model";
import { spanOf } from "../../scatter/camera";
import { Picker } from "../../scatter/picking";
import type { Points } from "../../scatter/renderer";
import { columnOf, placesOf, type Column } from "./columns";
import { affineMap } from "./projection";

export interface Cloud {
  x: Column;
  y: Column;
  points: Points;
  /** Rows that have both coordinates. */
  rows: Uint32Array;
  picker: Picker;
}

export function cloudOf(model: Model, xKey: string, yKey: string): Cloud {
  const [x, y] = [columnOf(model, xKey)!, columnOf(model, yKey)!];
  const [xs, ys] = [placesOf(x), placesOf(y)];
  const rows = Uint32Array.from(xs.keys()).filter(
    (row) => Number.isFinite(xs[row]!) && Number.isFinite(ys[row]!),
  );
  const points = { x: xs, y: ys, whole: { x: spanOf(xs), y: spanOf(ys) } };
  return { x, y, points, rows, picker: new Picker(xs, ys, rows) };
}

/** Where a code lies on an axis, or null if only rows of the data have a place there. */
export function placeOfCode(model: Model, column: Column, code: Code): number | null {
  if (column.dimension !== null) return code[column.dimension]!;
  const [source, n] = column.key.split(":");
  if (source === "z") return classOf(model.variable(Number(n)), code);
  if (source === "pca") return component(model, column)(code);
  return null;
}

const components = new WeakMap<Column, (code: Code) => number>();

/** A principal component as a function of the code, found from the rows. */
function component(model: Model, column: Column): (code: Code) => number {
  const known = components.get(column) ?? affineMap(model.means, model.data.size, column.values);
  components.set(column, known);
  return known;
}
