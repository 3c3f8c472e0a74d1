/** Read a file of the user as observations of a model. */
import type { ImageObservation } from "../bundle";
import { hasNumbers, numbersOf, readTable } from "./csv";
import { readNpy, type NumberArray } from "./npy";
import type { Seen } from "../units";
import { channelsOf, fit } from "./resize";
import { straightPixels } from "./straight";

/** One observation of a file: its numbers in the user's units, and what was done to get them. */
export interface ReadObservation {
  name: string;
  note: string;
  numbers: Float64Array;
}

/** Observations that are taken from one file. */
export const MOST = 12;

/** Read a file; errors say why it cannot be read and what to do. */
export async function readFile(file: File, seen: Seen): Promise<ReadObservation[]> {
  const ending = /\.([a-z]+)$/i.exec(file.name)?.[1]?.toLowerCase();
  if (ending === "npy") return readArray(file, seen);
  if (ending === "csv" || ending === "tsv" || ending === "txt") return readCsv(file, seen);
  if (seen.kind === "vector") {
    throw new Error(
      `the model was trained on ${seen.length} columns of numbers. Choose a .csv or .npy file`,
    );
  }
  return [await readImage(file, seen)];
}

export function lengthOf(seen: Seen): number {
  return seen.kind === "image" ? seen.channels * seen.height * seen.width : seen.length;
}

async function readImage(file: File, seen: ImageObservation): Promise<ReadObservation> {
  if (!seen.pixels) {
    throw new Error(
      "the model was trained on measured values, which cannot be recovered from the colours of an image file. " +
        `Choose a .npy file of ${shapeText(seen)} numbers`,
    );
  }
  if (![1, 3, 4].includes(seen.channels)) {
    throw new Error(
      `the model has ${seen.channels} channels. Choose a .npy file of ${shapeText(seen)} numbers`,
    );
  }
  const { rgba, width, height, laid } = await decodeImage(file, seen.channels === 4);
  const sized = fit(
    { width, height, channels: channelsOf(rgba, seen.channels) },
    seen.width,
    seen.height,
  );
  const numbers = Float64Array.from(
    sized.channels.flatMap((channel) => Array.from(channel)),
    (x) => x / 255,
  );
  return { name: file.name, note: imageNote(width, height, seen, isGrey(rgba), laid), numbers };
}

interface DecodedImage {
  rgba: Uint8ClampedArray;
  width: number;
  height: number;
  /** Whether it was placed on a white background. */
  laid: boolean;
}

/** The pixels of an image file; transparent ones are placed on a white background unless the model
 * has opacity. */
async function decodeImage(file: File, keepAlpha: boolean): Promise<DecodedImage> {
  const bitmap = await bitmapOf(file);
  const { width, height } = bitmap;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d", { willReadFrequently: true })!;
  context.drawImage(bitmap, 0, 0);
  const rgba = context.getImageData(0, 0, width, height).data;
  const opaque = isOpaque(rgba);
  const straight = keepAlpha && !opaque ? straightPixels(bitmap) : null;
  bitmap.close();
  if (opaque) return { rgba, width, height, laid: false };
  if (straight) return { rgba: straight, width, height, laid: false };
  if (keepAlpha)
    throw new Error(
      "this browser cannot read the colours of transparent pixels. Choose a .npy file",
    );
  context.globalCompositeOperation = "destination-over";
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  return { rgba: context.getImageData(0, 0, width, height).data, width, height, laid: true };
}

async function bitmapOf(file: File): Promise<ImageBitmap> {
  try {
    return await createImageBitmap(file, {
      colorSpaceConversion: "none",
      imageOrientation: "from-image",
      premultiplyAlpha: "none",
    });
  } catch {
    throw new Error(
      "this browser cannot show it as an image. Choose a PNG, JPEG, WebP, GIF or BMP file",
    );
  }
}

function isOpaque(rgba: Uint8ClampedArray): boolean {
  for (let n = 3; n < rgba.length; n += 4) if (rgba[n] !== 255) return false;
  return true;
}

function isGrey(rgba: Uint8ClampedArray): boolean {
  for (let n = 0; n < rgba.length; n += 4)
    if (rgba[n] !== rgba[n + 1] || rgba[n] !== rgba[n + 2]) return false;
  return true;
}

function imageNote(
  width: number,
  height: number,
  seen: ImageObservation,
  grey: boolean,
  laid: boolean,
): string {
  const steps = laid ? ["placed on a white background"] : [];
  if (Math.abs(width * seen.height - height * seen.width) > 1e-9)
    steps.push("cropped to its centre");
  if (width !== seen.width || height !== seen.height) {
    steps.push(`resized from ${width} × ${height} to ${seen.width} × ${seen.height} pixels`);
  }
  if (seen.channels === 1 && !grey) steps.push("turned to grey");
  return steps.length > 0 ? `It was ${joined(steps)}.` : "Its pixels were taken as they are.";
}

function joined(parts: string[]): string {
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

function shapeText(seen: Seen): string {
  return seen.kind === "image"
    ? `${seen.channels} × ${seen.height} × ${seen.width}`
    : String(seen.length);
}

async function readArray(file: File, seen: Seen): Promise<ReadObservation[]> {
  const array = readNpy(new Uint8Array(await file.arrayBuffer()));
  const bytes = array.dtype === "|u1" && seen.kind === "image" && seen.pixels;
  const rows = observationsOf(array, seen).map((row) => (bytes ? row.map((x) => x / 255) : row));
  return named(
    file.name,
    rows,
    seen,
    bytes ? "Its bytes were divided by 255." : "Its numbers were taken as they are.",
  );
}

/** Cut an array into observations: it is one, or has rows of several. Channels may come last. */
export function observationsOf({ shape, values }: NumberArray, seen: Seen): Float64Array[] {
  const length = lengthOf(seen);
  const forms = formsOf(seen);
  const form = forms.find((each) => [shape.join(), shape.slice(1).join()].includes(each.join()));
  if (!form || (shape.length === form.length + 1 && shape[0] === 0)) {
    throw new Error(
      `it has the shape (${shape.join(", ")}). The model needs ${shapeText(seen)} numbers`,
    );
  }
  const rows = Array.from({ length: values.length / length }, (_, n) =>
    values.slice(n * length, (n + 1) * length),
  );
  const last = seen.kind === "image" && form === forms[1] && seen.channels > 1;
  return last ? rows.map((row) => channelsFirst(row, seen.channels)) : rows;
}

/** Shapes that one observation may have, such as channels first or last. */
function formsOf(seen: Seen): number[][] {
  if (seen.kind === "vector") return [[seen.length]];
  const { channels, height, width } = seen;
  return [
    [channels, height, width],
    [height, width, channels],
    ...(channels === 1 ? [[height, width]] : []),
    [channels * height * width],
  ];
}

function channelsFirst(row: Float64Array, channels: number): Float64Array {
  const pixels = row.length / channels;
  return row.map((_, n) => row[(n % pixels) * channels + Math.floor(n / pixels)]!);
}

async function readCsv(file: File, seen: Seen): Promise<ReadObservation[]> {
  const names = seen.kind === "vector" ? seen.names : [];
  const table = readTable(await file.text(), names);
  if (!hasNumbers(table))
    throw new Error(
      seen.kind === "image"
        ? "it is neither an image nor a table of numbers"
        : "it is not a table of numbers",
    );
  const rows = numbersOf(table, lengthOf(seen), names);
  if (rows.length === 0) throw new Error("it has no row of numbers");
  return named(
    file.name,
    rows.map((row) => Float64Array.from(row)),
    seen,
    "Its numbers were taken as they are.",
  );
}

/** Check values, and name the observations of a file. */
function named(
  name: string,
  rows: readonly Float64Array[],
  seen: Seen,
  note: string,
): ReadObservation[] {
  const more = rows.length > MOST ? ` The first ${MOST} of ${rows.length} rows were taken.` : "";
  return rows.slice(0, MOST).map((numbers, n) => {
    check(numbers, seen);
    return { name: rows.length > 1 ? `${name}, row ${n + 1}` : name, note: note + more, numbers };
  });
}

function check(numbers: Float64Array, seen: Seen): void {
  if (!numbers.every(Number.isFinite))
    throw new Error("some of its values are not finite. Replace them by numbers");
  const [low, high] = [
    numbers.reduce((a, b) => Math.min(a, b), Infinity),
    numbers.reduce((a, b) => Math.max(a, b), -Infinity),
  ];
  const got = `its values go from ${+low.toPrecision(4)} to ${+high.toPrecision(4)}`;
  if (seen.kind === "image" && seen.pixels && (low < 0 || high > 1)) {
    throw new Error(`${got}. The model needs values from 0 to 1, or bytes of the type uint8`);
  }
  if (seen.kind === "vector" && seen.counts && low < 0)
    throw new Error(`${got}. The model needs counts of 0 or more`);
}
