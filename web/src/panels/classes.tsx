/** Buttons for the classes of a discrete variable, one of which is chosen. */
import type { Variable } from "../bundle";
import { classOf, withClass, type Model } from "../model";
import { codeOf, originOf } from "../origin";
import { change, code } from "../state";
import { percent } from "../text";

export function Classes({ model, variable }: { model: Model; variable: Variable }) {
  const chosen = classOf(variable, code.value);
  const start = codeOf(model, originOf(model));
  const observed = start && classOf(variable, start);
  const choose = (n: number) =>
    change({ z: withClass(variable, code.value, n) }, `classes ${variable.number}`);
  return (
    <div
      class="classes"
      role="radiogroup"
      aria-label={variable.name}
      onKeyDown={(event) => {
        const next = moved(event.key, chosen, variable.classes, observed);
        if (next === null) return;
        event.preventDefault();
        choose(next);
        (event.currentTarget.children[next] as HTMLElement).focus();
      }}
    >
      {Array.from({ length: variable.classes }, (_, n) => (
        <button
          key={n}
          type="button"
          role="radio"
          aria-checked={n === chosen}
          class={n === observed ? "observed" : ""}
          tabIndex={n === chosen ? 0 : -1}
          title={massText(variable, n, n === observed)}
          onClick={() => choose(n)}
        >
          {n}
          <span class="mass" style={{ width: `${100 * (variable.masses[n] ?? 0)}%` }} />
          <span class="prior-mass" style={{ left: `${100 * (variable.priorMasses[n] ?? 0)}%` }} />
        </button>
      ))}
    </div>
  );
}

/** What a button is for: its class, and how often it occurs in the data and under the prior. */
export function massText({ masses, priorMasses }: Variable, n: number, observed: boolean): string {
  const [mass, prior] = [masses[n], priorMasses[n]];
  const known = mass !== undefined && prior !== undefined;
  const share = known
    ? `Class ${n}, ${percent(mass)} of the data and ${percent(prior)} under the prior`
    : `Class ${n}`;
  return observed ? `${share}; the observation is in it` : share;
}

/** The class that a key goes to, as in every group of radio buttons; Delete goes to the observed one. */
export function moved(
  key: string,
  chosen: number,
  classes: number,
  observed: number | null,
): number | null {
  if (key === "ArrowRight" || key === "ArrowDown") return (chosen + 1) % classes;
  if (key === "ArrowLeft" || key === "ArrowUp") return (chosen + classes - 1) % classes;
  if (key === "Home") return 0;
  if (key === "End") return classes - 1;
  return key === "Delete" ? observed : null;
}
