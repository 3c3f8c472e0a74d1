/** The tab "Runs": all runs in a table and in charts, under one filter. */
import { useRef, useState } from "preact/hooks";
import type { Model } from "../../model";
import { change } from "../../state";
import { noEvidence } from "./columns";
import { CurvesPanel } from "./curves-panel";
import { Matched } from "./matched";
import { Parallel } from "./parallel";
import { RunScatter } from "./scatter";
import { columns, filtered, runs, shown } from "./shown";
import { RunTable } from "./table";
import "./runs.css";

/** @param model The first model that is open, if any. */
export function Runs({ model }: { model: Model | undefined }) {
  return (
    <div class="runs">
      {model && <Matched model={model} />}
      <Unproven />
      {runs.value.length > 1 && <Filter />}
      <RunTable />
      {runs.value.length > 1 && <RunScatter />}
      {runs.value.length > 1 && <Parallel />}
      <CurvesPanel />
    </div>
  );
}

/** Which scores are no evidence, before any of them. */
function Unproven() {
  const reasons = noEvidence(runs.value, columns.value);
  return (
    <>
      {reasons.map((reason) => (
        <p key={reason} class="unproven">
          <strong>No evidence of disentanglement:</strong> {reason}.
        </p>
      ))}
    </>
  );
}

const MANY = 1000; // runs from which charts wait for a pause in typing
const TYPING = 250; // milliseconds

/** The filter of everything below it. */
export function Filter() {
  const { runs: found, error } = filtered.value;
  const timer = useRef(0);
  // What is typed and not yet applied: drawing something else meanwhile must not take it back.
  const [typed, setTyped] = useState<string | null>(null);
  const type = (filter: string) => {
    setTyped(filter);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(
      () => {
        change({ filter }, "filter");
        setTyped(null);
      },
      runs.value.length > MANY ? TYPING : 0,
    );
  };
  return (
    <div class="filter" role="search" aria-label="Runs">
      <label>
        Filter runs{" "}
        <input
          type="search"
          value={typed ?? shown.filter.value}
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
