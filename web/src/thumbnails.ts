/** Observations of the data as the page has them: tiles of sheets of images, or values. */
import { useEffect, useState } from "preact/hooks";
import type { Thumbnails } from "./bundle";
import type { Model } from "./model";

/** The place of an image in a sheet: draw it with `context.drawImage(sheet, x, y, width, height, ...)`. */
export interface Tile {
  kind: "image";
  sheet: ImageBitmap;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** The numbers of a row in the user's units. */
export interface RowValues {
  kind: "vector";
  values: Float32Array;
}

export type Thumbnail = Tile | RowValues;

/** Where the tile of a row lies: the number of its sheet and its corner. */
export function place(shown: Thumbnails, row: number): { sheet: number; x: number; y: number } {
  const each = shown.columns * shown.rows;
  const inSheet = row % each;
  const [width, height] = shown.tile;
  return {
    sheet: Math.floor(row / each),
    x: (inSheet % shown.columns) * width,
    y: Math.floor(inSheet / shown.columns) * height,
  };
}

const decodedSheets = new WeakMap<Model, Map<number, Promise<ImageBitmap>>>();

/** A sheet of thumbnails; every sheet is decoded once. */
export function sheet(model: Model, number: number): Promise<ImageBitmap> {
  const sheets = decodedSheets.get(model) ?? new Map<number, Promise<ImageBitmap>>();
  decodedSheets.set(model, sheets);
  const decoded = sheets.get(number) ?? decodeSheet(model, number);
  sheets.set(number, decoded);
  return decoded;
}

function decodeSheet(model: Model, number: number): Promise<ImageBitmap> {
  const { shown } = model.data.rows;
  const ref = shown.kind === "image" ? shown.sheets[number] : undefined;
  if (shown.kind !== "image" || !ref)
    return Promise.reject(new Error(`there is no sheet ${number}`));
  return createImageBitmap(new Blob([model.bundle.file(ref)], { type: shown.type }));
}

const rowValues = new WeakMap<Model, Float32Array>();

/** The values of all rows that are shown, (count, length). */
function valuesOf(model: Model): Float32Array {
  const { shown } = model.data.rows;
  if (shown.kind !== "vector") return new Float32Array();
  const values = rowValues.get(model) ?? model.bundle.floats(shown.values);
  rowValues.set(model, values);
  return values;
}

/** What the page has of a row of the data: a tile, values, or null if only its code is known. */
export async function thumbnail(model: Model, row: number): Promise<Thumbnail | null> {
  const { shown } = model.data.rows;
  if (row < 0 || row >= shown.count) return null;
  if (shown.kind === "vector") {
    const length = model.length;
    return { kind: "vector", values: valuesOf(model).subarray(row * length, (row + 1) * length) };
  }
  const { sheet: number, x, y } = place(shown, row);
  const [width, height] = shown.tile;
  return { kind: "image", sheet: await sheet(model, number), x, y, width, height };
}

/** The thumbnail of a row for a component; null until it is there, and if there is none. */
export function useThumbnail(model: Model, row: number | null): Thumbnail | null {
  const [found, setFound] = useState<{ model: Model; row: number; value: Thumbnail | null } | null>(
    null,
  );
  useEffect(() => {
    if (row === null) return;
    let current = true;
    void thumbnail(model, row)
      .catch(() => null)
      .then((value) => current && setFound({ model, row, value }));
    return () => void (current = false);
  }, [model, row]);
  return found && found.model === model && found.row === row ? found.value : null;
}

const ranges = new WeakMap<Model, [number, number]>();

/** The smallest and largest number of nearly all rows that are shown, so that curves keep one scale.
 * A few rows may lie beyond: an outlier would flatten all others. */
export function range(model: Model): [number, number] | null {
  const values = valuesOf(model);
  if (values.length === 0) return null;
  const known = ranges.get(model) ?? typicalExtent(values, model.length);
  ranges.set(model, known);
  return known;
}

const BEYOND = 0.02; // share of the rows that may lie beyond each end

function typicalExtent(values: Float32Array, length: number): [number, number] {
  const rows = Array.from({ length: values.length / length }, (_, row) =>
    extent(values.subarray(row * length, (row + 1) * length)),
  );
  const [lows, highs] = [0, 1].map((end) => rows.map((row) => row[end]!).sort((a, b) => a - b));
  const most = Math.floor(BEYOND * rows.length);
  return [lows![most]!, highs![rows.length - 1 - most]!];
}

function extent(values: Float32Array): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [0, 1];
}
