/** The tab "Factors": latent variables against the known factors of the data, and the rate. */
import type { Model } from "../../model";
import { Panel } from "../../ui/panel";
import { Responses } from "./charts";
import { Matrix } from "./matrix";
import { RatePanel } from "./rate";
import "./factors.css";

export function Factors({ model }: { model: Model }) {
  return (
    <>
      {model.data.factors.length > 0 ? (
        <>
          <Matrix model={model} />
          <Responses model={model} />
        </>
      ) : (
        <Panel title="Factors">
          <p class="help">
            The data have no known factors, such as labels or measured properties, so there is
            nothing to compare the latent variables with. Add factors to the data to see which
            variable explains which factor.
          </p>
        </Panel>
      )}
      <RatePanel model={model} />
    </>
  );
}
