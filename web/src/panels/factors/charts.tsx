/** Codes against the values of factors. */
import { scaleLinear, type ScaleLinear } from "d3-scale";
import { area, line } from "d3-shape";
import type { Model } from "../../model";
import { isolated, percent, shortened } from "../../text";
import { Panel } from "../../ui/panel";
import { columnOf, type Column } from "../data/columns";
import { byShare, classShares, levelsOf, tracesOf, type Level, type Trace } from "./responses";

type Scale = ScaleLinear<number, number>;

const WIDTH = 280;
const HEIGHT = 184;
const PLOT = { left: 46, right: WIDTH - 8, top: 8, bottom: HEIGHT - 38 };

export function Responses({ model }: { model: Model }) {
  const columns = model.data.factors.map((_, n) => columnOf(model, `factor:${n}`)!);
  const levels = columns.map(levelsOf);
  const traces = levels.map((each, n) =>
    byShare(model, n)[0]!.discrete ? [] : tracesOf(model, n, each),
  );
  const span = spanOf(traces.flat());
  return (
    <Panel
      title="How codes respond to factors"
      help="The mean code of the best latent variable at each value of a factor, with one standard deviation. All charts share one scale, so a flat line means that the variable does not respond."
      csv={() => ({
        columns: ["factor", "value", "variable", "mean code", "standard deviation", "rows"],
        rows: traces.flatMap((each, n) =>
          each.flatMap(({ variable, means, spreads }) =>
            levels[n]!.map(({ label, rows }, k) => [
              columns[n]!.name,
              label,
              variable.name,
              means[k]!,
              spreads[k]!,
              rows.length,
            ]),
          ),
        ),
      })}
    >
      <div class="responses">
        {columns.map((column, n) => (
          <Response
            key={column.key}
            model={model}
            factor={n}
            column={column}
            levels={levels[n]!}
            traces={traces[n]!}
            span={span}
          />
        ))}
      </div>
    </Panel>
  );
}

/** The range of all means with their spreads, at least from -1 to 1. */
function spanOf(traces: readonly Trace[]): [number, number] {
  const ends = traces.flatMap(({ means, spreads }) =>
    means.flatMap((mean, n) => [mean - spreads[n]!, mean + spreads[n]!]),
  );
  return [Math.min(-1, ...ends), Math.max(1, ...ends)];
}

interface ResponseProps {
  model: Model;
  factor: number;
  column: Column;
  levels: readonly Level[];
  traces: readonly Trace[];
  span: [number, number];
}

function Response({ model, factor, column, levels, traces, span }: ResponseProps) {
  const best = byShare(model, factor)[0]!;
  const label = `Codes against ${isolated(column.name)}`;
  const { atChance } = model.data.factors[factor]!;
  return (
    <figure class="response">
      <figcaption>
        <strong>
          <bdi>{column.name}</bdi>
        </strong>{" "}
        {atChance ? (
          <span class="help">{atChance}</span>
        ) : (
          <Key traces={traces} name={best.name} share={model.share(best.number, factor)} />
        )}
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
        {traces.length > 0 ? (
          <Curves column={column} levels={levels} traces={traces} span={span} />
        ) : (
          <Dots
            column={column}
            levels={levels}
            shares={classShares(model, best, levels)}
            name={best.name}
          />
        )}
      </svg>
    </figure>
  );
}

function Key({ traces, name, share }: { traces: readonly Trace[]; name: string; share: number }) {
  if (traces.length === 0)
    return (
      <span>
        <bdi>{name}</bdi> ({percent(share)})
      </span>
    );
  return (
    <>
      {traces.map((trace, n) => (
        <span key={n} class="trace-key">
          <svg
            width="10"
            height="10"
            class={n === 0 ? "response-trace" : "response-trace second"}
            aria-hidden="true"
          >
            <Mark x={5} y={5} second={n > 0} />
          </svg>{" "}
          <bdi>{trace.variable.name}</bdi> ({percent(trace.share)})
        </span>
      ))}
    </>
  );
}

interface CurvesProps {
  column: Column;
  levels: readonly Level[];
  traces: readonly Trace[];
  span: [number, number];
}

function Curves({ column, levels, traces, span }: CurvesProps) {
  const x = across(levels);
  const y = scaleLinear(span, [PLOT.bottom, PLOT.top]).nice();
  const Draw = column.kind === "classes" ? Bars : Band;
  return (
    <>
      <Rules
        across={acrossTicks(column, levels, x)}
        x={x}
        y={y}
        up={y.ticks(4).map(numberTick)}
        xName={column.name}
        yName="mean code"
      />
      {[...traces].reverse().map((trace) => (
        <Draw
          key={trace.variable.number}
          levels={levels}
          trace={trace}
          second={trace !== traces[0]}
          x={x}
          y={y}
        />
      ))}
    </>
  );
}

interface TraceProps {
  levels: readonly Level[];
  trace: Trace;
  second: boolean;
  x: Scale;
  y: Scale;
}

/** A line with a band of one standard deviation. */
function Band({ levels, trace: { means, spreads }, second, x, y }: TraceProps) {
  const places = levels.map((_, n) => n);
  const at = (n: number) => x(levels[n]!.at);
  const band = area<number>(
    at,
    (n) => y(means[n]! - spreads[n]!),
    (n) => y(means[n]! + spreads[n]!),
  );
  return (
    <g class={second ? "response-trace second" : "response-trace"}>
      <path class="spread" d={band(places) ?? ""} />
      <path class="middle" d={line<number>(at, (n) => y(means[n]!))(places) ?? ""} />
      {levels.length <= 20 &&
        places.map((n) => <Mark key={n} x={at(n)} y={y(means[n]!)} second={second} />)}
    </g>
  );
}

/** A mark with a bar of one standard deviation for each class. */
function Bars({ levels, trace: { means, spreads }, second, x, y }: TraceProps) {
  const aside = second ? 5 : 0;
  return (
    <g class={second ? "response-trace second" : "response-trace"}>
      {levels.map(({ at }, n) => (
        <g key={n}>
          <line
            class="middle"
            x1={x(at) + aside}
            x2={x(at) + aside}
            y1={y(means[n]! - spreads[n]!)}
            y2={y(means[n]! + spreads[n]!)}
          />
          <Mark x={x(at) + aside} y={y(means[n]!)} second={second} />
        </g>
      ))}
    </g>
  );
}

function Mark({ x, y, second }: { x: number; y: number; second: boolean }) {
  return second ? (
    <path class="mark" d={`M${x - 3.5},${y + 3}h7l-3.5,-6.5z`} />
  ) : (
    <circle class="mark" cx={x} cy={y} r={3} />
  );
}

interface DotsProps {
  column: Column;
  levels: readonly Level[];
  shares: readonly number[][];
  /** The name of the variable. */
  name: string;
}

/** A dot for each value and class of a discrete variable, with an area by how often they meet. */
function Dots({ column, levels, shares, name }: DotsProps) {
  const classes = shares[0]?.length ?? 0;
  const x = across(levels, 0.5 / Math.max(levels.length - 1, 1)); // half a step for half a dot
  const y = scaleLinear([-0.6, classes - 0.4], [PLOT.bottom, PLOT.top]);
  const room =
    0.48 *
    Math.min((PLOT.right - PLOT.left) / (levels.length + 1), (PLOT.bottom - PLOT.top) / classes);
  return (
    <>
      <Rules
        across={acrossTicks(column, levels, x)}
        x={x}
        y={y}
        up={Array.from({ length: classes }, (_, at) => numberTick(at))}
        xName={column.name}
        yName={`class of ${isolated(name)}`}
      />
      <g class="response-trace">
        {shares.map((row, n) =>
          row.map((share, c) => (
            <circle
              key={`${n} ${c}`}
              class="mark"
              cx={x(levels[n]!.at)}
              cy={y(c)}
              r={room * Math.sqrt(share)}
            >
              <title>{`${isolated(levels[n]!.label)}: class ${c} in ${percent(share)} of the rows`}</title>
            </circle>
          )),
        )}
      </g>
    </>
  );
}

/** The place of values, with a share of their range on both sides. */
function across(levels: readonly Level[], margin = 0.07): Scale {
  const [first, last] = [levels[0]?.at ?? 0, levels.at(-1)?.at ?? 1];
  const room = (last - first || 1) * margin;
  return scaleLinear([first - room, last + room], [PLOT.left, PLOT.right]);
}

interface Tick {
  at: number;
  label: string;
}

function numberTick(at: number): Tick {
  return { at, label: String(at).replace("-", "−") };
}

/** Some of the values of a factor, or round numbers of a continuous one. */
function acrossTicks(column: Column, levels: readonly Level[], x: Scale): Tick[] {
  if (column.kind === "number") return x.ticks(5).map(numberTick);
  return levels.filter((_, n) => n % Math.ceil(levels.length / 6) === 0);
}

interface RulesProps {
  x: Scale;
  y: Scale;
  across: readonly Tick[];
  up: readonly Tick[];
  xName: string;
  yName: string;
}

const MIDDLE = { x: (PLOT.left + PLOT.right) / 2, y: (PLOT.top + PLOT.bottom) / 2 };

function Rules({ x, y, across, up, xName, yName }: RulesProps) {
  return (
    <g class="plot-axes">
      {up.map(({ at, label }) => (
        <g key={at}>
          <line class="plot-rule" x1={PLOT.left} x2={PLOT.right} y1={y(at)} y2={y(at)} />
          <text x={PLOT.left - 4} y={y(at) + 4} text-anchor="end">
            {label}
          </text>
        </g>
      ))}
      {across.map(({ at, label }) => (
        <text key={at} x={x(at)} y={PLOT.bottom + 15} text-anchor="middle">
          {shortened(label, 9)}
        </text>
      ))}
      <text class="name" x={MIDDLE.x} y={HEIGHT - 5} text-anchor="middle">
        {shortened(xName, 36)}
      </text>
      <text class="name" transform={`translate(11 ${MIDDLE.y}) rotate(-90)`} text-anchor="middle">
        {shortened(yName, 22)}
      </text>
    </g>
  );
}
