/** Where the current code started: a row of the data, a file of the user, or a file that another page
 * had when a link was made there. */
import { computed, effect, signal } from "@preact/signals";
import type { Code, Model } from "./model";
import { change, known, model as first, view } from "./state";
import { isolated, messageOf } from "./text";
import { toNetwork } from "./units";
import { readFile, type ReadObservation } from "./upload/read";

/** A file's observation, with its codes by the models that have encoded it; newer weights of a run,
 * and a run that was closed and reopened, are other models. */
export interface Upload extends ReadObservation {
  id: number;
  /** The shape of the observations of the models that can read it. */
  shape: string;
  codes: WeakMap<Model, number[]>;
}

export type Origin =
  { kind: "row"; row: number } | { kind: "upload"; upload: Upload } | { kind: "absent" };

export const uploads = signal<readonly Upload[]>([]);
/** Why files were not taken, until something else is shown. */
export const refused = signal<readonly string[]>([]);
const place = computed(() =>
  JSON.stringify([view.value.open, view.value.tab, view.value.row, view.value.upload]),
);
effect(() => {
  if (place.value) refused.value = [];
});

/** The uploads that a model can encode. */
export function uploadsFor(model: Model): Upload[] {
  const shape = model.shape.join();
  return uploads.value.filter((upload) => upload.shape === shape);
}

/** Where the code of a model started. The model may still have to encode an upload. */
export function originOf(model: Model): Origin {
  const { row, upload: id, z } = view.value;
  const ofFile = row === null && id !== null;
  const kept = ofFile && model.data.autoencodes ? uploadsFor(model) : [];
  const upload = kept.find((each) => each.id === id);
  if (upload) return { kind: "upload", upload };
  return ofFile && z !== null ? { kind: "absent" } : { kind: "row", row: known(model, row) };
}

/** The code of an observation, before any slider was moved; null if the observation is absent or
 * not encoded yet. */
export function codeOf(model: Model, origin: Origin): number[] | null {
  if (origin.kind === "absent") return null;
  return origin.kind === "row" ? model.code(origin.row) : (origin.upload.codes.get(model) ?? null);
}

/** Whether the sliders are at the code of the observation. */
export function isUnmoved(model: Model): boolean {
  const { z } = view.value;
  const origin = originOf(model);
  if (z === null) return origin.kind === "row";
  return codeOf(model, origin)?.every((value, column) => value === z[column]) ?? false;
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
  const z = codeOf(model, origin);
  if (z) change({ z: origin.kind === "row" ? null : z });
}

/** Show a row of the data and its code. */
export function showRow(model: Model, row: number): void {
  change({ row: model.indexOf(row), z: null, upload: null });
}

/** Encode numbers in the user's units. */
export async function encodeNumbers(model: Model, numbers: ArrayLike<number>): Promise<number[]> {
  const [code] = await model.encode(toNetwork(model.data.observation, numbers));
  return code!;
}

/** The code of an upload by a model, which is kept with the upload. */
export async function encodeUpload(model: Model, upload: Upload): Promise<number[]> {
  const code = upload.codes.get(model) ?? (await encodeNumbers(model, upload.numbers));
  upload.codes.set(model, code);
  uploads.value = uploads.value.map((each) => (each.id === upload.id ? { ...each } : each));
  return code;
}

/** Encode an upload for the sliders, which may have gone to newer weights or another run meanwhile:
 * return the code by the model that has them now, or null. A failure is reported. */
export async function encodeCurrent(model: Model, upload: Upload): Promise<number[] | null> {
  try {
    const code = await encodeUpload(model, upload);
    const now = first.value;
    if (now === model) return code;
    return now?.id === model.id ? await encodeCurrent(now, upload) : null;
  } catch (error) {
    refuse(`The encoder failed on ${isolated(upload.name)}: ${messageOf(error)}.`);
    return null;
  }
}

/** Show an upload: the sliders move to its code. */
export async function showUpload(model: Model, upload: Upload): Promise<void> {
  const code = await encodeCurrent(model, upload);
  if (code) change({ upload: upload.id, row: null, z: code });
}

/** The upload of the view if the model with the sliders has to encode it: after undo, for example. */
const waiting = computed(() => {
  const origin = first.value && originOf(first.value);
  if (origin?.kind !== "upload") return null;
  const encoded = view.value.z !== null && origin.upload.codes.has(first.value!);
  return encoded ? null : origin.upload.id;
});
effect(() => {
  const upload = uploads.peek().find(({ id }) => id === waiting.value);
  if (first.value && upload) void encodeWaiting(first.value, upload);
});

/** Encode the upload of the view. Without a code, the sliders go to it, or else back to the data. */
async function encodeWaiting(model: Model, upload: Upload): Promise<void> {
  const code = await encodeCurrent(model, upload);
  const reasons = refused.value;
  if (waiting.value !== upload.id || view.value.z !== null) return;
  view.value = code ? { ...view.value, z: code } : { ...view.value, upload: null };
  for (const reason of reasons) refuse(reason);
}

/** Say why a file is not shown. */
export function refuse(reason: string): void {
  refused.value = [...refused.value.filter((each) => each !== reason), reason];
}

let taken = 0;

/** Read files, keep what they hold, and show the last. */
export async function take(model: Model, files: readonly File[]): Promise<void> {
  refused.value = [];
  for (const file of files) {
    const added = await keep(model, file);
    const reasons = refused.value;
    if (!added) continue;
    await showUpload(model, added);
    // That one file is shown is no answer to why another is not.
    for (const reason of reasons) refuse(reason);
  }
}

/** Read a file and keep its observations; return the first of them. */
async function keep(model: Model, file: File): Promise<Upload | undefined> {
  try {
    const read = await readFile(file, model.data.observation);
    const added = read.map((each) => ({
      ...each,
      id: ++taken,
      shape: model.shape.join(),
      codes: new WeakMap(),
    }));
    uploads.value = [...uploads.value, ...added];
    return added[0];
  } catch (error) {
    refuse(`Cannot read ${isolated(file.name)}: ${messageOf(error)}.`);
    return undefined;
  }
}

/** Forget an upload; if it is shown, go back to the data. */
export function forget(upload: Upload): void {
  uploads.value = uploads.value.filter((each) => each.id !== upload.id);
  if (view.value.upload === upload.id) change({ upload: null, z: null });
}
