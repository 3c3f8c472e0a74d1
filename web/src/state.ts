/** The state of the page: what is open, and what the user sees of it. It lives in the URL. */
import { computed, signal } from "@preact/signals";
import type { Manifest } from "./bundle";
import { writeFragment } from "./address";
import { Model } from "./model";
import { own } from "./own";
import { messageOf } from "./text";

export type Tab = "traversals" | "grid" | "between" | "data" | "factors" | "runs";

/** The index of an observation in the data, or a code. */
export type End = number | number[];

/** Runs side by side. */
export const MOST_OPEN = 4;

/** Everything that a link restores, and that undo goes back to. */
export interface View {
  /** Runs side by side, 1 to 4; the first one has the sliders. */
  open: string[];
  tab: Tab;
  /** The code of the first model; null is the code of `row`. */
  z: number[] | null;
  /** The index in the data of the observation that the code started from; null is the model's start. */
  row: number | null;
  /** The upload that the code started from, if `row` is null. In a link it is 0, as the file stays in
   * its page. */
  upload: number | null;
  /** Axes of the scatter: "z:3" (a latent variable), "pca:0", "map:1", "factor:0". */
  x: string;
  y: string;
  /** Colour of the points: "none", "factor:0", "z:3", "error". */
  colour: string;
  /** What is seen of the scatter: left, right, bottom and top in its coordinates; null is the whole. */
  box: [number, number, number, number] | null;
  /** Corners of the lasso in the scatter's coordinates. */
  lasso: [number, number][] | null;
  /** The axes that the lasso was drawn on; the selection stays when others are shown. */
  lassoAxes: [string, string] | null;
  /** Rows selected by value instead: from a low to a high value of "factor:0" or "z:3". */
  range: [string, number, number] | null;
  /** Whether points are drawn as images, and whether contours of q(z) and the prior are. */
  images: boolean;
  contours: boolean;
  /** Variables of the 2-D grid, by number. */
  grid: [number, number] | null;
  /** The ends of an interpolation. */
  ends: [End, End] | null;
  /** Images in a row of a traversal. */
  steps: number;
  /** Whether traversals and grids show the difference from the current code, and paths from their start. */
  difference: boolean;
  /** Whether sliders of unused variables are shown. */
  unused: boolean;
  /** The table of runs: text that rows must contain, the column and direction of sorting. */
  filter: string;
  sort: string;
  descending: boolean;
  /** Columns of the table; none is a choice of the page. */
  columns: string[];
  /** The scatter of runs: a score against a setting; and the term of the curves. */
  setting: string;
  score: string;
  term: string;
  /** Open runs that do not follow the sliders of the first one. */
  unlinked: string[];
  /** Whether the table shows one row for runs that differ only in their seed. */
  seeds: boolean;
  /** The setting or score that colours the scatter of runs. */
  shade: string;
  /** Which axes are logarithmic: "x", "y" of the scatter of runs, "curves". */
  logs: string[];
  /** Axes of the parallel coordinates; none is a choice of the page. */
  axes: string[];
  /** Curves: the band is one standard deviation instead of all values; only of open runs. */
  deviation: boolean;
  onlyOpen: boolean;
}

/** What a view shows of one model: axes, selections and ends, which mean nothing for another one. */
export const NO_AXES = {
  x: "",
  y: "",
  colour: "",
  box: null,
  lasso: null,
  lassoAxes: null,
  range: null,
  grid: null,
  ends: null,
} satisfies Partial<View>;

export const DEFAULTS: View = {
  ...NO_AXES,
  open: [],
  tab: "traversals",
  z: null,
  row: null,
  upload: null,
  images: false,
  contours: false,
  steps: 9,
  difference: false,
  unused: false,
  filter: "",
  sort: "",
  descending: false,
  columns: [],
  setting: "",
  score: "",
  term: "",
  unlinked: [],
  seeds: false,
  shade: "",
  logs: [],
  axes: [],
  deviation: false,
  onlyOpen: false,
};

export const NO_RUNS: Manifest = {
  title: "",
  version: "",
  served: false,
  watch: false,
  runs: [],
  open: [],
  terms: {},
  tag: "",
  ids: null,
};
export const manifest = signal(NO_RUNS);
export const view = signal<View>(DEFAULTS);

/** Models that were read, by run. */
export const models = signal<ReadonlyMap<string, Model>>(new Map());
/** One sentence about what went wrong, if anything did. */
export const problem = signal("");
/** Why runs of the view could not be opened. */
export const failures = signal<ReadonlyMap<string, string>>(new Map());
let problemOf = "";

/** Say what went wrong; `kind` is what was attempted. */
export function report(kind: string, text: string): void {
  [problemOf, problem.value] = [kind, text];
}

/** An attempt has succeeded, so that a problem of its kind is over. */
export function succeeded(kind: string): void {
  if (problemOf === kind) problem.value = "";
}

/** Whether networks run in this browser; null until it is known. */
export const canDecode = signal<boolean | null>(null);
/** Why they do not. */
export const noDecoder = signal("");

export const openModels = computed(() =>
  view.value.open.map((id) => models.value.get(id)).filter((model) => model !== undefined),
);
/** The model with the sliders. */
export const model = computed<Model | undefined>(() => openModels.value[0]);

/** The code that the sliders show. */
export const code = computed<number[]>(() => {
  const first = model.value;
  if (!first) return [];
  const { z, row } = view.value;
  return z && z.length === first.data.size ? z : first.code(known(first, row));
});

/** The row of an observation, by its index; those of links may come from other data. */
export function known(model: Model, index: number | null): number {
  return (index === null ? null : model.rowOf(index)) ?? model.data.start;
}

const past: View[] = [];
const future: View[] = [];
/** Grows with every change, so that buttons can ask whether there is something to undo. */
export const changes = signal(0);
let lastKind = "";
let lastTime = 0;

/**
 * Change the view. Changes of one `kind` in quick succession, such as those of a slider that moves,
 * are undone together.
 */
export function change(part: Partial<View>, kind = ""): void {
  if (isShown(part)) return;
  const now = performance.now();
  if (!kind || kind !== lastKind || now - lastTime > 800) past.push(view.value);
  if (past.length > 200) past.shift();
  [lastKind, lastTime] = [kind, now];
  future.length = 0;
  show({ ...view.value, ...part });
}

/** Whether the view already has these values. */
function isShown(part: Partial<View>): boolean {
  const same = (key: keyof View) => JSON.stringify(part[key]) === JSON.stringify(view.value[key]);
  return (Object.keys(part) as (keyof View)[]).every(same);
}

/** Complete the views of a run, also those of undo and redo, before its model is replaced. */
export function complete(id: string, completed: (each: View) => View): void {
  const changed = (each: View): View => (each.open[0] === id ? completed(each) : each);
  for (const views of [past, future]) views.splice(0, views.length, ...views.map(changed));
  view.value = changed(view.value);
}

export const canUndo = computed(() => changes.value >= 0 && past.length > 0);
export const canRedo = computed(() => changes.value >= 0 && future.length > 0);

export const undo = (): void => step(past, future);
export const redo = (): void => step(future, past);

function step(from: View[], to: View[]): void {
  const target = from.pop();
  if (!target) return;
  to.push(view.value);
  lastKind = "";
  show(target);
}

let writing = 0;

function show(next: View): void {
  view.value = next;
  void openMissing();
  changes.value++;
  window.clearTimeout(writing);
  writing = window.setTimeout(() => writeFragment(encode(view.value)), 150);
}

/** The view as the fragment of a URL: what differs from the defaults, each value as JSON. Of
 * an upload, a link has only the code. */
export function encode(shown: View): string {
  const text = new URLSearchParams();
  for (const key of Object.keys(DEFAULTS) as (keyof View)[]) {
    const value = JSON.stringify(inLink(shown, key));
    if (value !== JSON.stringify(DEFAULTS[key])) text.set(key, value);
  }
  return text.toString();
}

function inLink(shown: View, key: keyof View): unknown {
  if (key === "z") return shown.z?.map((x) => +x.toPrecision(6)) ?? null;
  return key === "upload" && shown.upload !== null ? 0 : shown[key];
}

/** Read a fragment. What is not of the right form is left at its default. */
export function decode(fragment: string): View {
  const read: Record<string, unknown> = { ...DEFAULTS };
  for (const [key, text] of new URLSearchParams(fragment.replace(/^#/, ""))) {
    const value = parse(text);
    if (own(FORMS, key)?.(value)) read[key] = value;
  }
  const found = read as unknown as View;
  return { ...found, open: [...new Set(found.open)] };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

type Form = (value: unknown) => boolean;
const isText: Form = (value) => typeof value === "string";
const isFlag: Form = (value) => typeof value === "boolean";
const isNumber: Form = (value) => typeof value === "number" && Number.isFinite(value);
const isCount: Form = (value) =>
  isNumber(value) && Number.isInteger(value) && (value as number) >= 0;
const listOf =
  (form: Form, length?: number): Form =>
  (value) =>
    Array.isArray(value) && value.every(form) && (length === undefined || value.length === length);
const isBox = ([left, right, bottom, top]: number[]): boolean => left! < right! && bottom! < top!;
/** Numbers of images that a row of a traversal may have. */
export const STEPS = [5, 7, 9, 11, 15];
const isRange = ([key, ...ends]: unknown[]): boolean => isText(key) && ends.every(isNumber);
const TABS: Tab[] = ["traversals", "grid", "between", "data", "factors", "runs"];

const FORMS: Record<keyof View, Form> = {
  open: (value) => listOf(isText)(value) && (value as string[]).length <= MOST_OPEN,
  tab: (value) => TABS.includes(value as Tab),
  z: listOf(isNumber),
  row: isCount,
  upload: (value) => value === 0,
  x: isText,
  y: isText,
  colour: isText,
  box: (value) => listOf(isNumber, 4)(value) && isBox(value as number[]),
  lasso: listOf(listOf(isNumber, 2)),
  lassoAxes: listOf(isText, 2),
  range: (value) => listOf(() => true, 3)(value) && isRange(value as unknown[]),
  images: isFlag,
  contours: isFlag,
  grid: listOf(isCount, 2),
  ends: listOf((value) => isCount(value) || listOf(isNumber)(value), 2),
  steps: (value) => isCount(value) && STEPS.includes(value as number),
  difference: isFlag,
  unused: isFlag,
  filter: isText,
  sort: isText,
  descending: isFlag,
  columns: listOf(isText),
  setting: isText,
  score: isText,
  term: isText,
  unlinked: listOf(isText),
  seeds: isFlag,
  shade: isText,
  logs: listOf(isText),
  axes: listOf(isText),
  deviation: isFlag,
  onlyOpen: isFlag,
};

const loading = new Set<string>();
const CLOSED_KEPT = 2; // models of closed runs that stay for a while, for undo
/** Runs in the order of their last use, open ones first. */
let recent: string[] = [];

/** Read the models of the view that are not open yet, and give those of closed runs back. */
export async function openMissing(): Promise<void> {
  const { open } = view.value;
  closeUnused(open);
  forgetFailures(open);
  for (const id of open) if (isMissing(id)) await load(id);
}

/** Whether a run of the view is to be read. One that failed is tried again when it is reopened. */
function isMissing(id: string): boolean {
  if (!view.value.open.includes(id)) return false; // it was closed while another one was read
  return !models.value.has(id) && !loading.has(id) && !failures.value.has(id);
}

async function load(id: string): Promise<void> {
  loading.add(id);
  try {
    const opened = await Model.open(id, manifest.value.served);
    if (view.value.open.includes(id)) models.value = new Map(models.value).set(id, opened);
    else opened.close();
    succeeded(`open ${id}`);
  } catch (error) {
    const reason = messageOf(error);
    failures.value = new Map(failures.value).set(id, reason);
    report(`open ${id}`, `Cannot open ${id}: ${reason}`);
  } finally {
    loading.delete(id);
  }
}

function closeUnused(open: readonly string[]): void {
  const closed = recent.filter((id) => !open.includes(id) && models.value.has(id));
  recent = [...open, ...closed.slice(0, CLOSED_KEPT)];
  const unused = [...models.value].filter(([id]) => !recent.includes(id));
  if (unused.length === 0) return;
  models.value = new Map([...models.value].filter(([id]) => recent.includes(id)));
  for (const [, each] of unused) each.close();
}

/** Read a run of the view that could not be opened once more. */
export async function tryAgain(id: string): Promise<void> {
  if (!failures.value.has(id)) return;
  failures.value = new Map([...failures.value].filter(([each]) => each !== id));
  await openMissing();
}

function forgetFailures(open: readonly string[]): void {
  const still = [...failures.value].filter(([id]) => open.includes(id));
  if (still.length < failures.value.size) failures.value = new Map(still);
}

/** Start from the page's manifest and the URL. */
export async function begin(runs: Manifest, fragment: string): Promise<void> {
  manifest.value = runs;
  view.value = viewOf(fragment);
  await openMissing();
}

/** Go to the view of a link that was put into the address bar. */
export function follow(fragment: string): void {
  change(viewOf(fragment));
  void openMissing();
}

/** The view of a fragment, with the page's own runs if it names none that can be opened. */
function viewOf(fragment: string): View {
  const wanted = decode(fragment);
  const known = new Set(manifest.value.runs.filter((run) => run.explorable).map((run) => run.id));
  const open = wanted.open.filter((id) => known.has(id));
  return { ...wanted, open: open.length > 0 ? open : manifest.value.open };
}
