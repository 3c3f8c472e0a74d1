/** A slider for every continuous latent variable, and buttons for the classes of discrete ones. */
import type { Variable } from "../bundle";
import { classOf, LIMIT, scoreOf, valueAt, withClass, type Code, type Model } from "../model";
import { change, code, view } from "../state";
import { Fold } from "../ui/fold";

export function Sliders({ model }: { model: Model }) {
  const used = model.active;
  const unused = model.data.variables.filter((variable) => !variable.active);
  return (
    <div class="sliders">
      {grouped(used).map(([group, members]) => (
        <Group key={group} name={group}>
          {members.map((variable) => (
            <Control key={variable.number} variable={variable} />
          ))}
        </Group>
      ))}
      {used.length === 0 && <p class="help">No latent variable carries information about the data.</p>}
      {unused.length > 0 && (
        <Fold
          title={`${unused.length} unused ${unused.length === 1 ? "variable" : "variables"}`}
          open={view.value.unused}
          onToggle={(unused) => change({ unused })}
        >
          {unused.map((variable) => (
            <Control key={variable.number} variable={variable} />
          ))}
        </Fold>
      )}
    </div>
  );
}

/** Variables by the group of the latent tree around them, groups in the order of their first one. */
export function grouped(variables: readonly Variable[]): [string, Variable[]][] {
  const groups = new Map<string, Variable[]>();
  for (const variable of variables) {
    const name = variable.groups.join(" / ");
    groups.set(name, [...(groups.get(name) ?? []), variable]);
  }
  return [...groups];
}

function Group({ name, children }: { name: string; children: preact.ComponentChildren }) {
  if (!name) return <>{children}</>;
  return (
    <fieldset class="group">
      <legend>{name}</legend>
      {children}
    </fieldset>
  );
}

function Control({ variable }: { variable: Variable }) {
  return (
    <div class="control" data-variable={variable.number}>
      <div class="about">
        <span class="name">{variable.name}</span>
        {variable.factor && (
          <span class="factor" title="The factor that this variable tells most about, and how much of its entropy">
            {variable.factor} {Math.round(100 * variable.share)} %
          </span>
        )}
        <span class="kl" title="Information about the observation, I(x; z), in nats">
          {variable.information.toFixed(2)} nats
        </span>
      </div>
      {variable.discrete ? <Classes variable={variable} /> : <Columns variable={variable} />}
    </div>
  );
}

function Classes({ variable }: { variable: Variable }) {
  const chosen = classOf(variable, code.value);
  return (
    <div class="classes" role="radiogroup" aria-label={variable.name}>
      {Array.from({ length: variable.classes }, (_, n) => (
        <button
          key={n}
          type="button"
          role="radio"
          aria-checked={n === chosen}
          onClick={() => change({ z: withClass(variable, code.value, n) })}
        >
          {n}
        </button>
      ))}
    </div>
  );
}

function Columns({ variable }: { variable: Variable }) {
  return (
    <>
      {variable.quantiles.map((quantiles, n) => (
        <Slider key={n} variable={variable} column={variable.columns[0] + n} quantiles={quantiles} />
      ))}
    </>
  );
}

interface SliderProps {
  variable: Variable;
  column: number;
  quantiles: readonly number[];
}

function Slider({ variable, column, quantiles }: SliderProps) {
  const value = code.value[column]!;
  const several = variable.quantiles.length > 1;
  const name = several ? `${variable.name}, dimension ${column - variable.columns[0] + 1}` : variable.name;
  return (
    <div class="slider">
      <input
        type="range"
        min={-LIMIT}
        max={LIMIT}
        step={0.01}
        value={scoreOf(quantiles, value)}
        aria-label={name}
        aria-valuetext={`${value.toFixed(2)}, quantile ${percent(quantiles, value)} of the prior`}
        onInput={(event) => {
          const z = withColumn(code.value, column, quantiles, +event.currentTarget.value);
          change({ z }, `slider ${column}`);
        }}
      />
      <output title={`Quantile ${percent(quantiles, value)} of the prior`}>{value.toFixed(2)}</output>
    </div>
  );
}

function withColumn(z: Code, column: number, quantiles: readonly number[], score: number): number[] {
  const changed = [...z];
  changed[column] = valueAt(quantiles, score);
  return changed;
}

/** The quantile of a value, "84 %". */
function percent(quantiles: readonly number[], value: number): string {
  return `${(100 * normalCdf(scoreOf(quantiles, value))).toFixed(0)} %`;
}

/** The standard normal cdf, by the error function of Abramowitz and Stegun 7.1.26. */
export function normalCdf(score: number): number {
  const t = 1 / (1 + 0.3275911 * (Math.abs(score) / Math.SQRT2));
  const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const tail = (series * Math.exp((-score * score) / 2)) / 2;
  return score > 0 ? 1 - tail : tail;
}
