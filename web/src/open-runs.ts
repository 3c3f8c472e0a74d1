/** Which runs are open side by side, and which one has the sliders. */
import { movedCode, sameRow } from "./linked";
import { originOf } from "./origin";
import {
  change,
  code,
  manifest,
  model,
  models,
  MOST_OPEN,
  NO_AXES,
  view,
  type View,
} from "./state";

/** Open one more run; the last one makes room if four are open. */
export function openRun(id: string): void {
  const { open } = view.value;
  if (!open.includes(id)) change({ open: [...open.slice(0, MOST_OPEN - 1), id] });
}

/** Close a run. One stays open. */
export function closeRun(id: string): void {
  const rest = view.value.open.filter((each) => each !== id);
  if (rest.length > 0) arrange(rest);
}

/** Give a run the sliders. */
export function makeFirst(id: string): void {
  arrange([id, ...view.value.open.filter((each) => each !== id)]);
}

/** Put another run into the place of one that is open. */
export function replaceRun(id: string, by: string): void {
  arrange(view.value.open.map((each) => (each === id ? by : each)));
}

/** Show these runs. If another one becomes the first, the sliders go to its code of the observation. */
function arrange(open: string[]): void {
  change(open[0] === view.value.open[0] ? { open } : { open, ...firstView(open[0]!) });
}

/** What the view keeps under another first model: the observation and the moves, but no axes. */
function firstView(id: string): Partial<View> {
  const [before, after] = [model.value, models.value.get(id)];
  if (!before || !after) return { ...NO_AXES, z: null, row: null, upload: null };
  const origin = originOf(before);
  const kept = origin.kind === "row" && sameRow(before, origin.row, after) !== null;
  const row = kept ? before.indexOf(origin.row) : null;
  const upload = origin.kind === "upload" ? origin.upload.id : null;
  const unmoved = upload === null && view.value.z === null;
  return {
    ...NO_AXES,
    row,
    upload,
    z: unmoved ? null : movedCode(before, origin, code.value, after),
  };
}

export function runName(id: string): string {
  return manifest.value.runs.find((run) => run.id === id)?.name ?? id;
}
