/** Latent variables of the first run and what matches them in the other open runs. */
import { LEAST, LEAST_ROWS, matching, units, type Match } from "../../matching";
import type { Model } from "../../model";
import { runName } from "../../open-runs";
import { openModels } from "../../state";
import { isolated } from "../../text";
import type { Csv } from "../../ui/export";
import { Panel } from "../../ui/panel";
import { associationText } from "../others";

export function Matched({ model }: { model: Model }) {
  const others = openModels.value.filter((each) => each !== model);
  if (others.length === 0) return null;
  return (
    <Panel
      title="Matched latent variables"
      help={`Each latent variable that ${isolated(runName(model.id))} uses and its match in the other open runs: Spearman's rank correlation over the observations that both have, or the normalised mutual information of classes. Unused variables are not matched, and below ${LEAST} there is no match. Choose a variable to go to its slider.`}
      csv={() => matchedCsv(model, others)}
    >
      <div class="table" role="region" aria-label="Table of matched latent variables" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">{runName(model.id)}</th>
              {others.map((other) => (
                <th key={other.id} scope="col">
                  {runName(other.id)}
                  <Note first={model} other={other} />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {units(model).map((unit) => (
              <tr key={unit.name}>
                <th scope="row">
                  <button
                    type="button"
                    aria-label={`Go to the slider of ${isolated(unit.name)}`}
                    onClick={() => focusSlider(model, unit.variable.number, unit.column)}
                  >
                    {unit.name}
                  </button>
                </th>
                {others.map((other) => (
                  <td key={other.id}>
                    <Cell match={matchOf(model, other, unit.column)} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

/** Why nothing matches. */
function Note({ first, other }: { first: Model; other: Model }) {
  if (first.data.data !== other.data.data) return <div class="help">other data</div>;
  const { rows } = matching(first, other);
  return rows < LEAST_ROWS ? <div class="help">only {rows} common observations</div> : null;
}

function matchOf(first: Model, other: Model, column: number): Match | undefined {
  return matching(first, other).matches.find((match) => match.first.column === column);
}

function Cell({ match }: { match: Match | undefined }) {
  if (!match) return <span class="muted">–</span>;
  return (
    <>
      <bdi>{match.other.name}</bdi>{" "}
      <span class="bar" style={{ width: `${Math.abs(match.association) * 60}px` }} />{" "}
      {associationText(match)}
    </>
  );
}

/** Put the focus on the control of a variable. */
function focusSlider(model: Model, number: number, column: number): void {
  const variable = model.variable(number);
  const control = document.querySelector(`.control[data-variable="${number}"]`);
  const inputs = control?.querySelectorAll<HTMLElement>('input[type="range"], [role="radio"]');
  inputs?.[variable.discrete ? 0 : column - variable.columns[0]]?.focus();
}

function matchedCsv(first: Model, others: readonly Model[]): Csv {
  return {
    columns: [
      runName(first.id),
      ...others.flatMap(({ id }) => [runName(id), `association with ${runName(id)}`]),
    ],
    rows: units(first).map((unit) => [
      unit.name,
      ...others.flatMap((other) => {
        const match = matchOf(first, other, unit.column);
        return match ? [match.other.name, match.association] : [null, null];
      }),
    ]),
  };
}
