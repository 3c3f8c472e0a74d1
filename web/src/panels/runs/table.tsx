/** All runs in a table: sort by a column, open runs, or see groups of seeds. */
import type { RunData } from "../../bundle";
import { closeRun, MOST_OPEN, openRun } from "../../open-runs";
import { change } from "../../state";
import type { Csv } from "../../ui/export";
import { isolated } from "../../text";
import { Panel } from "../../ui/panel";
import { Training } from "../picker";
import { valueText, type Column } from "./columns";
import { GroupTable, groupsCsv } from "./group-table";
import { Pages } from "./pages";
import { columns, shown, sorted } from "./shown";

export function RunTable() {
  const seeds = shown.seeds.value;
  return (
    <Panel
      title="Runs"
      help={`Check up to ${MOST_OPEN} runs to see them side by side. Only settings that differ are shown.`}
      csv={() => (seeds ? groupsCsv() : runsCsv(sorted.value, columns.value))}
    >
      <label class="option">
        <input type="checkbox" checked={seeds} onChange={() => change({ seeds: !seeds })} /> group seeds
      </label>
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

function csvValue(value: ReturnType<Column["value"]>): string | number | null {
  return typeof value === "boolean" ? String(value) : (value ?? null);
}

function Rows({ runs }: { runs: readonly RunData[] }) {
  return (
    <Pages of={runs} name="runs">
      {(page) => (
        <table>
          <Head columns={columns.value} lead="Open" />
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
        {columns.map(({ key }) => (
          <th key={key} scope="col" aria-sort={key !== sort ? "none" : descending ? "descending" : "ascending"}>
            <button type="button" onClick={() => change({ sort: key, descending: key === sort && !descending })}>
              {key}
              <span aria-hidden="true">{key !== sort ? "" : descending ? " ↓" : " ↑"}</span>
            </button>
          </th>
        ))}
      </tr>
    </thead>
  );
}

function Row({ run }: { run: RunData }) {
  return (
    <tr class={shown.open.value.includes(run.id) ? "open" : ""}>
      <td>
        <OpenBox run={run} />
      </td>
      {columns.value.map((column) => (
        <td key={column.key} class={typeof column.value(run) === "number" ? "number" : ""}>
          {column.key === "state" ? <State run={run} /> : valueText(column.value(run))}
        </td>
      ))}
    </tr>
  );
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
