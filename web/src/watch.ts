/** Follow runs in training: ask the server for curves, and read newer weights of open runs. */
import { batch } from "@preact/signals";
import type { Manifest } from "./bundle";
import { Model } from "./model";
import { encodeUpload, isUnmoved, originOf, type Upload } from "./origin";
import { variablesOf } from "./panels/grid";
import { endsOf } from "./panels/interpolate";
import { axesOf } from "./selection";
import { fetchManifest } from "./source";
import { isolated, messageOf } from "./text";
import {
  complete,
  manifest,
  models,
  openMissing,
  report,
  succeeded,
  tryAgain,
  view,
  type View,
} from "./state";

const PAUSE = 2000; // milliseconds between questions

/** Where new runs and weights come from. */
export interface Source {
  manifest: typeof fetchManifest;
  model: (id: string) => Promise<Model>;
}

const SERVER: Source = { manifest: fetchManifest, model: (id) => Model.open(id, true) };

/** Start watching if the page was served with --watch; return a function that stops it. A hidden page
 * does not ask. */
export function watch(): () => void {
  if (!manifest.value.watch) return () => undefined;
  const watcher = new Watcher(SERVER);
  const stop = new AbortController();
  let timer = 0;
  const again = async () => {
    if (!document.hidden) await watcher.look();
    window.clearTimeout(timer);
    if (!stop.signal.aborted) timer = window.setTimeout(again, PAUSE);
  };
  timer = window.setTimeout(again, PAUSE);
  document.addEventListener("visibilitychange", () => void again(), { signal: stop.signal });
  stop.signal.addEventListener("abort", () => window.clearTimeout(timer));
  return () => stop.abort();
}

export class Watcher {
  private reading = false;
  /** The step and state of a run when its weights were last received. */
  private readonly received = new Map<string, string>();

  constructor(private readonly source: Source) {}

  /** Ask once for the runs as they are now. */
  async look(): Promise<void> {
    try {
      const next = await this.source.manifest(manifest.value);
      if (next) show(next);
      succeeded("follow");
    } catch (error) {
      report("follow", `Cannot follow the runs: ${messageOf(error)}. They are shown as they were.`);
      return;
    }
    openFirst();
    void this.refresh();
  }

  /** Read the weights of open runs that have gone on, one after the other. */
  async refresh(): Promise<void> {
    if (this.reading) return;
    this.reading = true;
    for (const id of view.value.open) {
      try {
        await this.update(id);
      } catch (error) {
        report(`update ${id}`, `Cannot read the newest weights of ${id}: ${messageOf(error)}`);
      }
    }
    this.reading = false;
  }

  private async update(id: string): Promise<void> {
    const run = manifest.value.runs.find((each) => each.id === id);
    const before = models.value.get(id);
    if (!run || !before || run.step <= before.data.step) return;
    // Training writes the log before the weights, so these may be of an earlier step: then the next
    // look asks for them again. The last weights come without another row of the log, but with
    // another state of the run.
    const moment = `${run.step} ${run.state}`;
    if (this.received.get(id) === moment) return;
    const newer = await this.source.model(id);
    if (newer.data.step >= run.step || run.state !== "running") this.received.set(id, moment);
    succeeded(`update ${id}`);
    if (newer.data.step > before.data.step) await replace(before, newer);
    else newer.close();
  }
}

/** Show the runs as they are now. One that could not be opened is tried again if it has changed. */
function show(next: Manifest): void {
  const known = new Set(manifest.value.runs);
  manifest.value = next;
  for (const run of next.runs) if (!known.has(run)) void tryAgain(run.id);
}

/** Show newer weights. The code stays, and so does what is seen, though rows and variables come in
 * another order. A file of the user is encoded again. */
async function replace(before: Model, newer: Model): Promise<void> {
  const upload = shownUpload(before);
  const code = upload && (await encodedAgain(newer, upload));
  // The run may have been closed meanwhile, and its model given back.
  if (models.value.get(newer.id) !== before) return newer.close();
  if (shownUpload(before)?.id !== upload?.id) return replace(before, newer);
  const follows = code && isUnmoved(before);
  complete(newer.id, (each) => ({ ...each, ...leftToModel(before, each) }));
  batch(() => {
    if (follows) view.value = { ...view.value, z: code };
    models.value = new Map(models.value).set(newer.id, newer);
  });
  before.close();
}

/** Return the visible settings that the view leaves to the model, where newer weights would choose
 * others. */
export function leftToModel(model: Model, shown: View): Partial<View> {
  const start =
    shown.row === null && shown.upload === null ? { row: model.indexOf(model.data.start) } : {};
  if (shown.tab === "between") return { ...start, ends: endsOf(model, shown.ends) };
  if (shown.tab === "data") return { ...start, ...axesOf(model, shown) };
  const grid = shown.tab === "grid" ? variablesOf(model, shown.grid) : null;
  return grid ? { ...start, grid: [grid[0].number, grid[1].number] } : start;
}

/** The file that the sliders of a model started from. */
function shownUpload(model: Model): Upload | null {
  const origin = originOf(model);
  return view.value.open[0] === model.id && origin.kind === "upload" ? origin.upload : null;
}

/** The code of a file by newer weights. */
async function encodedAgain(newer: Model, upload: Upload): Promise<number[] | null> {
  try {
    return await encodeUpload(newer, upload);
  } catch (error) {
    report(
      `update ${newer.id}`,
      `The newest weights of ${newer.id} cannot encode ${isolated(upload.name)}: ${messageOf(error)}`,
    );
    return null;
  }
}

/** Open the first run that can be opened if there was none at the start. */
function openFirst(): void {
  if (view.value.open.length > 0 || manifest.value.open.length === 0) return;
  view.value = { ...view.value, open: manifest.value.open };
  void openMissing();
}
