/** A slider for every continuous latent variable, and buttons for the classes of discrete ones. */
import { useState } from "preact/hooks";
import type { Variable } from "../bundle";
import type { Model } from "../model";
import { change, view } from "../state";
import { explains } from "../text";
import { Fold } from "../ui/fold";
import { Classes } from "./classes";
import { Slider } from "./slider";
import "./sliders.css";

interface Props {
  model: Model;
  /** Variables that are shown at once; others are folded away. */
  most?: number;
}

export function Sliders({ model, most = Infinity }: Props) {
  const [open, setOpen] = useState(false);
  const used = model.active;
  const folded = used.slice(most);
  const unused = model.data.variables.filter((variable) => !variable.active);
  return (
    <div class="sliders">
      <Items model={model} items={nested(used.slice(0, most))} />
      {folded.length > 0 && (
        <Fold
          title={`${folded.length} more ${folded.length === 1 ? "variable" : "variables"}`}
          open={open}
          onToggle={setOpen}
        >
          <Items model={model} items={nested(folded)} />
        </Fold>
      )}
      {used.length > 0 && (folded.length === 0 || open) && <Key variables={used} />}
      {used.length === 0 && (
        <p class="help">No latent variable carries information about the data.</p>
      )}
      {unused.length > 0 && (
        <Fold
          title={`${unused.length} unused ${unused.length === 1 ? "variable" : "variables"}`}
          open={view.value.unused}
          onToggle={(unused) => change({ unused })}
        >
          <Items model={model} items={nested(unused)} />
        </Fold>
      )}
    </div>
  );
}

/** What the marks and numbers beside a slider are, with the first ones that are shown. */
function Key({ variables }: { variables: readonly Variable[] }) {
  const [first] = variables;
  const explaining =
    variables.find(({ aboveChance }) => aboveChance) ??
    variables.find(({ factor }) => factor !== null);
  return (
    <ul class="slider-key" aria-label="Key of the sliders">
      {variables.some(({ discrete }) => !discrete) && (
        <li>
          <i class="density" /> codes of the data <i class="observed" /> this observation
        </li>
      )}
      {variables.some(({ discrete }) => discrete) && (
        <li>Under a class: its share of the data, with a mark at that of the prior</li>
      )}
      <li>
        {natsOf(first!)}: KL of its posteriors from the prior, an upper bound on the information
        that it carries
      </li>
      {explaining && (
        <li>
          {explains(explaining)}: the factor that it explains best; <span class="weak">grey</span>{" "}
          if not above chance
        </li>
      )}
    </ul>
  );
}

function natsOf({ kl }: Variable): string {
  return `${kl.toFixed(2)} nats`;
}

/** A variable, or a group of the latent tree with what is in it. */
export type Item = Variable | { group: string; items: Item[] };

/** Variables in the groups of the latent tree, in the order of the first of each group. */
export function nested(variables: readonly Variable[], depth = 0): Item[] {
  const items: Item[] = [];
  const groups = new Map<string, Variable[]>();
  for (const variable of variables) {
    const group = variable.groups[depth];
    if (group === undefined) items.push(variable);
    else if (groups.has(group)) groups.get(group)!.push(variable);
    else {
      const members = [variable];
      groups.set(group, members);
      items.push({ group, items: [] });
    }
  }
  return items.map((item) =>
    "group" in item ? { ...item, items: nested(groups.get(item.group)!, depth + 1) } : item,
  );
}

function Items({ model, items }: { model: Model; items: readonly Item[] }) {
  return (
    <>
      {items.map((item) =>
        "group" in item ? (
          <fieldset key={`group ${item.group}`} class="group">
            <legend>
              <bdi>{item.group}</bdi>
            </legend>
            <Items model={model} items={item.items} />
          </fieldset>
        ) : (
          <Control key={item.number} model={model} variable={item} />
        ),
      )}
    </>
  );
}

function Control({ model, variable }: { model: Model; variable: Variable }) {
  return (
    <div class="control" data-variable={variable.number}>
      <div class="about">
        <VariableName variable={variable} />
        <span
          class="kl"
          title="Mean KL of its posteriors from the prior, an upper bound on the information that it carries"
        >
          {natsOf(variable)}
        </span>
      </div>
      {variable.discrete ? (
        <Classes model={model} variable={variable} />
      ) : (
        variable.quantiles.map((quantiles, n) => (
          <Slider
            key={n}
            model={model}
            variable={variable}
            column={variable.columns[0] + n}
            quantiles={quantiles}
          />
        ))
      )}
    </div>
  );
}

/** The name of a variable, and the factor that it explains best. */
export function VariableName({ variable }: { variable: Variable }) {
  return (
    <>
      <bdi class="name">{variable.name}</bdi>
      {variable.factor !== null && (
        <span
          class={variable.aboveChance ? "factor" : "factor weak"}
          title={`The factor that this variable explains best${variable.aboveChance ? "" : ", which is not above chance"}`}
        >
          {explains(variable)}
        </span>
      )}
    </>
  );
}
