/** The share of every factor that every latent variable explains. */
import type { Variable } from "../../bundle";
import { cellColour, inkOn } from "../../colours";
import type { Model } from "../../model";
import { css } from "../../scatter/palette";
import { change, type View } from "../../state";
import { isolated, percent } from "../../text";
import { shade } from "../../theme";
import { Panel } from "../../ui/panel";
import { aboveChance, byShare } from "./responses";

export function Matrix({ model }: { model: Model }) {
  const { factors, chance, variables } = model.data;
  const shown = model.active.length > 0 ? model.active : variables;
  const left = variables.length - shown.length;
  return (
    <Panel
      title="Shares of factors"
      help="Each cell is the share of a factor that a latent variable explains, corrected for chance: 0% is the mean for shuffled factors, 100% means that the variable determines the factor. It is the share of the entropy of a discrete factor, or of the variance, in ranks, that a continuous factor has in common with the mean code. Grey cells are not above chance, the largest share of any variable when the factor is shuffled. A frame marks the best variable of each factor. Click a cell to see the data."
      csv={() => ({
        columns: ["variable", ...factors.map(({ name }) => name)],
        rows: variables.map(({ name, number }) => [
          name,
          ...factors.map((_, k) => model.share(number, k)),
        ]),
      })}
    >
      <div class="scroll-x">
        <table class="information">
          <thead>
            <tr>
              <th scope="col">Variable</th>
              {factors.map(({ name }) => (
                <th key={name} scope="col" title={name}>
                  <bdi>{name}</bdi>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((variable) => (
              <tr key={variable.number}>
                <th scope="row" title={variable.name}>
                  <bdi>{variable.name}</bdi>
                </th>
                {factors.map((_, k) => (
                  <td key={k}>
                    <Cell model={model} variable={variable} factor={k} />
                  </td>
                ))}
              </tr>
            ))}
            <tr class="chance">
              <th scope="row">chance</th>
              {chance.map((share, k) => (
                <td key={k}>{percent(share)}</td>
              ))}
            </tr>
          </tbody>
        </table>
      </div>
      {left > 0 && (
        <p class="help">
          {left} unused {left === 1 ? "variable is" : "variables are"} left out.
        </p>
      )}
    </Panel>
  );
}

const WIDTH = 72;
const HEIGHT = 30;

function Cell({ model, variable, factor }: { model: Model; variable: Variable; factor: number }) {
  const share = Math.max(model.share(variable.number, factor), 0);
  const { name } = model.data.factors[factor]!;
  const informative = aboveChance(model, variable.number, factor);
  const best = informative && byShare(model, factor)[0] === variable;
  const colour = cellColour(informative ? share : 0, shade.value);
  const label = `${isolated(variable.name)} explains ${percent(share)} of ${isolated(name)}${informative ? "" : ", not above chance"}${best ? ", the best variable" : ""}`;
  return (
    <button
      type="button"
      class="cell"
      aria-label={label}
      title={label}
      onClick={() => change(linked(model, variable, factor))}
    >
      <svg width={WIDTH} height={HEIGHT} aria-hidden="true">
        <rect width={WIDTH} height={HEIGHT} style={{ fill: css(colour) }} />
        {best && <rect class="best" x={1.5} y={1.5} width={WIDTH - 3} height={HEIGHT - 3} />}
        <text
          class={informative ? "" : "below"}
          style={informative ? { fill: css(inkOn(colour)) } : {}}
          x={WIDTH / 2}
          y={HEIGHT / 2 + 4}
          text-anchor="middle"
        >
          {percent(share)}
        </text>
      </svg>
    </button>
  );
}

/** The view of the data that shows a variable and a factor: the next best active variable is on the
 * y axis, or the factor if there is none. */
export function linked(model: Model, variable: Variable, factor: number): Partial<View> {
  const x = `z:${variable.number}`;
  const colour = `factor:${factor}`;
  const next = byShare(model, factor).find(
    ({ active, number }) => active && number !== variable.number,
  );
  return { tab: "data", x, y: next ? `z:${next.number}` : colour, colour, box: null };
}
