/** The tab "Traversals": one latent variable after the other moves, all else as in the current code. */
import type { Variable } from "../bundle";
import { scoreColour } from "../colours";
import { useDecoded, type Decoded } from "../decoded";
import { classOf, scoreOf, traverse, type Code, type Model } from "../model";
import { useSettled } from "../settled";
import { canDecode, change, code, STEPS, view } from "../state";
import { Observation } from "../ui/observation";
import { Panel } from "../ui/panel";
import { inUnits, VectorChart, type Series } from "../ui/vector";
import { DrawnTraversals } from "./drawn";
import { VariableName } from "./sliders";
import { DifferenceToggle, Tile } from "./tiles";
import "./traversals.css";

const MOST = 24; // variables that are drawn

export function Traversals({ model }: { model: Model }) {
  const settled = useSettled(code.value);
  const start = settled.length === model.data.size ? settled : code.value;
  const paths = pathsOf(model, start, view.value.steps);
  const decoded = useDecoded(model, [start, ...paths.flatMap(({ codes }) => codes)]);
  const more = model.active.length - paths.length;
  return (
    <Panel
      title="Traversals"
      help="Every row moves one latent variable, from score −2 to 2 of its prior or through all classes, and keeps the others. The frame marks the current value. Click an image to take its value."
      csv={() => csvOf(paths, decoded)}
    >
      <Options />
      {decoded ? <Rows model={model} paths={paths} decoded={decoded} /> : <DrawnTraversals model={model} />}
      {more > 0 && canDecode.value !== false && <p class="help">{more} more variables have sliders only.</p>}
    </Panel>
  );
}

interface Path {
  variable: Variable;
  codes: number[][];
}

function pathsOf(model: Model, start: Code, steps: number): Path[] {
  return model.active.slice(0, MOST).map((variable) => ({ variable, codes: traverse(variable, start, steps) }));
}

function Options() {
  return (
    <div class="options">
      <DifferenceToggle />
      <label>
        Steps{" "}
        <select value={view.value.steps} onChange={(event) => change({ steps: +event.currentTarget.value })}>
          {STEPS.map((steps) => (
            <option key={steps} value={steps}>{steps}</option>
          ))}
        </select>
      </label>
    </div>
  );
}

interface RowsProps {
  model: Model;
  paths: Path[];
  decoded: Decoded;
}

function Rows({ model, paths, decoded }: RowsProps) {
  // What was decoded may be older than the paths, and of another number of steps.
  const rows = assigned(paths, decoded, model.length);
  return (
    <div class={model.data.observation.kind === "image" ? "traversals" : "traversals charts"}>
      {rows.map(({ variable, codes, values }) => (
        <section key={variable.number} class="traversal" aria-label={`Traversal of ${variable.name}`}>
          <h3><VariableName variable={variable} /></h3>
          {model.data.observation.kind === "image" ? (
            <Images model={model} variable={variable} codes={codes} values={values} base={base(decoded, model)} />
          ) : (
            <Overlay model={model} variable={variable} codes={codes} values={values} base={base(decoded, model)} />
          )}
        </section>
      ))}
    </div>
  );
}

/** The decoded start. */
function base(decoded: Decoded, model: Model): Float32Array {
  return decoded.values.subarray(0, model.length);
}

interface Row {
  variable: Variable;
  codes: readonly Code[];
  values: Float32Array[];
}

/** Decoded codes by the variable that they traverse: the start, then the codes of each path. */
function assigned(paths: readonly Path[], { codes, values }: Decoded, length: number): Row[] {
  const continuous = paths.filter(({ variable }) => !variable.discrete).length;
  const classes = paths.reduce((sum, { variable }) => sum + variable.classes, 0);
  const steps = (codes.length - 1 - classes) / continuous;
  let next = 1;
  return paths.map(({ variable }) => {
    const first = next;
    next += variable.discrete ? variable.classes : steps;
    const parts = Array.from({ length: next - first }, (_, n) => values.subarray((first + n) * length, (first + n + 1) * length));
    return { variable, codes: codes.slice(first, next), values: parts };
  });
}

interface RowProps extends Row {
  model: Model;
  base: Float32Array;
}

function Images({ model, variable, codes, values, base }: RowProps) {
  const current = currentStep(variable, codes, code.value);
  return (
    <div class="images" style={{ "--steps": Math.max(values.length, 5) }}>
      {values.map((image, n) => (
        <Tile
          key={n}
          current={n === current}
          label={`Set ${variable.name} to ${stepName(variable, codes[n]!)}`}
          caption={stepName(variable, codes[n]!)}
          onChoose={() => change({ z: taken(variable, code.value, codes[n]!) })}
        >
          <Observation model={model} values={image} minus={view.value.difference ? base : undefined} label="" />
        </Tile>
      ))}
    </div>
  );
}

/** All curves of a traversal in one chart, with buttons for the values. */
function Overlay({ model, variable, codes, values, base }: RowProps) {
  const seen = model.data.observation;
  if (seen.kind !== "vector") return null;
  const current = currentStep(variable, codes, code.value);
  const before = view.value.difference ? inUnits(seen, base) : null;
  const series: Series[] = values.map((each, n) => {
    const shown = inUnits(seen, each);
    return {
      name: stepName(variable, codes[n]!),
      values: before ? shown.map((value, column) => value - before[column]!) : shown,
      role: "main",
      colour: scoreColour(values.length > 1 ? n / (values.length - 1) : 0.5),
    };
  });
  return (
    <>
      <VectorChart model={model} seen={seen} series={series} label={`Traversal of ${variable.name}`} difference={before !== null} />
      <div class="values">
        {series.map(({ name, colour }, n) => (
          <Tile key={n} current={n === current} label={`Set ${variable.name} to ${name}`} caption={name} onChoose={() => change({ z: taken(variable, code.value, codes[n]!) })}>
            <span class="swatch" style={{ background: colour }} />
          </Tile>
        ))}
      </div>
    </>
  );
}

/** The code with one variable as in another code. */
export function taken(variable: Variable, z: Code, from: Code): number[] {
  const [first, end] = variable.columns;
  return z.map((value, column) => (column >= first && column < end ? from[column]! : value));
}

/** The step that is nearest to a code along a variable. */
export function currentStep(variable: Variable, codes: readonly Code[], z: Code): number {
  if (variable.discrete) return classOf(variable, z);
  const score = scoreIn(variable, z);
  const far = codes.map((each) => Math.abs(scoreIn(variable, each) - score));
  return far.indexOf(Math.min(...far));
}

/** The score of the first column of a variable. */
function scoreIn(variable: Variable, z: Code): number {
  return scoreOf(variable.quantiles[0]!, z[variable.columns[0]]!);
}

/** "1.5", a score, or "3", a class. */
function stepName(variable: Variable, z: Code): string {
  if (variable.discrete) return String(classOf(variable, z));
  const score = +scoreIn(variable, z).toFixed(2);
  return (score === 0 ? "0" : String(score)).replace("-", "−");
}

function csvOf(paths: readonly Path[], decoded: Decoded | null) {
  const length = decoded ? decoded.values.length / decoded.codes.length : 0;
  const rows = decoded ? assigned(paths, decoded, length) : [];
  return {
    columns: ["variable", "value", ...Array.from({ length }, (_, n) => `x${n}`)],
    rows: rows.flatMap(({ variable, codes, values }) =>
      values.map((each, n) => [variable.name, stepName(variable, codes[n]!), ...each]),
    ),
  };
}
