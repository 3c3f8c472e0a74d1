/** The runs that are open: choose, add, remove, and make one the first. */
import { computed } from "@preact/signals";
import type { RunData } from "../bundle";
import { closeRun, makeFirst, openRun, replaceRun } from "../open-runs";
import { change, manifest, MOST_OPEN, view } from "../state";
import { isolated } from "../text";
import "./picker.css";

const MOST_OPTIONS = 200; // beyond it a list is no way to find a run: the table of runs has a filter

const explorable = computed(() => manifest.value.runs.filter((run) => run.explorable));

export function RunPicker() {
  const { open } = view.value;
  const runs = explorable.value;
  if (manifest.value.runs.length < 2) return <OneRun run={manifest.value.runs[0]} />;
  return (
    <nav class="picker" aria-label="Open runs">
      {open.map((id, place) => (
        <Slot key={id} id={id} place={place} runs={runs} />
      ))}
      {open.length < MOST_OPEN && runs.length > open.length && <Add runs={runs} />}
    </nav>
  );
}

/** A single run needs no choice: only its training is shown. */
function OneRun({ run }: { run: RunData | undefined }) {
  return run?.state === "running" ? (
    <div class="picker">
      <Training runs={[run]} />
    </div>
  ) : null;
}

interface SlotProps {
  id: string;
  place: number;
  runs: readonly RunData[];
}

function Slot({ id, place, runs }: SlotProps) {
  const { open } = view.value;
  const run = runs.find((each) => each.id === id);
  const name = run?.name ?? id;
  return (
    <div class="slot" role="group" aria-label={name}>
      <RunChoice id={id} place={place} runs={runs} name={name} />
      {place === 0 && open.length > 1 && <span class="help">has the sliders</span>}
      {place > 0 && (
        <button
          type="button"
          onClick={() => makeFirst(id)}
          aria-label={`Make first: ${isolated(name)}`}
        >
          Make first
        </button>
      )}
      {open.length > 1 && (
        <button type="button" onClick={() => closeRun(id)} aria-label={`Remove ${isolated(name)}`}>
          Remove
        </button>
      )}
      <Training runs={run ? [run] : []} />
    </div>
  );
}

function RunChoice({ id, place, runs, name }: SlotProps & { name: string }) {
  if (runs.length > MOST_OPTIONS)
    return (
      <strong>
        <bdi>{name}</bdi>
      </strong>
    );
  const free = runs.filter((run) => run.id === id || !view.value.open.includes(run.id));
  return (
    <select
      aria-label={`Run ${place + 1}`}
      value={id}
      onChange={(event) => replaceRun(id, event.currentTarget.value)}
    >
      {free.map((run) => (
        <option key={run.id} value={run.id}>
          {run.name}
        </option>
      ))}
    </select>
  );
}

function Add({ runs }: { runs: readonly RunData[] }) {
  if (runs.length > MOST_OPTIONS) {
    return (
      <button type="button" onClick={() => change({ tab: "runs" })}>
        Compare with another run …
      </button>
    );
  }
  const free = runs.filter((run) => !view.value.open.includes(run.id));
  return (
    <select
      aria-label="Compare with another run"
      value=""
      onChange={(event) => openRun(event.currentTarget.value)}
    >
      <option value="">Compare with …</option>
      {free.map((run) => (
        <option key={run.id} value={run.id}>
          {run.name}
        </option>
      ))}
    </select>
  );
}

/** How far runs in training are. */
export function Training({ runs }: { runs: readonly RunData[] }) {
  return (
    <>
      {runs
        .filter((run) => run.state === "running")
        .map((run) => (
          <span key={run.id} class="training">
            training: step {run.step} of {run.steps}{" "}
            <progress
              aria-label={`Training of ${isolated(run.name)}`}
              value={run.step}
              max={Math.max(run.steps, 1)}
            />
          </span>
        ))}
    </>
  );
}
