/** What stands in the place of the sliders while no model is open: why there is none. */
import { runName } from "../open-runs";
import { isolated } from "../text";
import { failures, manifest, view } from "../state";

const MOST = 8; // runs whose reasons are listed

export function NothingOpen() {
  const reasons = whyNothing();
  if (reasons.length === 1)
    return (
      <p class="waiting" role="status">
        {reasons[0]}
      </p>
    );
  return (
    <div class="waiting" role="status">
      <p>No run can be opened:</p>
      <ul>
        {reasons.slice(0, MOST).map((reason) => (
          <li key={reason}>{reason}</li>
        ))}
      </ul>
      {reasons.length > MOST && <p>and {reasons.length - MOST} more runs.</p>}
    </div>
  );
}

/** One sentence, or one for every run that cannot be opened. */
function whyNothing(): string[] {
  const { runs } = manifest.value;
  const { open } = view.value;
  if (open.some((id) => !failures.value.has(id))) return ["Opening …"];
  if (open.length > 0)
    return open.map((id) => `${isolated(runName(id))} cannot be opened: ${failures.value.get(id)}`);
  if (runs.length === 0) return ["There are no runs yet."];
  if (runs.some((run) => run.explorable)) return ["No run is open. Choose one in the table."];
  return runs.map((run) => `${isolated(run.name)} ${run.reason}.`);
}
