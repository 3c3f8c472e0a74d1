/** A row of decoded observations: images to click, or curves in one chart with buttons for them. */
import type { VectorObservation } from "../bundle";
import { scoreColour } from "../colours";
import type { Model } from "../model";
import { view } from "../state";
import { Observation } from "../ui/observation";
import { inUnits } from "../units";
import { isNamed, VectorChart, type Series } from "../ui/vector";
import { mostDifferent, ofColumns } from "../ui/vector-scale";
import { moveFocus, Tile } from "./tiles";
import "./row.css";

interface Props {
  model: Model;
  title: string;
  /** Decoded observations, as the network has values, and a short name for each. */
  values: readonly Float32Array[];
  names: readonly string[];
  /** What differences are taken from, if they are shown. */
  base: Float32Array;
  /** The one that the sliders are at, or -1. */
  current: number;
  label: (n: number) => string;
  onChoose: (n: number) => void;
}

export function DecodedRow(props: Props) {
  return props.model.data.observation.kind === "image" ? (
    <Images {...props} />
  ) : (
    <Overlay {...props} />
  );
}

function Images({ model, title, values, names, base, current, label, onChoose }: Props) {
  const minus = view.value.difference ? base : undefined;
  return (
    <div
      class="images"
      role="group"
      aria-label={title}
      style={{ "--steps": Math.max(values.length, 5) }}
      onKeyDown={(event) => moveFocus(event, values.length)}
    >
      {values.map((image, n) => (
        <Tile
          key={n}
          current={n === current}
          first={n === Math.max(current, 0)}
          label={label(n)}
          caption={names[n]!}
          onChoose={() => onChoose(n)}
        >
          <Observation model={model} values={image} minus={minus} label="" />
        </Tile>
      ))}
    </div>
  );
}

const MOST_COLUMNS = 12; // of a table that are shown

function Overlay({ model, title, values, names, base, current, label, onChoose }: Props) {
  const all = model.data.observation;
  if (all.kind !== "vector") return null;
  const decoded = values.map((each) => inUnits(all, each));
  const before = view.value.difference ? inUnits(all, base) : null;
  const columns = shownColumns(all, decoded);
  const seen = ofColumns(all, columns);
  const series: Series[] = decoded.map((each, n) => ({
    name: names[n]!,
    values: columns.map((column) => each[column]! - (before?.[column] ?? 0)),
    role: "main",
    colour: scoreColour(values.length > 1 ? n / (values.length - 1) : 0.5),
  }));
  return (
    <div class="overlay">
      <VectorChart
        model={model}
        seen={seen}
        series={series}
        label={title}
        difference={before !== null}
      />
      {seen.length < all.length && (
        <p class="part">
          The {seen.length} of {all.length} columns that change most
          {all.counts && ", on a logarithmic scale"}
        </p>
      )}
      <div
        class="values"
        role="group"
        aria-label={title}
        onKeyDown={(event) => moveFocus(event, values.length)}
      >
        {series.map(({ name, colour }, n) => (
          <Tile
            key={n}
            current={n === current}
            first={n === Math.max(current, 0)}
            label={label(n)}
            caption={name}
            onChoose={() => onChoose(n)}
          >
            <span class="swatch" style={{ background: colour! }} />
          </Tile>
        ))}
      </div>
    </div>
  );
}

/** All columns of a curve or of a small table; otherwise those that change most. */
function shownColumns(seen: VectorObservation, decoded: readonly number[][]): number[] {
  return seen.curve || isNamed(seen)
    ? Array.from({ length: seen.length }, (_, column) => column)
    : mostDifferent(seen, decoded, MOST_COLUMNS);
}
