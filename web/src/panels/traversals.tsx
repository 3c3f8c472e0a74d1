/** The tab "Traversals": one latent variable after the other moves, all else as in the current code. */
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Variable } from "../bundle";
import { useDecoded, useParts, type Decoded } from "../decoded";
import { classOf, scoreOf, traverse, type Code, type Model } from "../model";
import { useSettled } from "../settled";
import { canDecode, change, code, STEPS, view } from "../state";
import { isolated } from "../text";
import type { Csv } from "../ui/export";
import { Panel } from "../ui/panel";
import { inUnits, valueNames } from "../units";
import { DrawnTraversals } from "./drawn";
import { DecodedRow } from "./row";
import { VariableName } from "./sliders";
import { DifferenceToggle } from "./tiles";
import "./traversals.css";

const HELP =
  "Each row changes one latent variable and keeps the others: what changes is what the variable means. 95% of the prior lies between −2 and 2.";
const CLICK = "A frame marks the step nearest to the current value; click another to take it.";
const MOST = 24; // variables that are drawn

export function Traversals({ model }: { model: Model }) {
  if (model.active.length > 0) return <ActiveTraversals model={model} />;
  return (
    <section class="panel" aria-label="Traversals">
      <header>
        <h2>Traversals</h2>
      </header>
      <p class="help">
        No latent variable carries information about the data, so there is nothing to traverse.
      </p>
    </section>
  );
}

function ActiveTraversals({ model }: { model: Model }) {
  const settled = useSettled(code.value);
  const start = settled.length === model.data.size ? settled : code.value;
  const paths = pathsOf(model, start, view.value.steps);
  const decoded = useDecoded(model, [start, ...paths.flatMap(({ codes }) => codes)]);
  const more = model.active.length - paths.length;
  return (
    <Panel
      title="Traversals"
      help={HELP + classesClause(model.active) + (canDecode.value === false ? "" : ` ${CLICK}`)}
      csv={decoded ? () => csvOf(model, paths, decoded) : undefined}
    >
      {canDecode.value !== false && <Options model={model} />}
      {decoded ? (
        <Rows model={model} paths={paths} decoded={decoded} />
      ) : (
        <DrawnTraversals model={model} />
      )}
      {more > 0 && canDecode.value !== false && (
        <p class="help no-export">{more} more variables have sliders only.</p>
      )}
    </Panel>
  );
}

/** What is said about variables only if some of them are discrete. */
export function classesClause(variables: readonly Variable[]): string {
  return variables.some(({ discrete }) => discrete)
    ? " A discrete variable goes through its classes."
    : "";
}

export interface Path {
  variable: Variable;
  codes: number[][];
}

function pathsOf(model: Model, start: Code, steps: number): Path[] {
  return model.active
    .slice(0, MOST)
    .map((variable) => ({ variable, codes: traverse(variable, start, steps) }));
}

function Options({ model }: { model: Model }) {
  return (
    <div class="options">
      <DifferenceToggle model={model} base="now" />
      <label>
        Steps{" "}
        <select
          value={view.value.steps}
          onChange={(event) => change({ steps: +event.currentTarget.value })}
        >
          {STEPS.map((steps) => (
            <option key={steps} value={steps}>
              {steps}
            </option>
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
  const parts = useParts(decoded);
  const rows = assigned(paths, decoded.codes, parts);
  const frame = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => centre(frame.current!), [rows.length]);
  return (
    <div
      ref={frame}
      class={model.data.observation.kind === "image" ? "traversals" : "traversals charts"}
    >
      {rows.map((row) => (
        <Traversal key={row.variable.number} model={model} {...row} base={parts[0]!} />
      ))}
    </div>
  );
}

/** Rows that are wider than the screen begin in the middle, where codes are likeliest. */
function centre(frame: HTMLElement): void {
  frame.scrollLeft = (frame.scrollWidth - frame.clientWidth) / 2;
}

interface Row {
  variable: Variable;
  codes: readonly Code[];
  values: readonly Float32Array[];
}

/** Decoded codes by the variable that they traverse: the start, then the codes of each path. */
function assigned(
  paths: readonly Path[],
  codes: readonly Code[],
  parts: readonly Float32Array[],
): Row[] {
  const continuous = paths.filter(({ variable }) => !variable.discrete).length;
  const classes = paths.reduce((sum, { variable }) => sum + variable.classes, 0);
  const steps = (codes.length - 1 - classes) / continuous;
  let next = 1;
  return paths.map(({ variable }) => {
    const first = next;
    next += variable.discrete ? variable.classes : steps;
    return { variable, codes: codes.slice(first, next), values: parts.slice(first, next) };
  });
}

interface RowProps extends Row {
  model: Model;
  base: Float32Array;
}

function Traversal({ model, variable, codes, values, base }: RowProps) {
  const names = codes.map((each) => stepName(variable, each));
  return (
    <section class="traversal" aria-label={`Traversal of ${isolated(variable.name)}`}>
      <h3>
        <VariableName variable={variable} />
      </h3>
      <DecodedRow
        model={model}
        title={`Traversal of ${isolated(variable.name)}`}
        values={values}
        names={names}
        base={base}
        current={currentStep(variable, codes, code.value)}
        label={(n) => `Set ${isolated(variable.name)} to ${names[n]}`}
        onChoose={(n) => change({ z: taken(variable, code.value, codes[n]!) })}
      />
    </section>
  );
}

/** The code with one variable as in another code. */
export function taken(variable: Variable, z: Code, from: Code): number[] {
  const [first, end] = variable.columns;
  return z.map((value, column) => (column >= first && column < end ? from[column]! : value));
}

/** The step that is nearest to a code along a variable, or -1 if the code lies beyond the ends. */
export function currentStep(variable: Variable, codes: readonly Code[], z: Code): number {
  if (variable.discrete)
    return codes.findIndex((each) => classOf(variable, each) === classOf(variable, z));
  const scores = codes.map((each) => scoreIn(variable, each));
  const far = scores.map((score) => Math.abs(score - scoreIn(variable, z)));
  const nearest = Math.min(...far);
  const step = Math.abs((scores.at(-1)! - scores[0]!) / (scores.length - 1));
  return nearest <= 0.6 * step ? far.indexOf(nearest) : -1;
}

/** The score of the first column of a variable. */
function scoreIn(variable: Variable, z: Code): number {
  return scoreOf(variable.quantiles[0]!, z[variable.columns[0]]!);
}

/** The score of a variable in a code, or its class. */
export function stepValue(variable: Variable, z: Code): number {
  if (variable.discrete) return classOf(variable, z);
  const score = +scoreIn(variable, z).toFixed(2);
  return score === 0 ? 0 : score; // never -0
}

/** The same as text, "−1.5". */
export function stepName(variable: Variable, z: Code): string {
  return String(stepValue(variable, z)).replace("-", "−");
}

/** Decoded values in the user's units, with the variable that moves and its score or class. */
export function csvOf(model: Model, paths: readonly Path[], { codes, values }: Decoded): Csv {
  const seen = model.data.observation;
  const { length } = model;
  const parts = codes.map((_, n) => values.subarray(n * length, (n + 1) * length));
  return {
    columns: ["variable", "value", ...valueNames(seen)],
    rows: assigned(paths, codes, parts).flatMap(({ variable, codes, values }) =>
      values.map((each, n) => [
        variable.name,
        stepValue(variable, codes[n]!),
        ...inUnits(seen, each),
      ]),
    ),
  };
}
