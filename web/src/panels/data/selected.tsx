/** The selected rows against the rest: a histogram of every factor and latent variable. */
import { useMemo } from "preact/hooks";
import type { Model } from "../../model";
import { change } from "../../state";
import { isolated, percent, thousands } from "../../text";
import { Panel } from "../../ui/panel";
import { histograms, type Histogram } from "./histograms";
import { rowsTable } from "./table";

/** The line that says how many rows are selected. */
export const SELECTED = "selected-rows";

export function Selected({ model, rows }: { model: Model; rows: readonly number[] }) {
  const drawn = useMemo(() => histograms(model, rows), [model, rows]);
  const { count } = model.data.rows;
  return (
    <Panel
      title="Selection"
      help="Shares of the values among the selected rows and among the rest, from what differs most to what differs least. The percentage in the corner is that of the highest bar. JSD is the Jensen-Shannon divergence: 0 bits if the two are equal, 1 bit if they have nothing in common. CSV saves the selected rows."
      csv={() => rowsTable(model, rows)}
    >
      <p
        id={SELECTED}
        tabIndex={-1}
        class="selected-count"
        role="status"
        data-testid="selected-count"
      >
        {thousands(rows.length)} of {thousands(count)} rows selected ({percent(rows.length / count)}
        ).
      </p>
      <ul class="comparison-key" aria-hidden="true">
        <li class="in">
          <svg width="11" height="11">
            <rect width="11" height="11" />
          </svg>{" "}
          selected
        </li>
        <li class="out">
          <svg width="11" height="11">
            <rect width="11" height="11" />
          </svg>{" "}
          the rest
        </li>
      </ul>
      {rows.length > 0 && rows.length < count && (
        <div class="comparisons">
          {drawn.map((each) => (
            <Bars key={each.key} of={each} />
          ))}
        </div>
      )}
    </Panel>
  );
}

const WIDTH = 220;
const HEIGHT = 84;
const HEAD = 13; // room for the percentage

function Bars({ of }: { of: Histogram }) {
  const top = Math.max(...of.selected, ...of.rest, 1e-9);
  const step = WIDTH / of.bins.length;
  return (
    <figure class="comparison" data-key={of.key}>
      <figcaption>
        <button
          type="button"
          class="text-button in-export"
          title="Colour the points by this"
          onClick={() => change({ colour: of.key })}
        >
          <bdi>{of.name}</bdi>
        </button>
        <span
          class="differs"
          title="Jensen-Shannon divergence of the two histograms, from 0 bits (equal) to 1 bit (nothing in common)"
        >
          JSD {of.divergence.toFixed(2)} bits
        </span>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={spoken(of)}>
        {of.bins.map((bin, n) => (
          <g key={n}>
            <title>{`${isolated(bin.label)}: ${percent(of.selected[n]!, 1)} of the selected rows, ${percent(of.rest[n]!, 1)} of the rest`}</title>
            <rect class="hit" x={n * step} width={step} height={HEIGHT} />
            <Bar
              side="in"
              x={n * step + step * 0.08}
              width={step * 0.42}
              height={(of.selected[n]! / top) * (HEIGHT - HEAD)}
            />
            <Bar
              side="out"
              x={n * step + step * 0.5}
              width={step * 0.42}
              height={(of.rest[n]! / top) * (HEIGHT - HEAD)}
            />
          </g>
        ))}
        <text class="top" x={0} y={9}>
          {percent(top)}
        </text>
        <line class="plot-rule" x1={0} x2={WIDTH} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} />
      </svg>
      <div class="bar-ends">
        <span>{of.ends[0]}</span>
        <span>{of.ends[1]}</span>
      </div>
    </figure>
  );
}

function Bar({
  side,
  x,
  width,
  height,
}: {
  side: "in" | "out";
  x: number;
  width: number;
  height: number;
}) {
  return <rect class={side} x={x} width={width} y={HEIGHT - height} height={height} />;
}

/** The bin in which the selection differs most, in words. */
function spoken(of: Histogram): string {
  const gaps = of.selected.map((share, n) => Math.abs(share - of.rest[n]!));
  const most = gaps.indexOf(Math.max(...gaps));
  const bin = of.bins[most];
  if (!bin) return `${isolated(of.name)}: no values`;
  return `${isolated(of.name)}: the largest difference is at ${isolated(bin.label)}, ${percent(of.selected[most]!, 1)} of the selected rows and ${percent(of.rest[most]!, 1)} of the rest`;
}
