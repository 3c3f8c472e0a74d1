/** The axes of the scatter, and the rows that its lasso or a range of values selects. */
import { computed } from "@preact/signals";
import type { Model } from "./model";
import { columnOf, defaultAxes, defaultColour, placesOf } from "./panels/data/columns";
import type { Box } from "./scatter/camera";
import { rowsInside } from "./scatter/lasso";
import { change, model, view } from "./state";

export const xAxis = computed(() => (model.value ? axis(model.value, view.value.x, 0) : ""));
export const yAxis = computed(() => (model.value ? axis(model.value, view.value.y, 1) : ""));

/** The chosen axis if the model has it, otherwise the default one. */
function axis(of: Model, chosen: string, place: 0 | 1): string {
  return columnOf(of, chosen) ? chosen : defaultAxes(of)[place];
}

export const colourKey = computed(() => {
  const { colour } = view.value;
  if (!model.value || colour === "none") return "none";
  return columnOf(model.value, colour) ? colour : defaultColour(model.value, xAxis.value);
});

/** Choose an axis; choosing what the other one shows swaps them. The colour follows the variable on
 * the x axis, and stays if that has none of its own. */
export function chooseAxis(of: Model, place: 0 | 1, key: string): void {
  const axes: [string, string] = [xAxis.value, yAxis.value];
  const before = axes[place];
  axes[place] = key;
  if (axes[1 - place] === key) axes[1 - place] = before;
  const [x, y] = axes;
  const stays = colourKey.value !== "none" && defaultColour(of, x) === "none";
  change({ x, y, box: null, ...(stays ? { colour: colourKey.value } : {}) });
}

// Parts of the view of their own, so that what depends on them rests while the sliders move.
export const images = computed(() => view.value.images);
export const contours = computed(() => view.value.contours);
const ends = computed(() => view.value.box);
export const box = computed<Box | null>(() => {
  const [left, right, bottom, top] = ends.value ?? [];
  return ends.value && { x: [left!, right!], y: [bottom!, top!] };
});
export const lasso = computed(() => view.value.lasso);
export const lassoAxes = computed(() => view.value.lassoAxes);
export const range = computed(() => view.value.range);

/** The selected rows in increasing order, or null if nothing is selected. */
export const selection = computed<number[] | null>(() => {
  if (!model.value) return null;
  if (range.value) return rowsInRange(model.value, ...range.value);
  if (!lasso.value) return null;
  const [x, y] = (lassoAxes.value ?? [xAxis.value, yAxis.value]).map((key) => columnOf(model.value!, key));
  return x && y ? rowsInside(placesOf(x), placesOf(y), lasso.value) : null;
});

function rowsInRange(of: Model, key: string, low: number, high: number): number[] | null {
  const column = columnOf(of, key);
  if (!column) return null;
  const rows: number[] = [];
  column.values.forEach((value, row) => value >= low && value <= high && rows.push(row));
  return rows;
}

export function selectLasso(corners: [number, number][]): void {
  const rounded = corners.map(([x, y]): [number, number] => [+x.toPrecision(5), +y.toPrecision(5)]);
  change({ lasso: rounded, lassoAxes: [xAxis.value, yAxis.value], range: null });
}

/** Select the rows with values from low to high. */
export function selectRange(key: string, low: number, high: number): void {
  change({ range: [key, low, high], lasso: null, lassoAxes: null });
}

export function clearSelection(): void {
  if (view.value.lasso || view.value.range) change({ lasso: null, lassoAxes: null, range: null });
}
