/** Choices of the axes and the colour, and selecting by value. */
import { extent } from "d3-array";
import { useMemo, useState } from "preact/hooks";
import type { Model } from "../../model";
import { chooseAxis, colourKey, selectRange, xAxis, yAxis } from "../../selection";
import { change } from "../../state";
import { Choice } from "../../ui/choice";
import { axisOptions, colourOptions, columnOf, type Column } from "./columns";

export function AxisControls({ model }: { model: Model }) {
  const axes = axisOptions(model);
  return (
    <div class="data-choices">
      <Choice
        label="Horizontal"
        options={axes}
        value={xAxis.value}
        onChange={(key) => chooseAxis(model, 0, key)}
      />
      <Choice
        label="Vertical"
        options={axes}
        value={yAxis.value}
        onChange={(key) => chooseAxis(model, 1, key)}
      />
      <Choice
        label="Colour"
        options={colourOptions(model)}
        value={colourKey.value}
        onChange={(colour) => change({ colour })}
      />
    </div>
  );
}

/** Selects rows without a lasso: one value of a factor, or a range of numbers. */
export function SelectByValue({ model }: { model: Model }) {
  const options = colourOptions(model).filter(({ key }) => key !== "none");
  const [key, setKey] = useState(options[0]?.key ?? "");
  const column = columnOf(model, key) ?? columnOf(model, options[0]!.key)!;
  return (
    <fieldset class="data-choices by-value">
      <legend>Select by value</legend>
      <Choice label="Variable" options={options} value={column.key} onChange={setKey} />
      {column.kind === "number" ? (
        <NumberRange key={column.key} column={column} />
      ) : (
        <OneValue key={column.key} column={column} />
      )}
    </fieldset>
  );
}

function OneValue({ column }: { column: Column }) {
  const [value, setValue] = useState("0");
  const options = column.labels.map((name, n) => ({ key: String(n), name }));
  return (
    <>
      <Choice label="Value" options={options} value={value} onChange={setValue} />
      <button type="button" onClick={() => selectRange(column.key, +value, +value)}>
        Select
      </button>
    </>
  );
}

function NumberRange({ column }: { column: Column }) {
  const ends = useMemo(() => outerEnds(column.values), [column]);
  const [low, setLow] = useState(ends[0]);
  const [high, setHigh] = useState(ends[1]);
  const valid = low !== "" && high !== "" && +low <= +high;
  return (
    <>
      <label class="option">
        From
        <input
          type="number"
          step="any"
          value={low}
          onInput={(event) => setLow(event.currentTarget.value)}
        />
      </label>
      <label class="option">
        To
        <input
          type="number"
          step="any"
          value={high}
          onInput={(event) => setHigh(event.currentTarget.value)}
        />
      </label>
      <button type="button" disabled={!valid} onClick={() => selectRange(column.key, +low, +high)}>
        Select
      </button>
    </>
  );
}

/** The range of the finite values, rounded outwards to 4 digits so that it holds all of them. */
export function outerEnds(values: Float32Array): [string, string] {
  const [low, high] = extent(values.filter((value) => Number.isFinite(value)));
  return [rounded(low ?? 0, Math.floor), rounded(high ?? 0, Math.ceil)];
}

function rounded(value: number, round: (x: number) => number): string {
  if (value === 0) return "0";
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(value))) - 3);
  return String(+(round(value / unit) * unit).toPrecision(5));
}
