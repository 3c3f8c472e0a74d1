/** Vectors in the user's units: curves over columns, or bars with the names of columns. */
import { scaleLinear } from "d3-scale";
import { line } from "d3-shape";
import { useState } from "preact/hooks";
import type { VectorObservation } from "../bundle";
import type { Model } from "../model";
import { isolated, shortened, significant } from "../text";
import {
  comparable,
  dataLimits,
  isMixed,
  limits,
  valueScale,
  valueTicks,
  type Scale,
} from "./vector-scale";
import "./vector.css";

export interface Series {
  /** What it is called, "observed". */
  name: string;
  values: ArrayLike<number>;
  /** "main" is drawn boldly, "behind" in a second colour; a colour of its own goes first. */
  role: "main" | "behind";
  colour?: string;
}

interface Props {
  model: Model;
  seen: VectorObservation;
  series: readonly Series[];
  label: string;
  /** Whether the values are differences: then zero is in the middle. */
  difference?: boolean;
}

const WIDTH = 320;
const HEIGHT = 170;
const MARGIN = { left: 40, right: 8, top: 20, bottom: 20 };
const NAMED = 24; // columns that still get a line with their name

export function VectorChart(props: Props) {
  if (props.seen.curve) return <Curves {...props} />;
  return isNamed(props.seen) ? <NamedBars {...props} /> : <ManyBars {...props} />;
}

/** Whether every column has a line of its own. */
export function isNamed({ curve, length }: VectorObservation): boolean {
  return !curve && length <= NAMED;
}

function vertical({ model, seen, series, difference = false }: Props, zero: boolean): Scale {
  const all = series.map(({ values }) => values);
  const domain = limits(dataLimits(model, seen), all, difference, zero);
  const scale = valueScale(seen, domain, [HEIGHT - MARGIN.bottom, MARGIN.top]);
  return seen.counts ? scale : scale.nice(4);
}

function horizontal({ positions, length }: VectorObservation): Scale {
  const domain = positions ? [positions[0]!, positions[length - 1]!] : [0, Math.max(length - 1, 1)];
  return scaleLinear(domain, [MARGIN.left, WIDTH - MARGIN.right]);
}

function Curves(props: Props) {
  const { seen, series, label } = props;
  const [x, y] = [horizontal(seen), vertical(props, props.difference ?? false)];
  const at = (n: number) => x(seen.positions ? seen.positions[n]! : n);
  const [column, follow] = useColumn(seen, series, at);
  return (
    <svg class="vector" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-label={label} {...follow}>
      <Axes seen={seen} x={x} y={y} />
      {[...series].reverse().map(({ name, values, role, colour }) => (
        <path
          key={name}
          class={`curve ${role}`}
          style={colour ? { stroke: colour } : {}}
          d={
            line<number>(
              (_, n) => at(n),
              (value) => y(value),
            )(Array.from(values)) ?? ""
          }
        />
      ))}
      <Unit {...props} />
      {column !== null && <Reading seen={seen} series={series} column={column} x={at(column)} />}
    </svg>
  );
}

function Axes({ seen, x, y }: { seen: VectorObservation; x: Scale; y: Scale }) {
  const format = y.tickFormat(4);
  return (
    <g class="axes" aria-hidden="true">
      {valueTicks(seen, y).map((tick) => (
        <g key={tick}>
          <line
            class={tick === 0 ? "zero" : "grid"}
            x1={MARGIN.left}
            x2={WIDTH - MARGIN.right}
            y1={y(tick)}
            y2={y(tick)}
          />
          <text x={MARGIN.left - 5} y={y(tick) + 3.5} text-anchor="end">
            {format(tick)}
          </text>
        </g>
      ))}
      {columnTicks(seen, x).map(({ at, text, anchor }) => (
        <text key={text} x={at} y={HEIGHT - 5} text-anchor={anchor}>
          {text}
        </text>
      ))}
    </g>
  );
}

interface Tick {
  at: number;
  text: string;
  anchor: "start" | "middle" | "end";
}

/** Round positions of the columns of curves; otherwise the names of the first and last column. */
function columnTicks({ curve, positions, names, length }: VectorObservation, x: Scale): Tick[] {
  if (curve && positions) {
    return x.ticks(5).map((tick) => ({
      at: x(tick),
      text: String(tick),
      anchor: x(tick) > WIDTH - 20 ? "end" : "middle",
    }));
  }
  const ends: Tick[] = [{ at: x(0), text: shortened(names[0] ?? "1", 20), anchor: "start" }];
  if (length > 1)
    ends.push({
      at: x(length - 1),
      text: shortened(names[length - 1] ?? String(length), 20),
      anchor: "end",
    });
  return ends;
}

/** The column under the pointer or of the arrow keys, and what makes a drawing follow them. */
function useColumn(seen: VectorObservation, series: readonly Series[], at: (n: number) => number) {
  const [column, setColumn] = useState<number | null>(null);
  const follow = {
    onPointerMove: (event: PointerEvent) => {
      const box = (event.currentTarget as Element).getBoundingClientRect();
      setColumn(nearest(seen.length, at, ((event.clientX - box.left) / box.width) * WIDTH));
    },
    onPointerLeave: () => setColumn(null),
    onFocus: () => setColumn((now) => now ?? 0),
    onBlur: () => setColumn(null),
    onKeyDown: (event: KeyboardEvent) => {
      const next = columnAfter(event.key, column ?? 0, seen.length);
      if (next === null) return;
      event.preventDefault();
      setColumn(next);
    },
    // A slider is what screen readers know as a thing with a value that arrow keys change.
    role: "slider",
    tabindex: 0, // in lower case: attributes of SVG have their own
    "aria-readonly": true,
    "aria-valuemin": 0,
    "aria-valuemax": seen.length - 1,
    "aria-valuenow": column ?? 0,
    "aria-valuetext": readingOf(seen, series, column ?? 0).join(", "),
  } as const;
  return [column, follow] as const;
}

const STEPS: Record<string, number> = {
  ArrowRight: 1,
  ArrowUp: 1,
  ArrowLeft: -1,
  ArrowDown: -1,
  PageUp: 10,
  PageDown: -10,
  Home: -Infinity,
  End: Infinity,
};

/** The column that a key goes to; null if it goes nowhere. */
export function columnAfter(key: string, column: number, length: number): number | null {
  const step = STEPS[key];
  return step === undefined ? null : Math.min(Math.max(column + step, 0), length - 1);
}

/** The column whose place, which grows with its number, is nearest to x. */
export function nearest(length: number, at: (n: number) => number, x: number): number {
  let [low, high] = [0, length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (at(middle) < x) low = middle;
    else high = middle;
  }
  return x - at(low) <= at(high) - x ? low : high;
}

interface ReadingProps {
  seen: VectorObservation;
  series: readonly Series[];
  column: number;
  x: number;
}

const MOST_READ = 3; // values written into the drawing

/** The name of a column, and its value in each series. */
function readingOf(seen: VectorObservation, series: readonly Series[], column: number): string[] {
  const name = isolated(shortened(seen.names[column] ?? String(column + 1), 28));
  return [
    name,
    ...series.map(
      ({ name, values }) => `${isolated(shortened(name, 20))} ${number(values[column]!)}`,
    ),
  ];
}

/** The name and values of a column, beside a line through it. */
function Reading({ seen, series, column, x }: ReadingProps) {
  const left = x > WIDTH / 2;
  const [name, ...values] = readingOf(seen, series, column);
  const lines = series.length <= MOST_READ ? [name!, ...values] : [name!];
  return (
    <g class="reading" aria-hidden="true">
      <line x1={x} x2={x} y1={MARGIN.top} y2={HEIGHT - MARGIN.bottom} />
      {lines.map((text, n) => (
        <text
          key={n}
          x={left ? x - 5 : x + 5}
          y={MARGIN.top + 10 + 13 * n}
          text-anchor={left ? "end" : "start"}
        >
          {text}
        </text>
      ))}
    </g>
  );
}

function number(value: number): string {
  return significant(value, 4);
}

/** Bars of many columns, named when the pointer is on them. */
function ManyBars(props: Props) {
  const { seen, series, label } = props;
  const scaled = series.map((each) => ({
    ...each,
    values: comparable(seen, each.values, props.difference),
  }));
  const y = vertical({ ...props, series: scaled }, true);
  const width = (WIDTH - MARGIN.left - MARGIN.right) / seen.length;
  const at = (n: number) => MARGIN.left + width * (n + 0.5);
  const [column, follow] = useColumn(seen, series, at);
  return (
    <svg class="vector" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-label={label} {...follow}>
      <Axes seen={seen} x={scaleLinear([0, seen.length - 1], [at(0), at(seen.length - 1)])} y={y} />
      {scaled.map((each) => (
        <path
          key={each.name}
          class={`bars ${each.role}`}
          style={each.colour ? { stroke: each.colour } : {}}
          stroke-width={isBar(each) ? Math.max(width * 0.8, 0.4) : 1.6}
          d={Array.from(each.values, (value, n) =>
            isBar(each) ? `M${at(n)},${y(0)}V${y(value)}` : dash(at(n), width, y(value)),
          ).join("")}
        />
      ))}
      <Unit {...props} />
      {column !== null && <Reading seen={seen} series={series} column={column} x={at(column)} />}
    </svg>
  );
}

/** What the axes are. */
function Unit({ seen, difference = false }: Props) {
  const what = difference ? "change" : seen.counts ? "count" : "value";
  const how = seen.counts
    ? ", log scale"
    : isMixed(seen) && !seen.curve
      ? ", scaled as for the network"
      : "";
  return (
    <text class="unit" x={WIDTH - MARGIN.right} y={MARGIN.top - 9} text-anchor="end">
      {`${what} of each column${how}`}
    </text>
  );
}

/** The main series is drawn as bars, and others as strokes over them. */
function isBar({ role, colour }: Series): boolean {
  return role === "main" && colour === undefined;
}

function dash(x: number, width: number, y: number): string {
  return `M${x - width / 2},${y}h${width}`;
}

const ROW = 18;
const NAME = 106;
const VALUE = { one: 56, path: 88 }; // room for the text

/** A line for each of a few columns: its name, its bar, and its value in the user's units. */
function NamedBars({ model, seen, series, label, difference = false }: Props) {
  const bars = series.map(({ values }) => comparable(seen, values, difference));
  const domain = limits(dataLimits(model, seen), bars, difference, true);
  const isPath = !isBar(series[0]!);
  const x = valueScale(seen, domain, [NAME, WIDTH - VALUE[isPath ? "path" : "one"]]);
  return (
    <svg class="vector" viewBox={`0 0 ${WIDTH} ${ROW * seen.length}`} role="img" aria-label={label}>
      <line class="zero" x1={x(0)} x2={x(0)} y1={0} y2={ROW * seen.length} />
      {seen.names.map((name, n) => (
        <g key={n} transform={`translate(0 ${ROW * n})`}>
          <title>
            {series
              .map(
                (each) => `${isolated(name)}, ${isolated(each.name)}: ${number(each.values[n]!)}`,
              )
              .join("\n")}
          </title>
          <text x={NAME - 6} y={13} text-anchor="end">
            {shortened(name, 15)}
          </text>
          {series.map((each, s) => (
            <Mark key={each.name} series={each} from={x(0)} to={x(bars[s]![n]!)} />
          ))}
          <text class="value" x={WIDTH} y={13} text-anchor="end">
            {isPath ? pathText(series, n) : number(series[0]!.values[n]!)}
          </text>
        </g>
      ))}
    </svg>
  );
}

/** From which value to which a column goes. */
function pathText(series: readonly Series[], column: number): string {
  const ends = [series[0]!, series.at(-1)!].map(({ values }) => values[column]!);
  return ends.map((value) => significant(value, 2)).join(" → ");
}

function Mark({ series, from, to }: { series: Series; from: number; to: number }) {
  const style = series.colour ? { fill: series.colour } : {};
  return isBar(series) ? (
    <rect
      class="bar main"
      x={Math.min(from, to)}
      width={Math.abs(to - from)}
      y={4}
      height={ROW - 8}
    />
  ) : (
    <rect
      class={`bar ${series.role}`}
      style={style}
      x={to - 1.25}
      width={2.5}
      y={2}
      height={ROW - 4}
    />
  );
}
