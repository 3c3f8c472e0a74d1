/** The tab "Interpolate": a straight path between the codes of two observations. */
import type { Variable } from "../bundle";
import { useDecoded, useParts } from "../decoded";
import type { Code, Model } from "../model";
import { encodeCurrent, originOf, uploadsFor } from "../origin";
import { selection } from "../selection";
import { change, code, known, view, type End } from "../state";
import type { Csv } from "../ui/export";
import { isolated, percent, rowName } from "../text";
import { Observation } from "../ui/observation";
import { Panel } from "../ui/panel";
import { Thumbnail } from "../ui/thumbnail";
import { inUnits, valueNames } from "../units";
import { dimensionNames } from "./data/table";
import "./interpolate.css";
import { DecodedRow } from "./row";
import { randomRow } from "./stage";
import { DifferenceToggle } from "./tiles";
import { Waiting } from "./waiting";

const STEPS = 9;

export function Interpolate({ model }: { model: Model }) {
  const ends = endsOf(model, view.value.ends);
  const [from, to] = ends.map((end) => codeAt(model, end)) as [Code, Code];
  const path = Array.from({ length: STEPS }, (_, n) =>
    interpolated(model.data.variables, from, to, n / (STEPS - 1)),
  );
  const decoded = useDecoded(model, path);
  const values = useParts(decoded);
  const discrete = model.data.variables.some((variable) => variable.discrete);
  return (
    <Panel
      title="Interpolate"
      help={`Codes on the straight line between two observations. Move along it to set the sliders.${discrete ? " Discrete variables switch in the middle." : ""}`}
      csv={decoded ? () => csvOf(model, decoded.codes, values) : undefined}
    >
      <div class="path-ends">
        <EndPicker model={model} ends={ends} place={0} picture={values[0]} />
        <EndPicker model={model} ends={ends} place={1} picture={values[STEPS - 1]} />
      </div>
      <Along model={model} from={from} to={to} />
      {decoded ? (
        <>
          <div class="options">
            <DifferenceToggle model={model} base="at the start of the path" />
          </div>
          <DecodedRow
            model={model}
            title="Path between two observations"
            values={values}
            names={path.map((_, n) => percent(n / (STEPS - 1)))}
            base={values[0]!}
            current={currentOf(path, code.value)}
            label={(n) => `Go ${percent(n / (STEPS - 1))} of the way`}
            onChoose={(n) => change({ z: path[n]! })}
          />
        </>
      ) : (
        <Waiting />
      )}
    </Panel>
  );
}

/** A code at a share of the way: linear in continuous variables, and discrete ones switch in the middle. */
export function interpolated(
  variables: readonly Variable[],
  from: Code,
  to: Code,
  share: number,
): number[] {
  const mixed = from.map((value, column) => value + share * (to[column]! - value));
  for (const { discrete, columns } of variables) {
    if (!discrete) continue;
    for (let column = columns[0]; column < columns[1]; column++)
      mixed[column] = (share < 0.5 ? from : to)[column]!;
  }
  return mixed;
}

/** The share of the way that is nearest to a code, from 0 to 1. */
export function nearestShare(from: Code, to: Code, z: Code): number {
  const way = to.map((value, column) => value - from[column]!);
  const length = way.reduce((sum, part) => sum + part * part, 0);
  const along = way.reduce((sum, part, column) => sum + part * (z[column]! - from[column]!), 0);
  return length > 0 ? Math.min(Math.max(along / length, 0), 1) : 0;
}

/** The step of a path that a code is at, or -1. */
function currentOf(path: readonly Code[], z: Code): number {
  return path.findIndex((each) =>
    each.every((value, column) => Math.abs(value - z[column]!) < 1e-4),
  );
}

/** Ends that the model has: those of the view, or the start and a row that is unlike it. */
export function endsOf(model: Model, chosen: [End, End] | null): [End, End] {
  const { start, size } = model.data;
  const fits = (end: End) =>
    typeof end === "number" ? model.rowOf(end) !== null : end.length === size;
  return chosen?.every(fits)
    ? chosen
    : [model.indexOf(start), model.indexOf(farthest(model, start))];
}

const COMPARED = 50; // rows, which are in random order

/** The one of some rows whose code is the farthest from that of a row. */
export function farthest(model: Model, row: number): number {
  const from = model.code(row);
  const { shown, count } = model.data.rows;
  const rows = Array.from({ length: Math.min(COMPARED, shown.count || count) }, (_, n) => n);
  const away = rows.map((n) => Math.hypot(...model.code(n).map((z, column) => z - from[column]!)));
  return away.indexOf(Math.max(...away));
}

/** The observation of the row after one. */
function after(model: Model, row: number): number {
  return model.indexOf((row + 1) % model.data.rows.count);
}

/** The row of an end, or null if it is a code. */
function rowOf(model: Model, end: End): number | null {
  return typeof end === "number" ? model.rowOf(end) : null;
}

function codeAt(model: Model, end: End): Code {
  return typeof end === "number" ? model.code(known(model, end)) : end;
}

interface EndProps {
  model: Model;
  ends: [End, End];
  place: 0 | 1;
  /** The decoded end. */
  picture: Float32Array | undefined;
}

function EndPicker({ model, ends, place, picture }: EndProps) {
  const end = ends[place];
  const name = place === 0 ? "From" : "To";
  const row = rowOf(model, end);
  const pick = (chosen: End) => pickEnd(model, place, chosen);
  const pickRow = (chosen: number) => pick(model.indexOf(chosen));
  const next = row === null ? model.indexOf(model.data.start) : after(model, row);
  return (
    <figure class="end">
      {row !== null && row < model.data.rows.shown.count ? (
        <Thumbnail
          model={model}
          row={row}
          label={`${name}: observation ${isolated(rowName(model, row))}`}
        />
      ) : (
        picture && <Observation model={model} values={picture} label={`${name}: decoded`} />
      )}
      <figcaption>
        <span>
          <b>{name}</b> {row === null ? "a code" : <bdi>{rowName(model, row)}</bdi>}
        </span>
        <span class="pickers" role="group" aria-label={`${name}: choose`}>
          <button type="button" onClick={() => pickRow(randomRow(model))}>
            Random
          </button>
          <button type="button" onClick={() => pick(next)}>
            Next
          </button>
          <button
            type="button"
            onClick={() => pick(currentEnd(model))}
            title="The current values of the sliders"
          >
            Current
          </button>
          {selection.value && selection.value.length > 0 && (
            <button
              type="button"
              onClick={() => pickRow(randomOf(selection.value!))}
              title="One of the selected points of the tab Data"
            >
              Selected
            </button>
          )}
          <UploadPicker model={model} name={name} pick={pick} />
        </span>
      </figcaption>
    </figure>
  );
}

/** Choose an end; the other one stays as it is now. */
function pickEnd(model: Model, place: 0 | 1, chosen: End): void {
  const ends = endsOf(model, view.value.ends);
  change({ ends: place === 0 ? [chosen, ends[1]] : [ends[0], chosen] });
}

function randomOf(rows: readonly number[]): number {
  return rows[Math.floor(Math.random() * rows.length)]!;
}

/** The current row if its code was not changed, otherwise the code. */
function currentEnd(model: Model): End {
  const origin = originOf(model);
  return origin.kind === "row" && view.value.z === null ? model.indexOf(origin.row) : code.value;
}

interface UploadPickerProps {
  model: Model;
  name: string;
  pick: (end: End) => void;
}

function UploadPicker({ model, name, pick }: UploadPickerProps) {
  const kept = uploadsFor(model);
  if (kept.length === 0) return null;
  return (
    <select
      aria-label={`${name}: one of your files`}
      value=""
      onChange={(event) => {
        const upload = kept.find((each) => each.id === +event.currentTarget.value);
        if (upload) void encodeCurrent(model, upload).then((code) => code && pick(code));
      }}
    >
      <option value="">Your file …</option>
      {kept.map(({ id, name }) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </select>
  );
}

function Along({ model, from, to }: { model: Model; from: Code; to: Code }) {
  const share = nearestShare(from, to, code.value);
  return (
    <label class="along">
      <span>Along the path</span>
      <input
        type="range"
        min={0}
        max={1}
        step={0.01}
        value={share}
        aria-valuetext={percent(share)}
        onInput={(event) =>
          change(
            { z: interpolated(model.data.variables, from, to, +event.currentTarget.value) },
            "path",
          )
        }
      />
      <output>{percent(share)}</output>
    </label>
  );
}

/** The path: the share of the way, the code, and what is decoded from it in the user's units. */
export function csvOf(model: Model, path: readonly Code[], values: readonly Float32Array[]): Csv {
  const seen = model.data.observation;
  return {
    columns: ["share", ...dimensionNames(model), ...valueNames(seen)],
    rows: path.map((z, n) => [n / (path.length - 1), ...z, ...inUnits(seen, values[n]!)]),
  };
}
