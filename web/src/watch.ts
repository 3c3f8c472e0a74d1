/** Follow runs in training: ask the server for curves, and read newer weights of open runs. */
import { batch } from "@preact/signals";
import { Model } from "./model";
import { encodeUpload, forgetCodes, isUnmoved, originOf } from "./origin";
import { variablesOf } from "./panels/grid";
import { endsOf } from "./panels/interpolate";
import { axesOf } from "./selection";
import { fetchManifest } from "./source";
import {
  complete,
  manifest,
  models,
  openMissing,
  report,
  succeeded,
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

/** Start to watch if the page says so; return what stops it. A hidden page rests. */
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
  /** The step of a run when its weights were last asked for. */
  private readonly steps = new Map<string, number>();

  constructor(private readonly source: Source) {}

  /** Ask once for the runs as they are now. */
  async look(): Promise<void> {
    try {
      const next = await this.source.manifest(manifest.value);
      if (next) manifest.value = next;
      succeeded("follow");
    } catch (error) {
      report(
        "follow",
        `Cannot follow the runs: ${(error as Error).message}. They are shown as they were.`,
      );
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
        report(
          `update ${id}`,
          `Cannot read the newest weights of ${id}: ${(error as Error).message}`,
        );
      }
    }
    this.reading = false;
  }

  private async update(id: string): Promise<void> {
    const step = manifest.value.runs.find((run) => run.id === id)?.step ?? 0;
    const before = models.value.get(id);
    // Weights may be older than the log, so that the step of the log alone does not tell.
    if (!before || step <= before.data.step || this.steps.get(id) === step) return;
    this.steps.set(id, step);
    const newer = await this.source.model(id);
    succeeded(`update ${id}`);
    // The run may have been closed meanwhile, and its model given back.
    if (newer.data.step > before.data.step && models.value.get(id) === before)
      await replace(before, newer);
    else newer.close();
  }
}

/** Show newer weights. The code stays, and so does what is seen, though rows and variables come in
 * another order. A file of the user is encoded again. */
async function replace(before: Model, newer: Model): Promise<void> {
  const code = await encodedAgain(before, newer);
  const follows = code !== null && view.value.open[0] === newer.id && isUnmoved(before);
  complete(newer.id, (each) => ({ ...each, ...leftToModel(before, each) }));
  batch(() => {
    if (follows) view.value = { ...view.value, z: code };
    models.value = new Map(models.value).set(newer.id, newer);
  });
  forgetCodes(before);
  before.close();
}

/** What a view leaves to the model and the user sees: newer weights would choose something else. */
export function leftToModel(model: Model, shown: View): Partial<View> {
  const start =
    shown.row === null && shown.upload === null ? { row: model.indexOf(model.data.start) } : {};
  if (shown.tab === "between") return { ...start, ends: endsOf(model, shown.ends) };
  if (shown.tab === "data") return { ...start, ...axesOf(model, shown) };
  const grid = shown.tab === "grid" ? variablesOf(model, shown.grid) : null;
  return grid ? { ...start, grid: [grid[0].number, grid[1].number] } : start;
}

/** The code of the file that the sliders started from, by newer weights. */
async function encodedAgain(before: Model, newer: Model): Promise<number[] | null> {
  const origin = originOf(before);
  if (view.value.open[0] !== newer.id || origin.kind !== "upload") return null;
  try {
    return await encodeUpload(newer, origin.upload);
  } catch (error) {
    const reason = (error as Error).message;
    report(
      `update ${newer.id}`,
      `The newest weights of ${newer.id} cannot encode ${origin.upload.name}: ${reason}`,
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
