/** The decoded image of the current code, which follows the sliders. */
import { useDecoded } from "../decoded";
import type { Model } from "../model";
import { change, code, view } from "../state";
import { Observation } from "../ui/observation";
import { Others } from "./others";
import { Sliders } from "./sliders";

export function Stage({ model }: { model: Model }) {
  return (
    <aside class="stage" aria-label="Latent variables">
      <Current model={model} />
      <Others model={model} />
      <div class="tools">
        <button type="button" onClick={() => change({ z: null })} disabled={view.value.z === null}>
          Back to the observation
        </button>
        <button type="button" onClick={() => change({ z: null, row: randomRow(model) })}>
          Another observation
        </button>
      </div>
      <Sliders model={model} />
    </aside>
  );
}

function Current({ model }: { model: Model }) {
  const decoded = useDecoded(model, [code.value]);
  return (
    <figure class="current">
      {decoded ? (
        <Observation model={model} values={decoded.values} label="Decoded from the sliders" />
      ) : (
        <div class="waiting" role="status">Starting the decoder …</div>
      )}
    </figure>
  );
}

function randomRow(model: Model): number {
  return Math.floor(Math.random() * model.data.rows.count);
}
