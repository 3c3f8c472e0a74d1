/** Parallel coordinates: a line for each run over settings and scores. Brushes write into the filter. */
import { line } from "d3-shape";
import type { RunData } from "../../bundle";
import { openRun } from "../../open-runs";
import { change } from "../../state";
import { Panel } from "../../ui/panel";
import { axisOf, spansDecades, type Axis } from "./axis";
import { AxisBrush } from "./brush";
import { ColumnToggles, useWidth } from "./chart";
import { mostInformative, usualColumns, type Column } from "./columns";
import { Ranges } from "./ranges";
import { columnOf, filtered, measured, runs, shown } from "./shown";
import { runsCsv } from "./table";

const HEIGHT = 320;
const TOP = 56;
const BOTTOM = HEIGHT - 14;
const LEAST_ROOM = 92; // pixels between axes
const MOST_LINES = 1000; // beyond it all lines are drawn as one, and cannot be clicked
const MOST_SCORES = 4; // axes at first

export function Parallel() {
  const columns = chosenColumns();
  if (measured.value.length < 2) return null;
  return (
    <Panel
      title="Parallel coordinates"
      help="Each line is a run. Drag along an axis to keep only the runs in that range; the filter above shows the same in words. Lines of open runs are thick."
      csv={() => runsCsv(filtered.value.runs, columns)}
    >
      <Lines columns={columns} />
      <div class="choices">
        <ColumnToggles
          title="Axes"
          columns={measured.value}
          chosen={columns}
          onToggle={(axes) => change({ axes })}
        />
        <Ranges columns={columns} />
      </div>
    </Panel>
  );
}

/** The axes that were chosen, or the settings and scores of the highest entropy. */
function chosenColumns(): Column[] {
  const chosen = shown.axes.value.map(columnOf).filter((column) => column !== undefined);
  if (chosen.length > 0) return chosen;
  const usual = usualColumns(measured.value, runs.value).filter(({ key }) => key !== "seed");
  const [settings, scores] = [
    usual.filter(({ kind }) => kind === "setting"),
    usual.filter(({ kind }) => kind !== "setting"),
  ];
  const found = [...settings, ...mostInformative(scores, runs.value, MOST_SCORES)];
  return found.length > 1 ? found : measured.value.slice(0, 2);
}

export interface Placed {
  column: Column;
  axis: Axis;
  left: number;
}

function Lines({ columns }: { columns: readonly Column[] }) {
  const [box, room] = useWidth();
  const width = Math.max(room, columns.length * LEAST_ROOM);
  const each = width / columns.length;
  const placed = columns.map((column, n) => ({
    column,
    axis: axisFor(column),
    left: (n + 0.5) * each,
  }));
  return (
    <div
      ref={box}
      class="table"
      role="region"
      aria-label="Chart of parallel coordinates"
      tabIndex={0}
    >
      <svg width={width} height={HEIGHT} role="group" aria-label="Parallel coordinates">
        <path
          class="faint"
          d={runs.value
            .slice(0, MOST_LINES)
            .map((run) => pathOf(run, placed))
            .join("")}
        />
        <Passing placed={placed} />
        {placed.map((one, n) => (
          <AxisBrush
            key={one.column.key}
            placed={one}
            top={TOP}
            bottom={BOTTOM}
            room={each}
            first={n === 0}
          />
        ))}
      </svg>
    </div>
  );
}

function axisFor(column: Column): Axis {
  const values = runs.value.map(column.value);
  return axisOf(values, [BOTTOM, TOP], spansDecades(values));
}

/** The lines of runs that pass the filter. */
function Passing({ placed }: { placed: readonly Placed[] }) {
  const found = filtered.value.runs;
  const open = shown.open.value;
  if (found.length > MOST_LINES)
    return <path class="run" d={found.map((run) => pathOf(run, placed)).join("")} />;
  return (
    <>
      {found.map((run) => (
        <path
          key={run.id}
          class={open.includes(run.id) ? "run open" : "run"}
          d={pathOf(run, placed)}
          onClick={() => run.explorable && openRun(run.id)}
        >
          <title>{run.name}</title>
        </path>
      ))}
    </>
  );
}

/** The line of a run, interrupted where it has no value. */
function pathOf(run: RunData, placed: readonly Placed[]): string {
  const points = placed.map(({ column, axis, left }) => ({
    left,
    top: axis.position(column.value(run)),
  }));
  const path = line<(typeof points)[number]>(
    (point) => point.left,
    (point) => point.top!,
  ).defined((point) => point.top !== null);
  return path(points) ?? "";
}
