/** The ranges of the parallel coordinates as fields, for the keyboard. */
import { change } from "../../state";
import type { Column } from "./columns";
import { rangeOf, withRange } from "./filter";
import { isNumeric, shown } from "./shown";

export function Ranges({ columns }: { columns: readonly Column[] }) {
  const numeric = columns.filter(isNumeric);
  if (numeric.length === 0) return null;
  return (
    <details>
      <summary>Ranges</summary>
      {numeric.map(({ key, name }) => (
        <fieldset key={key} class="range">
          <legend title={key}>
            <bdi>{name}</bdi>
          </legend>
          <Bound name={key} end="low" />
          <Bound name={key} end="high" />
        </fieldset>
      ))}
    </details>
  );
}

function Bound({ name, end }: { name: string; end: "low" | "high" }) {
  const range = rangeOf(shown.filter.value, name);
  const set = (text: string) => {
    const bounds = { ...range, [end]: text === "" ? null : Number(text) };
    change({ filter: withRange(shown.filter.value, name, bounds.low, bounds.high) });
  };
  return (
    <label>
      {end === "low" ? "from" : "to"}{" "}
      <input
        type="number"
        step="any"
        value={range[end] ?? ""}
        onChange={(event) => set(event.currentTarget.value)}
      />
    </label>
  );
}
