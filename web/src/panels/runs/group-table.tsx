/** One row for every group of runs that differ only in their seed. */
import type { RunData } from "../../bundle";
import { change } from "../../state";
import type { Csv } from "../../ui/export";
import { isolated } from "../../text";
import { compareValues, csvValue, type Column, type Value } from "./columns";
import { withValue } from "./filter";
import { summary, type RunGroup } from "./groups";
import { plainValue } from "./names";
import { Pages } from "./pages";
import { columns, groups, isNumeric, listed, shown, texts } from "./shown";
import { Head } from "./table";

export function GroupTable() {
  const drawn = groupColumns(listed.value);
  return (
    <>
      <p class="help">Measured values are means over seeds (lowest to highest).</p>
      <Pages of={sortedGroups()} name="groups of seeds">
        {(page) => (
          <table>
            <Head columns={drawn} lead="Seeds" />
            <tbody>
              {page.map((group) => (
                <Row key={group.key} group={group} columns={drawn} />
              ))}
            </tbody>
          </table>
        )}
      </Pages>
    </>
  );
}

function Row({ group, columns }: { group: RunGroup; columns: readonly Column[] }) {
  return (
    <tr>
      <td>
        <button
          type="button"
          aria-label={`${group.runs.length} of ${isolated(group.name)}: show these runs`}
          onClick={() => showRuns(group)}
        >
          {group.runs.length}
        </button>
      </td>
      {columns.map((column) => (
        <td key={column.key} class={isNumeric(column) ? "number" : ""}>
          {cell(group, column)}
        </td>
      ))}
    </tr>
  );
}

/** Settings but for the seed, and what was measured. */
function groupColumns(of: readonly Column[]): Column[] {
  return of.filter(({ key, kind }) => kind !== "about" && key !== "seed");
}

/** Whether runs of a group differ in it. */
function isMeasured({ kind }: Column): boolean {
  return kind === "final" || kind === "score";
}

/** A setting of the group, or the mean of what was measured. */
function groupValue(group: RunGroup, column: Column): Value {
  if (!isMeasured(column)) return column.value(group.runs[0]!);
  return summary(scoresOf(group.runs, column))?.mean;
}

function scoresOf(runs: readonly RunData[], column: Column): number[] {
  return runs.map(column.value).filter((value) => typeof value === "number");
}

function sortedGroups(): RunGroup[] {
  const column = groupColumns(columns.value).find(({ key }) => key === shown.sort.value);
  if (!column) return groups.value;
  const descending = shown.descending.value;
  return [...groups.value].sort((a, b) =>
    compareValues(groupValue(a, column), groupValue(b, column), descending),
  );
}

function cell(group: RunGroup, column: Column): string {
  if (!isMeasured(column)) return plainValue(groupValue(group, column));
  const found = summary(scoresOf(group.runs, column));
  if (!found) return "–";
  const text = texts.value.get(column.key)!;
  return found.n === 1
    ? text(found.mean)
    : `${text(found.mean)} (${text(found.min)} to ${text(found.max)})`;
}

/** Filter to the runs of a group. */
function showRuns(group: RunGroup): void {
  const settings = groupColumns(columns.value).filter(({ kind }) => kind === "setting");
  const filter = settings.reduce(
    (text, column) => withValue(text, column.key, settingText(groupValue(group, column))),
    shown.filter.value,
  );
  change({ filter, seeds: false });
}

function settingText(value: Value): string {
  return value === undefined || value === null ? "-" : String(value);
}

export function groupsCsv(): Csv {
  const every = groupColumns(columns.value);
  const [settings, scores] = [
    every.filter((column) => !isMeasured(column)),
    every.filter(isMeasured),
  ];
  return {
    columns: [
      "seeds",
      ...settings.map(({ key }) => key),
      ...scores.flatMap(({ key }) => [`${key} mean`, `${key} min`, `${key} max`, `${key} n`]),
    ],
    rows: sortedGroups().map((group) => [
      group.runs.length,
      ...settings.map((column) => csvValue(groupValue(group, column))),
      ...scores.flatMap((column) => {
        const found = summary(scoresOf(group.runs, column));
        return found ? [found.mean, found.min, found.max, found.n] : [null, null, null, 0];
      }),
    ]),
  };
}
