/** The tab "Data": where the observations lie. */
import { useMemo } from "preact/hooks";
import type { Model } from "../../model";
import { colourKey, contours, selection, xAxis, yAxis } from "../../selection";
import { shade } from "../../theme";
import { Panel } from "../../ui/panel";
import { cloudOf } from "./cloud";
import { colouring, lookOf } from "./colouring";
import { columnOf } from "./columns";
import { AxisControls, SelectByValue } from "./controls";
import { DensityKey, whyNoContours } from "./density";
import { Legend } from "./legend";
import { Plot } from "./plot";
import { Selected } from "./selected";
import { scatterTable } from "./table";
import "./data.css";

export function Data({ model }: { model: Model }) {
  const [x, y, colour, rows] = [xAxis.value, yAxis.value, colourKey.value, selection.value];
  const dark = shade.value === "dark";
  const cloud = useMemo(() => cloudOf(model, x, y), [model, x, y]);
  const colours = useMemo(() => colouring(columnOf(model, colour), dark), [model, colour, dark]);
  const selected = useMemo(() => rows && new Set(rows), [rows]);
  const { count } = model.data.rows;
  const look = useMemo(
    () => lookOf(colours, cloud.rows, count, selected),
    [colours, cloud, count, selected],
  );
  const left = count - cloud.rows.length;
  return (
    <>
      <Panel
        title="Data"
        help="Every point is an observation, placed by the mean of its code. Point at one to see it; click to set the sliders to its code. The cross is where the sliders are; if that is out of view, an arrow at the edge points to it."
        csv={() => scatterTable(model, cloud, columnOf(model, colour))}
      >
        <AxisControls model={model} />
        <div class="scatter-and-legend">
          <Plot model={model} cloud={cloud} look={look} selected={selected} />
          <div class="scatter-side">
            <Legend colours={colours} />
            {contours.value && !whyNoContours(cloud) && <DensityKey />}
            {left > 0 && <p class="help">{left} rows have no value on an axis and are left out.</p>}
          </div>
        </div>
        <p id="scatter-keys" class="help no-export">
          Drag to move, Ctrl or ⌘ and wheel (after a click the wheel alone) or pinch to zoom, shift
          and drag to select. Keys: arrows go from point to point, Enter sets the sliders, + and −
          zoom, shift and arrows move, 0 resets the view, Escape clears the selection.
        </p>
        <SelectByValue model={model} />
      </Panel>
      {rows && <Selected model={model} rows={rows} />}
    </>
  );
}
