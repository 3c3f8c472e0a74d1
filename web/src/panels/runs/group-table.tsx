/** One row for every group of runs that differ only in their seed. */
import type { RunData, Setting } from "../../bundle";
import { change } from "../../state";
import type { Csv } from "../../ui/export";
import { isolated } from "../../text";
import { compareValues, numberText, valueText, type Column, type Value } from "./columns";
import { withValue } from "./filter";
import { summary, type RunGroup } from "./groups";
import { Pages } from "./pages";
import { columns, groups, shown } from "./shown";
import { Head } from "./table";

export function GroupTable() {
  const listed = groupColumns();
  return (
    <>
      <p class="help">Scores: mean over seeds (lowest to highest).</p>
      <Pages of={sortedGroups()} name="groups of seeds">
        {(page) => (
          <table>
            <Head columns={listed} lead="Seeds" />
            <tbody>
              {page.map((group) => (
                <Row key={group.key} group={group} columns={listed} />
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
        <button type="button" aria-label={`${group.runs.length} of ${isolated(group.name)}: show these runs`} onClick={() => showRuns(group)}>
          {group.runs.length}
        </button>
      </td>
      {columns.map((column) => (
        <td key={column.key} class={column.kind === "score" ? "number" : ""}>{cell(group, column)}</td>
      ))}
    </tr>
  );
}

/** Settings but for the seed, and scores. */
function groupColumns(): Column[] {
  return columns.value.filter(({ key, kind }) => kind !== "about" && key !== "seed");
}

/** A setting of the group, or the mean of a score. */
function groupValue(group: RunGroup, column: Column): Value {
  if (column.kind !== "score") return column.value(group.runs[0]!);
  return summary(scoresOf(group.runs, column))?.mean;
}

function scoresOf(runs: readonly RunData[], column: Column): number[] {
  return runs.map(column.value).filter((value) => typeof value === "number");
}

function sortedGroups(): RunGroup[] {
  const column = groupColumns().find(({ key }) => key === shown.sort.value);
  if (!column) return groups.value;
  const descending = shown.descending.value;
  return [...groups.value].sort((a, b) => compareValues(groupValue(a, column), groupValue(b, column), descending));
}

function cell(group: RunGroup, column: Column): string {
  if (column.kind !== "score") return valueText(groupValue(group, column));
  const found = summary(scoresOf(group.runs, column));
  if (!found) return "–";
  const mean = numberText(found.mean);
  return found.n === 1 ? mean : `${mean} (${numberText(found.min)} to ${numberText(found.max)})`;
}

/** Filter to the runs of a group. */
function showRuns(group: RunGroup): void {
  const settings = groupColumns().filter(({ kind }) => kind === "setting");
  const filter = settings.reduce(
    (text, { key }) => withValue(text, key, settingText(group.runs[0]!.settings[key])),
    shown.filter.value,
  );
  change({ filter, seeds: false });
}

function settingText(value: Setting | undefined): string {
  return value === undefined || value === null ? "-" : String(value);
}

export function groupsCsv(): Csv {
  const [settings, scores] = ["setting", "score"].map((kind) => groupColumns().filter((column) => column.kind === kind));
  return {
    columns: ["seeds", ...settings!.map(({ key }) => key), ...scores!.flatMap(({ key }) => [`${key} mean`, `${key} min`, `${key} max`, `${key} n`])],
    rows: sortedGroups().map((group) => [
      group.runs.length,
      ...settings!.map((column) => settingText(group.runs[0]!.settings[column.key])),
      ...scores!.flatMap((column) => {
        const found = summary(scoresOf(group.runs, column));
        return found ? [found.mean, found.min, found.max, found.n] : [null, null, null, 0];
      }),
    ]),
  };
}
