/** All runs in a table: sort by a column, open runs, or see groups of seeds. */
import type { RunData } from "../../bundle";
import { closeRun, openRun } from "../../open-runs";
import { change, MOST_OPEN } from "../../state";
import type { Csv } from "../../ui/export";
import { capitalised, isolated } from "../../text";
import { Panel } from "../../ui/panel";
import { Training } from "../picker";
import { ColumnToggles, Toggle } from "./chart";
import { betterText, csvValue, titleOf, type Column } from "./columns";
import { GroupTable, groupsCsv } from "./group-table";
import { plainValue } from "./names";
import { Pages } from "./pages";
import { columns, isNumeric, listed, runs, shown, sorted, texts } from "./shown";

export function RunTable() {
  const seeds = shown.seeds.value;
  return (
    <Panel
      title="Runs"
      help={`${runs.value.length > 1 ? `Check up to ${MOST_OPEN} runs to see them side by side. Choose a heading to sort. ` : ""}CSV saves all columns under their exact names.`}
      csv={() => (seeds ? groupsCsv() : runsCsv(sorted.value, columns.value))}
    >
      <div class="choices">
        {sorted.value.length > 1 && (
          <Toggle label="group seeds" on={seeds} onToggle={() => change({ seeds: !seeds })} />
        )}
        <ColumnToggles
          title="Columns"
          columns={columns.value}
          chosen={listed.value}
          onToggle={(keys) => change({ columns: keys })}
        />
      </div>
      {seeds ? <GroupTable /> : <Rows runs={sorted.value} />}
    </Panel>
  );
}

export function runsCsv(runs: readonly RunData[], columns: readonly Column[]): Csv {
  return {
    columns: ["id", ...columns.map(({ key }) => key)],
    rows: runs.map((run) => [run.id, ...columns.map((column) => csvValue(column.value(run)))]),
  };
}

function Rows({ runs }: { runs: readonly RunData[] }) {
  return (
    <Pages of={runs} name="runs">
      {(page) => (
        <table>
          <Head columns={listed.value} lead="Open" />
          <tbody>
            {page.map((run) => (
              <Row key={run.id} run={run} />
            ))}
          </tbody>
        </table>
      )}
    </Pages>
  );
}

interface HeadProps {
  columns: readonly Column[];
  /** The title of the first column, which does not sort. */
  lead: string;
}

export function Head({ columns, lead }: HeadProps) {
  const [sort, descending] = [shown.sort.value, shown.descending.value];
  return (
    <thead>
      <tr>
        <th scope="col">{lead}</th>
        {columns.map((column) => (
          <Heading
            key={column.key}
            column={column}
            sorted={column.key !== sort ? "none" : descending ? "descending" : "ascending"}
          />
        ))}
      </tr>
    </thead>
  );
}

const SORTED = { none: "", descending: " ▼", ascending: " ▲" };

/** A click sorts, the best runs first; another one turns the order. */
function Heading({ column, sorted }: { column: Column; sorted: keyof typeof SORTED }) {
  const { key, better } = column;
  const descending = sorted === "none" ? better === "higher" : sorted === "ascending";
  return (
    <th scope="col" class={isNumeric(column) ? "number" : ""} aria-sort={sorted}>
      <button type="button" title={key} onClick={() => change({ sort: key, descending })}>
        <bdi>{capitalised(titleOf(column))}</bdi>
        <span aria-hidden="true">{SORTED[sorted]}</span>
        {better && <small>{betterText(column)}</small>}
      </button>
    </th>
  );
}

function Row({ run }: { run: RunData }) {
  return (
    <tr class={shown.open.value.includes(run.id) ? "open" : ""}>
      <td>
        <OpenBox run={run} />
      </td>
      {listed.value.map((column) => (
        <td key={column.key} class={isNumeric(column) ? "number" : ""}>
          {column.key === "state" ? <State run={run} /> : cellText(column, run)}
        </td>
      ))}
    </tr>
  );
}

function cellText(column: Column, run: RunData): string {
  const value = column.value(run);
  return typeof value === "number" ? texts.value.get(column.key)!(value) : plainValue(value);
}

function State({ run }: { run: RunData }) {
  return run.state === "running" ? <Training runs={[run]} /> : <>{run.state}</>;
}

function OpenBox({ run }: { run: RunData }) {
  const open = shown.open.value;
  const checked = open.includes(run.id);
  const fixed = checked ? open.length === 1 : open.length >= MOST_OPEN;
  if (!run.explorable) return <span title="This run has no model that can be opened">–</span>;
  return (
    <input
      type="checkbox"
      checked={checked}
      disabled={fixed}
      aria-label={`Open ${isolated(run.name)}`}
      title={checked && fixed ? "One run stays open" : fixed ? `${MOST_OPEN} runs are open` : ""}
      onChange={() => (checked ? closeRun(run.id) : openRun(run.id))}
    />
  );
}
