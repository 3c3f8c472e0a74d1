/** The axes of the scatter, and the rows that its lasso or a range of values selects. */
import { computed } from "@preact/signals";
import type { Model } from "./model";
import { columnOf, defaultAxes, defaultColour, placesOf } from "./panels/data/columns";
import type { Box } from "./scatter/camera";
import { rowsInside } from "./scatter/lasso";
import { change, model, view, type View } from "./state";

/** The axes and the colour of the scatter: those of a view if the model has them, or the default ones. */
export function axesOf(of: Model, shown: View): Pick<View, "x" | "y" | "colour"> {
  const [x, y] = [shown.x, shown.y].map((key, n) =>
    columnOf(of, key) ? key : defaultAxes(of)[n]!,
  ) as [string, string];
  const known = shown.colour === "none" || columnOf(of, shown.colour);
  return { x, y, colour: known ? shown.colour : defaultColour(of, x) };
}

const axes = computed(() => model.value && axesOf(model.value, view.value));
export const xAxis = computed(() => axes.value?.x ?? "");
export const yAxis = computed(() => axes.value?.y ?? "");
export const colourKey = computed(() => axes.value?.colour ?? "none");

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
  const [x, y] = (lassoAxes.value ?? [xAxis.value, yAxis.value]).map((key) =>
    columnOf(model.value!, key),
  );
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
