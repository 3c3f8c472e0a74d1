/** Contours of q(z) and of the prior over the scatter. */
import { useMemo } from "preact/hooks";
import type { ArrayRef } from "../../bundle";
import type { Model } from "../../model";
import { isolated } from "../../text";
import { toScreen, type Box, type Size } from "../../scatter/camera";
import type { Cloud } from "./cloud";
import { densityLines, pathOf, type Line } from "./contours";

/** Why there are no contours, or "" if there are. */
export function whyNoContours(cloud: Cloud): string {
  const odd = [cloud.x, cloud.y].find((column) => column.dimension === null);
  if (odd)
    return `Contours need a continuous latent variable on both axes, and ${isolated(odd.name)} is not one.`;
  if (cloud.x.dimension === cloud.y.dimension)
    return "Contours need two different latent variables.";
  return "";
}

export function Density({
  model,
  cloud,
  box,
  size,
}: {
  model: Model;
  cloud: Cloud;
  box: Box;
  size: Size;
}) {
  const [posterior, prior] = useMemo(() => bothLines(model, cloud), [model, cloud]);
  const path = ({ rings }: Line) => pathOf(rings, (at) => toScreen(box, size, at));
  return (
    <g class="contour-lines">
      {prior.map((line) => (
        <path key={line.mass} class="prior" d={path(line)} />
      ))}
      {posterior.map((line) => (
        <path key={line.mass} class="posterior" d={path(line)} />
      ))}
    </g>
  );
}

/** Lines of q(z) and of p(z), each from samples: means of q(z|x) alone would be too narrow. */
export function bothLines(model: Model, { x, y }: Cloud): [Line[], Line[]] {
  const lines = (ref: ArrayRef) => {
    const samples = model.bundle.floats(ref);
    const column = (n: number) => samples.filter((_, at) => at % model.data.size === n);
    return densityLines(column(x.dimension!), column(y.dimension!));
  };
  return [lines(model.data.rows.sample), lines(model.data.prior)];
}

export function DensityKey() {
  return (
    <ul class="contour-key">
      <li>
        <svg width="34" height="10" class="contour-lines" aria-hidden="true">
          <line class="posterior" x1="0" x2="34" y1="5" y2="5" />
        </svg>
        q(z): samples of q(z|x) of the data
      </li>
      <li>
        <svg width="34" height="10" class="contour-lines" aria-hidden="true">
          <line class="prior" x1="0" x2="34" y1="5" y2="5" />
        </svg>
        p(z): samples of the prior
      </li>
      <li>The inner line holds 50% of the samples, the outer one 90%.</li>
    </ul>
  );
}
