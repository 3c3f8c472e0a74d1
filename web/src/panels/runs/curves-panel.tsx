/** Training curves of runs: thin lines by seed, the mean and a band for each group of seeds. */
import { area, line } from "d3-shape";
import { useState } from "preact/hooks";
import type { TermLabel } from "../../bundle";
import { own } from "../../own";
import { change, manifest } from "../../state";
import type { Csv } from "../../ui/export";
import { capitalised, isolated, thousands } from "../../text";
import { Choice } from "../../ui/choice";
import { Panel } from "../../ui/panel";
import { axisOf, type Axis } from "./axis";
import { Axes, Legend, LogToggle, markOf, MOST_MARKS, Toggle, useWidth, type Mark } from "./chart";
import { numberText } from "./names";
import { betterText, titleOf } from "./columns";
import { band, curveOf, termsOf, type BandPoint, type Point } from "./curves";
import { groupSeeds, type RunGroup } from "./groups";
import { groups as passing, runs, shown } from "./shown";

const HEIGHT = 340;
const MOST_THIN = 200; // lines of single seeds

interface Drawn {
  group: RunGroup;
  mark: Mark;
  seeds: Point[][];
  band: BandPoint[];
}

export function CurvesPanel() {
  const terms = termsOf(runs.value);
  const term = [shown.term.value, "log:loss"].find((each) => terms.includes(each)) ?? terms[0];
  if (!term) return null;
  const groups = chosenGroups().filter(({ runs }) =>
    runs.some((run) => curveOf(run, term).length > 0),
  );
  const drawn = groups.slice(0, MOST_MARKS).map((group, n) => drawnOf(group, term, n));
  const several = drawn.some(({ seeds }) => seeds.length > 1);
  return (
    <Panel
      title="Curves"
      help={`${isolated(capitalised(termOf(term).name))} over training${betterText(termOf(term)) && `; ${betterText(termOf(term))}`}.${several ? linesClause() : ""}`}
      csv={() => curvesCsv(drawn, term)}
    >
      <Choices terms={terms} term={term} several={several} />
      {drawn.length > 0 ? (
        <Chart drawn={drawn} term={term} />
      ) : (
        <p class="help">None of these runs has this curve.</p>
      )}
      {groups.length > MOST_MARKS && (
        <p class="help">
          The first {MOST_MARKS} of {groups.length} groups are drawn. Filter to see others.
        </p>
      )}
    </Panel>
  );
}

/** What the lines of several seeds are. */
function linesClause(): string {
  const spread = shown.deviation.value
    ? "one standard deviation on both sides"
    : "the lowest to the highest value";
  return ` Thin lines are single runs, the thick line is the mean over seeds, and the band is ${spread}.`;
}

/** Groups of the runs that pass the filter, or of those that are open. */
function chosenGroups(): RunGroup[] {
  if (!shown.onlyOpen.value) return passing.value;
  const open = shown.open.value;
  return groupSeeds(runs.value.filter((run) => open.includes(run.id)));
}

function drawnOf(group: RunGroup, term: string, n: number): Drawn {
  const seeds = group.runs.map((run) => curveOf(run, term)).filter((curve) => curve.length > 0);
  return { group, mark: markOf(n), seeds, band: band(seeds, shown.deviation.value) };
}

/** "log:rate" is the term "rate" of the training log. */
function termOf(term: string): TermLabel {
  const key = term.slice(term.indexOf(":") + 1);
  return own(manifest.value.terms, key) ?? { name: key, unit: "", better: "" };
}

interface ChoicesProps {
  terms: readonly string[];
  term: string;
  /** Whether a group has several seeds, and so a band. */
  several: boolean;
}

function Choices({ terms, term, several }: ChoicesProps) {
  const { deviation, onlyOpen } = shown;
  return (
    <div class="choices">
      <Choice
        label="Curve"
        value={term}
        options={terms.map((key) => ({ key, name: capitalised(titleOf(termOf(key))) }))}
        onChange={(chosen) => change({ term: chosen })}
      />
      {several && (
        <Choice
          label="Band"
          value={deviation.value ? "deviation" : "range"}
          options={[
            { key: "range", name: "lowest to highest" },
            { key: "deviation", name: "± 1 standard deviation" },
          ]}
          onChange={(chosen) => change({ deviation: chosen === "deviation" })}
        />
      )}
      <LogToggle axis="curves" label="log scale" />
      {runs.value.length > 1 && (
        <Toggle
          label="only open runs"
          on={onlyOpen.value}
          onToggle={() => change({ onlyOpen: !onlyOpen.value })}
        />
      )}
    </div>
  );
}

function Chart({ drawn, term }: { drawn: readonly Drawn[]; term: string }) {
  const [box, width] = useWidth();
  const [step, setStep] = useState<number | null>(null);
  const log = shown.logs.value.includes("curves");
  const frame = { left: 62, right: width - 24, top: 28, bottom: HEIGHT - 44 };
  const x = axisOf(
    drawn.flatMap((each) => each.band.map((point) => point.step)),
    [frame.left, frame.right],
    false,
    width < 500 ? 3 : 6,
  );
  const y = axisOf(drawn.flatMap(heights), [frame.bottom, frame.top], log);
  const steps = [...new Set(drawn.flatMap((each) => each.band.map((point) => point.step)))].sort(
    (a, b) => a - b,
  );
  const move = (event: PointerEvent) => {
    const { x: left } = (event.currentTarget as SVGElement).getBoundingClientRect();
    setStep(nearest(steps, x.invert(event.clientX - left)!));
  };
  return (
    <div ref={box}>
      <svg
        width={width}
        height={HEIGHT}
        role="img"
        aria-label={`${isolated(titleOf(termOf(term)))} over training steps`}
        onPointerMove={move}
        onPointerLeave={() => setStep(null)}
      >
        <Axes x={x} y={y} frame={frame} xTitle="training step" yTitle={titleOf(termOf(term))} />
        {drawn.map((each) => (
          <Curve key={each.group.key} drawn={each} x={x} y={y} thin={thinShare(drawn)} />
        ))}
        {step !== null && (
          <line
            class="cursor"
            x1={x.position(step)!}
            x2={x.position(step)!}
            y1={frame.top}
            y2={frame.bottom}
          />
        )}
      </svg>
      <StepSlider steps={steps} step={step ?? steps.at(-1)!} onStep={setStep} />
      <Legend
        lines
        items={drawn.map((each) => ({
          mark: each.mark,
          name: readout(each, step ?? steps.at(-1)!),
        }))}
      />
      {log && drawn.some((each) => heights(each).some((value) => value <= 0)) && (
        <p class="help">
          Values of 0 and below have no place on a logarithmic scale and are left out.
        </p>
      )}
    </div>
  );
}

/** The newest mean and band of a group up to a step. */
function readout({ group, band }: Drawn, step: number): string {
  const point = band.findLast((each) => each.step <= step);
  const [only, another] = group.runs;
  const name = another
    ? `${isolated(group.name)} (${group.runs.length} runs)`
    : isolated(only!.name);
  return `${name}: ${point ? bandText(point) : "–"}`;
}

function bandText(point: BandPoint): string {
  const mean = numberText(point.mean);
  return point.n === 1 ? mean : `${mean}, ${numberText(point.low)} to ${numberText(point.high)}`;
}

interface StepProps {
  steps: readonly number[];
  step: number;
  onStep: (step: number) => void;
}

/** Choose a step with the keyboard, as the pointer does in the chart. */
function StepSlider({ steps, step, onStep }: StepProps) {
  return (
    <label class="option in-export">
      Values at step{" "}
      <input
        type="range"
        min={0}
        max={steps.length - 1}
        value={steps.indexOf(step)}
        aria-valuetext={thousands(step)}
        onInput={(event) => onStep(steps[+event.currentTarget.value]!)}
      />{" "}
      {thousands(step)}
    </label>
  );
}

function heights({ seeds, band }: Drawn): number[] {
  return [
    ...seeds.flatMap((curve) => curve.map(({ value }) => value)),
    ...band.flatMap(({ low, high }) => [low, high]),
  ];
}

/** How many single runs of each group are drawn. */
function thinShare(drawn: readonly Drawn[]): number {
  return Math.max(Math.floor(MOST_THIN / drawn.length), 1);
}

function nearest(steps: readonly number[], to: number): number {
  return steps.reduce(
    (best, step) => (Math.abs(step - to) < Math.abs(best - to) ? step : best),
    steps[0]!,
  );
}

function Curve({ drawn, x, y, thin }: { drawn: Drawn; x: Axis; y: Axis; thin: number }) {
  const { mark, seeds, band } = drawn;
  const at = (step: number) => x.position(step)!;
  const one = line<Point>(
    ({ step }) => at(step),
    ({ value }) => y.position(value)!,
  ).defined(({ value }) => y.position(value) !== null);
  const mean = line<BandPoint>(
    ({ step }) => at(step),
    (point) => y.position(point.mean)!,
  ).defined((point) => y.position(point.mean) !== null);
  const spread = area<BandPoint>(
    ({ step }) => at(step),
    (point) => y.position(point.low)!,
    (point) => y.position(point.high)!,
  ).defined((point) => y.position(point.low) !== null && y.position(point.high) !== null);
  return (
    <g class="group-curve" style={{ color: mark.colour }}>
      {seeds.length > 1 && <path class="band" d={spread(band) ?? ""} />}
      {seeds.length > 1 &&
        seeds.slice(0, thin).map((curve, n) => <path key={n} class="seed" d={one(curve) ?? ""} />)}
      <path class="mean" d={mean(band) ?? ""} stroke-dasharray={mark.dash} />
    </g>
  );
}

function curvesCsv(drawn: readonly Drawn[], term: string): Csv {
  const spread = shown.deviation.value
    ? ["mean minus deviation", "mean plus deviation"]
    : ["min", "max"];
  return {
    columns: ["group", "step", `${term.slice(term.indexOf(":") + 1)} mean`, ...spread, "runs"],
    rows: drawn.flatMap(({ group, band }) =>
      band.map(({ step, mean, low, high, n }) => [group.name, step, mean, low, high, n]),
    ),
  };
}
