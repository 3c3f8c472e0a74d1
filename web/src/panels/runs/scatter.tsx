/** Any score or setting of the runs against another one. */
import { useRef, useState } from "preact/hooks";
import type { RunData } from "../../bundle";
import { openRun } from "../../open-runs";
import { change } from "../../state";
import { isolated } from "../../text";
import { Choice } from "../../ui/choice";
import { Panel } from "../../ui/panel";
import { axisOf, spansDecades, type Axis } from "./axis";
import { Axes, columnOptions, Legend, LogToggle, useWidth } from "./chart";
import { betterText, mostInformative, titleOf, type Column } from "./columns";
import { plainValue } from "./names";
import { shadesOf, type Shades } from "./shades";
import { columnOf, filtered, measured, runs, shown } from "./shown";
import { runsCsv } from "./table";

const HEIGHT = 340;

export function RunScatter() {
  const [x, y] = [
    columnOf(shown.setting.value) ?? defaultX(),
    columnOf(shown.score.value) ?? defaultY(),
  ];
  if (!x || !y) return null;
  const colour = columnOf(shown.shade.value);
  const listed = [x, y, ...(colour ? [colour] : [])];
  return (
    <Panel
      title="Scatter of runs"
      help="Each point is a run that passes the filter. Choose a point to open its run; the arrow keys go from point to point."
      csv={() => runsCsv(filtered.value.runs, listed)}
    >
      <Choices x={x} y={y} colour={colour} />
      <Plot x={x} y={y} colour={colour} />
    </Panel>
  );
}

/** The number of the highest entropy if there is one: the setting of an experiment. */
function defaultX(): Column | undefined {
  const settings = measured.value.filter(({ kind, key }) => kind === "setting" && key !== "seed");
  const numbers = settings.filter((column) =>
    runs.value.some((run) => typeof column.value(run) === "number"),
  );
  return best(numbers) ?? best(settings) ?? measured.value[0];
}

function defaultY(): Column | undefined {
  const known = (kind: Column["kind"]) =>
    measured.value.filter(
      (column) => column.kind === kind && !column.unproven && severalHave(column),
    );
  return best(known("score")) ?? best(known("final")) ?? measured.value.at(-1);
}

/** A chart of one point shows nothing. */
function severalHave(column: Column): boolean {
  return runs.value.filter((run) => typeof column.value(run) === "number").length > 1;
}

function best(columns: readonly Column[]): Column | undefined {
  return mostInformative(columns, runs.value, 1)[0];
}

/** "MIG · chen2018, higher is better". */
function axisTitle(column: Column): string {
  return [titleOf(column), betterText(column)].filter(Boolean).join(", ");
}

interface Shown {
  x: Column;
  y: Column;
  colour: Column | undefined;
}

function Choices({ x, y, colour }: Shown) {
  const options = columnOptions(measured.value);
  const values = (column: Column) => filtered.value.runs.map(column.value);
  return (
    <div class="choices">
      <Choice
        label="Horizontal"
        value={x.key}
        options={options}
        onChange={(setting) => change({ setting })}
      />
      <Choice
        label="Vertical"
        value={y.key}
        options={options}
        onChange={(score) => change({ score })}
      />
      <Choice
        label="Colour"
        value={colour?.key ?? ""}
        options={[{ key: "", name: "none" }, ...options]}
        onChange={(shade) => change({ shade })}
      />
      {spansDecades(values(x)) && <LogToggle axis="x" label="horizontal log scale" />}
      {spansDecades(values(y)) && <LogToggle axis="y" label="vertical log scale" />}
    </div>
  );
}

function Plot({ x, y, colour }: Shown) {
  const [box, width] = useWidth();
  const [looked, setLooked] = useState<RunData | null>(null);
  const label = (run: RunData) => describe(run, [x, y, ...(colour ? [colour] : [])]);
  const passing = filtered.value.runs;
  const frame = { left: 62, right: width - 14, top: 28, bottom: HEIGHT - 44 };
  const across = axisFor(passing, x, "x", [frame.left + 8, frame.right - 8]);
  const up = axisFor(passing, y, "y", [frame.bottom - 8, frame.top + 8]);
  const shades = shadesOf(passing, colour);
  const placed = place(passing, across, up, x, y);
  return (
    <div ref={box}>
      <svg
        width={width}
        height={HEIGHT}
        role="group"
        aria-label={`${isolated(y.name)} against ${isolated(x.name)}`}
      >
        <Axes x={across} y={up} frame={frame} xTitle={axisTitle(x)} yTitle={axisTitle(y)} />
        <Points placed={placed} shades={shades} label={label} onLook={setLooked} />
      </svg>
      <p class="help no-export" aria-hidden="true">
        {looked ? <bdi>{label(looked)}</bdi> : "Point at a run to read its values."}
      </p>
      <Legend items={shades.legend} />
      {placed.length < passing.length && (
        <p class="help">
          {passing.length - placed.length} of {passing.length} runs lack one of the two values and
          are not drawn.
        </p>
      )}
    </div>
  );
}

function axisFor(
  runs: readonly RunData[],
  column: Column,
  name: string,
  range: [number, number],
): Axis {
  const values = runs.map(column.value);
  return axisOf(values, range, shown.logs.value.includes(name) && spansDecades(values));
}

interface Placed {
  run: RunData;
  left: number;
  top: number;
}

/** The places of runs, from left to right. */
function place(runs: readonly RunData[], across: Axis, up: Axis, x: Column, y: Column): Placed[] {
  const placed = runs.flatMap((run) => {
    const [left, top] = [across.position(x.value(run)), up.position(y.value(run))];
    return left === null || top === null ? [] : [{ run, left, top }];
  });
  return placed.sort((a, b) => a.left - b.left || b.top - a.top);
}

interface PointsProps {
  /** In the order of the arrow keys. */
  placed: readonly Placed[];
  shades: Shades;
  label: (run: RunData) => string;
  onLook: (run: RunData) => void;
}

/** One point is in the order of the Tab key; the arrow keys go to the others, from left to right. */
function Points({ placed, shades, label, onLook }: PointsProps) {
  const [current, setCurrent] = useState(0);
  const group = useRef<SVGGElement>(null);
  const open = shown.open.value;
  const go = (to: number) => {
    const next = Math.min(Math.max(to, 0), placed.length - 1);
    setCurrent(next);
    (group.current!.children[next] as SVGPathElement).focus();
  };
  const focused = Math.min(current, placed.length - 1);
  // One listener for all points: there may be thousands.
  const chosen = (event: Event) =>
    placed[Array.prototype.indexOf.call(group.current!.children, event.target)];
  const look = (event: Event) => chosen(event) && onLook(chosen(event)!.run);
  return (
    <g
      ref={group}
      onClick={(event) => choose(chosen(event)?.run)}
      onKeyDown={(event) => pressed(event, placed.indexOf(chosen(event)!), go, chosen(event)?.run)}
      onPointerOver={look}
      onFocusIn={look}
    >
      {placed.map(({ run, left, top }, n) => {
        const mark = shades.mark(run);
        return (
          <path
            key={run.id}
            class={open.includes(run.id) ? "point open" : "point"}
            role="button"
            tabindex={n === focused ? 0 : -1}
            aria-label={label(run)}
            aria-disabled={!run.explorable}
            transform={`translate(${left.toFixed(1)},${top.toFixed(1)})`}
            d={mark.symbol}
            fill={mark.colour}
          />
        );
      })}
    </g>
  );
}

function choose(run: RunData | undefined): void {
  if (run?.explorable) openRun(run.id);
}

function describe(run: RunData, columns: readonly Column[]): string {
  const values = columns.map(
    (column) => `${isolated(column.name)} ${isolated(plainValue(column.value(run)))}`,
  );
  return [isolated(run.name), ...values, run.explorable ? "" : "cannot be opened"]
    .filter(Boolean)
    .join(", ");
}

const STEPS: Record<string, number> = {
  ArrowRight: 1,
  ArrowUp: 1,
  ArrowLeft: -1,
  ArrowDown: -1,
  Home: -Infinity,
  End: Infinity,
};

function pressed(
  event: KeyboardEvent,
  n: number,
  go: (to: number) => void,
  run: RunData | undefined,
): void {
  const step = STEPS[event.key];
  if (step !== undefined) go(n + step);
  else if (event.key !== "Enter" && event.key !== " ") return;
  else choose(run);
  event.preventDefault();
}
