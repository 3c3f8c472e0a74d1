/** What the tab shows: runs that pass the filter, in order, and parts of the view by themselves.
 *
 * Panels read these instead of `view`, so that sliders in motion do not draw thousands of runs again. */
import { computed, type ReadonlySignal } from "@preact/signals";
import type { RunData } from "../../bundle";
import { manifest, view, type View } from "../../state";
import { messageOf } from "../../text";
import { allColumns, compareValues, tableColumns, usualColumns, type Column } from "./columns";
import { parseFilter } from "./filter";
import { groupSeeds } from "./groups";
import { columnText, numberText } from "./names";

function part<Key extends keyof View>(key: Key): ReadonlySignal<View[Key]> {
  return computed(() => view.value[key]);
}

export const shown = {
  open: part("open"),
  filter: part("filter"),
  sort: part("sort"),
  descending: part("descending"),
  columns: part("columns"),
  seeds: part("seeds"),
  setting: part("setting"),
  score: part("score"),
  shade: part("shade"),
  logs: part("logs"),
  axes: part("axes"),
  term: part("term"),
  deviation: part("deviation"),
  onlyOpen: part("onlyOpen"),
};

export const runs = computed(() => manifest.value.runs);
export const columns = computed(() => tableColumns(runs.value, manifest.value.terms));
/** The columns of the table: those that were chosen, or the usual ones. */
export const listed = computed(() => {
  const chosen = columns.value.filter(({ key }) => shown.columns.value.includes(key));
  return chosen.length > 0 ? chosen : usualColumns(columns.value, runs.value);
});
/** Whether a column of the table has numbers, which stand one above the other. */
export function isNumeric(column: Column): boolean {
  return runs.value.some((run) => typeof column.value(run) === "number");
}

/** How the numbers of a column of the table are written. */
export const texts = computed(() => {
  const numbers = (column: Column) =>
    runs.value.map(column.value).filter((value) => typeof value === "number");
  return new Map(
    listed.value.map((column) => [
      column.key,
      column.kind === "setting" ? numberText : columnText(numbers(column)),
    ]),
  );
});
const filterable = computed(() => allColumns(runs.value, manifest.value.terms));

interface Filtered {
  runs: readonly RunData[];
  /** What is wrong with the filter; then all runs are shown. */
  error: string;
}

export const filtered = computed<Filtered>(() => {
  try {
    return {
      runs: runs.value.filter(parseFilter(shown.filter.value, filterable.value)),
      error: "",
    };
  } catch (error) {
    return { runs: runs.value, error: messageOf(error) };
  }
});

export const sorted = computed<readonly RunData[]>(() => {
  const column = columns.value.find(({ key }) => key === shown.sort.value);
  if (!column) return filtered.value.runs;
  const descending = shown.descending.value;
  return [...filtered.value.runs].sort((a, b) =>
    compareValues(column.value(a), column.value(b), descending),
  );
});

export const groups = computed(() => groupSeeds(filtered.value.runs));

/** Settings that differ, the seed, ends of curves and scores: what charts can show. */
export const measured = computed(() => columns.value.filter(({ kind }) => kind !== "about"));

/** The column of a name; undefined if no run has it. */
export function columnOf(key: string): Column | undefined {
  return measured.value.find((column) => column.key === key);
}
