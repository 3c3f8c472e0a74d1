/** One row of the data: its observation, its name and its factors. */
import { useDecoded } from "../../decoded";
import type { Model } from "../../model";
import type { Place, Size } from "../../scatter/camera";
import { isolated, rowName } from "../../text";
import { Observation } from "../../ui/observation";
import { Thumbnail } from "../../ui/thumbnail";
import { columnOf, textOf } from "./columns";

/** Names and values of the factors of a row. */
export function factorTexts(model: Model, row: number): [string, string][] {
  return model.data.factors.map((factor, n) => [
    factor.name,
    textOf(columnOf(model, `factor:${n}`)!, model.factor(row, n)),
  ]);
}

/** What a screen reader says about a row. */
export function spoken(model: Model, row: number): string {
  return [
    isolated(rowName(model, row)),
    ...factorTexts(model, row).map((pair) => pair.map(isolated).join(" ")),
  ].join(", ");
}

const WIDTH = 176;
const HEIGHT = 210;

/** A card beside the point. */
export function Hover({
  model,
  row,
  at,
  size,
}: {
  model: Model;
  row: number;
  at: Place;
  size: Size;
}) {
  const left = at[0] + WIDTH + 20 > size.width ? at[0] - WIDTH - 12 : at[0] + 14;
  const top = Math.min(Math.max(at[1] - 30, 0), Math.max(size.height - HEIGHT, 0));
  return (
    <div
      class="row-card"
      data-testid="hover"
      style={{ left: `${Math.max(left, 0)}px`, top: `${top}px`, width: `${WIDTH}px` }}
    >
      {row < model.data.rows.shown.count ? (
        <Thumbnail model={model} row={row} label="Observation" />
      ) : (
        <Reconstruction model={model} row={row} />
      )}
      <strong>
        <bdi>{rowName(model, row)}</bdi>
      </strong>
      <dl>
        {factorTexts(model, row).map(([name, value]) => (
          <div key={name}>
            <dt>
              <bdi>{name}</bdi>
            </dt>
            <dd>
              <bdi>{value}</bdi>
            </dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

/** The page has no picture of this row, so its code is decoded. */
function Reconstruction({ model, row }: { model: Model; row: number }) {
  const decoded = useDecoded(model, [model.code(row)]);
  return (
    <>
      {decoded && <Observation model={model} values={decoded.values} label="Reconstruction" />}
      <small>Reconstruction</small>
    </>
  );
}
