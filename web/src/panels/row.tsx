/** A row of decoded observations: images to click, or curves in one chart with buttons for them. */
import { scoreColour } from "../colours";
import type { Model } from "../model";
import { view } from "../state";
import { Observation } from "../ui/observation";
import { inUnits } from "../units";
import { VectorChart, type Series } from "../ui/vector";
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

function Overlay({ model, title, values, names, base, current, label, onChoose }: Props) {
  const seen = model.data.observation;
  if (seen.kind !== "vector") return null;
  const before = view.value.difference ? inUnits(seen, base) : null;
  const series: Series[] = values.map((each, n) => ({
    name: names[n]!,
    values: before
      ? inUnits(seen, each).map((value, column) => value - before[column]!)
      : inUnits(seen, each),
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
