/** Where the current code started: a row of the data, or a file of the user. */
import { signal } from "@preact/signals";
import type { Code, Model } from "./model";
import { change, view } from "./state";
import { toNetwork } from "./units";
import { readFile, type ReadObservation } from "./upload/read";

/** A file's observation, with its codes by the id of the model that encoded it. */
export interface Upload extends ReadObservation {
  id: number;
  /** The shape of the observations of the models that can read it. */
  shape: string;
  codes: ReadonlyMap<string, number[]>;
}

export type Origin = { kind: "row"; row: number } | { kind: "upload"; upload: Upload };

export const uploads = signal<readonly Upload[]>([]);
/** Why files were not taken. */
export const refused = signal<readonly string[]>([]);

/** The uploads that a model can encode. */
export function uploadsFor(model: Model): Upload[] {
  const shape = model.shape.join();
  return uploads.value.filter((upload) => upload.shape === shape);
}

/** Where the code of a model started. */
export function originOf(model: Model): Origin {
  const { row, upload: id } = view.value;
  const upload = row === null ? uploads.value.find((each) => each.id === id) : undefined;
  if (upload?.codes.has(model.id)) return { kind: "upload", upload };
  const { rows, start } = model.data;
  return { kind: "row", row: row !== null && row < rows.count ? row : start };
}

/** The code of an observation, before any slider was moved. */
export function codeOf(model: Model, origin: Origin): number[] {
  return origin.kind === "row" ? model.code(origin.row) : origin.upload.codes.get(model.id)!;
}

/** Whether the sliders are at the code of the observation. */
export function isUnmoved(model: Model): boolean {
  const { z } = view.value;
  return z === null || codeOf(model, originOf(model)).every((value, column) => value === z[column]);
}

const ranges = new WeakMap<Model, [number, number][]>();

/** How many numbers of a code lie beyond those of all rows of the data. */
export function codesBeyond(model: Model, z: Code): number {
  const known = ranges.get(model) ?? rangesOf(model);
  ranges.set(model, known);
  return z.filter((value, column) => value < known[column]![0] || value > known[column]![1]).length;
}

function rangesOf({ data: { size }, means }: Model): [number, number][] {
  const found = Array.from({ length: size }, (): [number, number] => [Infinity, -Infinity]);
  means.forEach((value, n) => {
    const range = found[n % size]!;
    if (value < range[0]) range[0] = value;
    if (value > range[1]) range[1] = value;
  });
  return found;
}

/** Go back to the code of the observation. */
export function reset(model: Model): void {
  const origin = originOf(model);
  change({ z: origin.kind === "row" ? null : codeOf(model, origin) });
}

/** Show a row of the data and its code. */
export function showRow(row: number): void {
  change({ row, z: null, upload: null });
}

/** Encode numbers in the user's units. */
export async function encodeNumbers(model: Model, numbers: ArrayLike<number>): Promise<number[]> {
  const [code] = await model.encode(toNetwork(model.data.observation, numbers));
  return code!;
}

/** The code of an upload by a model, which is kept with the upload. */
export async function encodeUpload(model: Model, upload: Upload): Promise<number[]> {
  const code = upload.codes.get(model.id) ?? (await encodeNumbers(model, upload.numbers));
  uploads.value = uploads.value.map((each) =>
    each.id === upload.id ? { ...each, codes: new Map(each.codes).set(model.id, code) } : each,
  );
  return code;
}

/** Show an upload: the sliders move to its code. */
export async function showUpload(model: Model, upload: Upload): Promise<void> {
  change({ upload: upload.id, row: null, z: await encodeUpload(model, upload) });
}

let taken = 0;

/** Read files, keep what they hold, and show the last. */
export async function take(model: Model, files: readonly File[]): Promise<void> {
  refused.value = [];
  for (const file of files) {
    try {
      const read = await readFile(file, model.data.observation);
      const added = read.map((each) => ({ ...each, id: ++taken, shape: model.shape.join(), codes: new Map() }));
      uploads.value = [...uploads.value, ...added];
      await showUpload(model, added[0]!);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      refused.value = [...refused.value, `Cannot read ${file.name}: ${reason}.`];
    }
  }
}

/** Forget an upload; if it is shown, go back to the data. */
export function forget(upload: Upload): void {
  uploads.value = uploads.value.filter((each) => each.id !== upload.id);
  if (view.value.upload === upload.id) change({ upload: null, z: null });
}
