/** The tab "Runs": all runs in a table and in charts, under one filter. */
import { useRef } from "preact/hooks";
import type { Model } from "../../model";
import { change } from "../../state";
import { CurvesPanel } from "./curves-panel";
import { Matched } from "./matched";
import { Parallel } from "./parallel";
import { RunScatter } from "./scatter";
import { filtered, runs, shown } from "./shown";
import { RunTable } from "./table";
import "./runs.css";

export function Runs({ model }: { model: Model }) {
  return (
    <div class="runs">
      <Matched model={model} />
      {runs.value.length > 1 && <Filter />}
      <RunTable />
      {runs.value.length > 1 && <RunScatter />}
      {runs.value.length > 1 && <Parallel />}
      <CurvesPanel />
    </div>
  );
}

const MANY = 1000; // runs from which charts wait for a pause in typing
const TYPING = 250; // milliseconds

/** The filter of everything below it. */
function Filter() {
  const { runs: found, error } = filtered.value;
  const timer = useRef(0);
  const type = (filter: string) => {
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => change({ filter }, "filter"), runs.value.length > MANY ? TYPING : 0);
  };
  return (
    <div class="filter" role="search" aria-label="Runs">
      <label>
        Filter runs{" "}
        <input
          type="search"
          value={shown.filter.value}
          placeholder="objective.beta=4 mig>0.3 words"
          aria-describedby="filter-result"
          aria-invalid={error !== ""}
          onInput={(event) => type(event.currentTarget.value)}
        />
      </label>
      <span id="filter-result" role="status" class={error ? "mistake" : "help"}>
        {error || `${found.length} of ${runs.value.length} runs`}
      </span>
    </div>
  );
}
