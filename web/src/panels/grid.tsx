/** The tab "Grid": two latent variables move together. */
import type { Variable } from "../bundle";
import { useDecoded, useParts } from "../decoded";
import { traverse, type Code, type Model } from "../model";
import { useSettled } from "../settled";
import { narrow } from "../screen";
import { change, code, view } from "../state";
import type { Csv } from "../ui/export";
import { explains, isolated } from "../text";
import { Choice } from "../ui/choice";
import { Observation } from "../ui/observation";
import { Panel } from "../ui/panel";
import { Sparkline } from "../ui/sparkline";
import { comparable, dataLimits, limits } from "../ui/vector-scale";
import { inUnits, valueNames } from "../units";
import { dimensionNames } from "./data/table";
import "./grid.css";
import { DifferenceToggle, moveFocus, Tile } from "./tiles";
import { classesClause, currentStep, stepName, stepValue, taken } from "./traversals";
import { Waiting } from "./waiting";

/** Steps of a continuous variable; curves and small screens leave room for fewer. */
const STEPS = { image: 9, vector: 5 };
const CELL = { image: "min(76px, 8vh)", vector: "140px" };

const HELP =
  "Two latent variables change together, from low to high values under their priors, and the others keep their values.";
const CLICK = "Click a place to take both values.";

export function Grid({ model }: { model: Model }) {
  const chosen = variablesOf(model, view.value.grid);
  if (chosen) return <Shown model={model} across={chosen[0]} up={chosen[1]} />;
  return (
    <Panel title="Grid" help={`${HELP} ${CLICK}`}>
      <p>This model has only one latent variable.</p>
    </Panel>
  );
}

/** Factors that are the horizontal and the vertical place. */
const ACROSS = /^(pos(ition)?[ _-]?)?x$/i;
const UP = /^(pos(ition)?[ _-]?)?y$/i;

/** The variables of the axes: the chosen ones, or the two with the highest KL, those of a place as it
 * lies. */
export function variablesOf(
  model: Model,
  chosen: readonly [number, number] | null,
): [Variable, Variable] | null {
  const [one, two] = model.data.variables;
  if (!one || !two) return null;
  const [first, second] = isTurned(one, two) ? [two, one] : [one, two];
  const found = chosen?.map((number) =>
    model.data.variables.find((each) => each.number === number),
  );
  const [across, up] = [found?.[0] ?? first, found?.[1] ?? second];
  return across === up ? [first, second] : [across, up];
}

/** Whether the first of two variables is the vertical place, or the second the horizontal one. */
function isTurned(one: Variable, two: Variable): boolean {
  const only = (name: RegExp, variable: Variable, other: Variable) =>
    name.test(variable.factor ?? "") && !name.test(other.factor ?? "");
  return only(UP, one, two) || only(ACROSS, two, one);
}

/** Codes of the grid, row by row, the highest values of the second variable first. */
export function gridCodes(across: Variable, up: Variable, z: Code, steps: number): number[][] {
  return traverse(up, z, steps)
    .reverse()
    .flatMap((row) => traverse(across, row, steps));
}

interface ShownProps {
  model: Model;
  across: Variable;
  up: Variable;
}

function Shown({ model, across, up }: ShownProps) {
  const settled = useSettled(code.value);
  const start = settled.length === model.data.size ? settled : code.value;
  const steps = narrow.value ? STEPS.vector : STEPS[model.data.observation.kind];
  const codes = gridCodes(across, up, start, steps);
  const decoded = useDecoded(model, [start, ...codes]);
  const columns = across.discrete ? across.classes : steps;
  const parts = useParts(decoded);
  // What was decoded last may be of other variables.
  const ready = parts.length === codes.length + 1;
  return (
    <Panel
      title="Grid"
      help={`${HELP}${classesClause([across, up])} ${CLICK}`}
      csv={
        ready
          ? () => csvOf(model, [across, up], decoded!.codes.slice(1), parts.slice(1))
          : undefined
      }
    >
      <div class="options">
        <Axis model={model} label="Horizontal" place={0} chosen={[across, up]} />
        <Axis model={model} label="Vertical" place={1} chosen={[across, up]} />
        <DifferenceToggle model={model} base="now" />
      </div>
      {ready ? (
        <Tiles
          model={model}
          across={across}
          up={up}
          columns={columns}
          codes={codes}
          parts={parts}
        />
      ) : (
        <Waiting />
      )}
    </Panel>
  );
}

interface AxisProps {
  model: Model;
  label: string;
  place: 0 | 1;
  chosen: [Variable, Variable];
}

function Axis({ model, label, place, chosen }: AxisProps) {
  const choose = (number: number) => {
    const [x, y] = chosen.map((each) => each.number) as [number, number];
    const other = place === 0 ? y : x;
    // Choosing the variable of the other axis swaps them.
    const kept = number === other ? (place === 0 ? x : y) : other;
    change({ grid: place === 0 ? [number, kept] : [kept, number] });
  };
  return (
    <Choice
      label={label}
      options={model.data.variables.map((variable) => ({
        key: String(variable.number),
        name: optionName(variable),
      }))}
      value={String(chosen[place].number)}
      onChange={(key) => choose(+key)}
    />
  );
}

/** A variable, with what it explains above chance. */
export function optionName(variable: Variable): string {
  const { name, active, aboveChance } = variable;
  if (!active) return `${isolated(name)} (unused)`;
  return aboveChance ? `${isolated(name)} (${explains(variable)})` : name;
}

interface TilesProps extends ShownProps {
  columns: number;
  codes: readonly Code[];
  /** What is decoded from the start, then from the codes. */
  parts: readonly Float32Array[];
}

function Tiles({ model, across, up, columns, codes, parts }: TilesProps) {
  const rows = codes.length / columns;
  const column = currentStep(across, codes.slice(0, columns), code.value);
  const row = currentStep(
    up,
    codes.filter((_, n) => n % columns === 0),
    code.value,
  );
  const at = row < 0 || column < 0 ? -1 : row * columns + column;
  const choose = (from: Code) => change({ z: taken(up, taken(across, code.value, from), from) });
  return (
    <div class="grid-frame">
      <div
        class="latent-grid"
        style={{ "--columns": columns, "--cell": CELL[model.data.observation.kind] }}
      >
        <div class="up-name" aria-hidden="true">
          <bdi>{up.name}</bdi> →
        </div>
        <div class="up-values" aria-hidden="true">
          {Array.from({ length: rows }, (_, row) => (
            <span key={row}>{stepName(up, codes[row * columns]!)}</span>
          ))}
        </div>
        <div
          class="cells"
          role="group"
          aria-label={`Grid of ${isolated(across.name)} and ${isolated(up.name)}`}
          onKeyDown={(event) => moveFocus(event, columns)}
        >
          {codes.map((each, n) => (
            <Tile
              key={n}
              current={n === at}
              first={n === Math.max(at, 0)}
              label={`Set ${isolated(across.name)} to ${stepName(across, each)} and ${isolated(up.name)} to ${stepName(up, each)}`}
              onChoose={() => choose(each)}
            >
              <Cell model={model} values={parts[n + 1]!} now={parts[0]!} />
            </Tile>
          ))}
        </div>
        <div class="across-values" aria-hidden="true">
          {codes.slice(0, columns).map((each, n) => (
            <span key={n}>{stepName(across, each)}</span>
          ))}
        </div>
        <div class="across-name" aria-hidden="true">
          <bdi>{across.name}</bdi> →
        </div>
      </div>
    </div>
  );
}

function Cell({ model, values, now }: { model: Model; values: Float32Array; now: Float32Array }) {
  const seen = model.data.observation;
  const { difference } = view.value;
  if (seen.kind === "image") {
    return (
      <Observation model={model} values={values} minus={difference ? now : undefined} label="" />
    );
  }
  const before = difference ? inUnits(seen, now) : null;
  const shown = inUnits(seen, values).map((value, n) => value - (before?.[n] ?? 0));
  const drawn = seen.curve ? shown : comparable(seen, shown, difference);
  const shared = limits(dataLimits(model, seen), [drawn], difference, !seen.curve);
  return <Sparkline seen={seen} values={drawn} limits={shared} />;
}

/** A column of scores or classes, beside those of the code. */
function stepColumn({ name, discrete }: Variable): string {
  return `${name} (${discrete ? "class" : "score"})`;
}

/** The values of both variables, the code and what is decoded from it, in the user's units. */
export function csvOf(
  model: Model,
  [across, up]: readonly [Variable, Variable],
  codes: readonly Code[],
  parts: readonly Float32Array[],
): Csv {
  const seen = model.data.observation;
  return {
    columns: [stepColumn(across), stepColumn(up), ...dimensionNames(model), ...valueNames(seen)],
    rows: codes.map((z, n) => [
      stepValue(across, z),
      stepValue(up, z),
      ...z,
      ...inUnits(seen, parts[n]!),
    ]),
  };
}
