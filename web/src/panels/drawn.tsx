/** Traversals that were drawn beforehand: shown until the decoder runs, or where it cannot. */
import { useEffect, useRef } from "preact/hooks";
import type { Drawn } from "../bundle";
import { scoreColour } from "../colours";
import type { Model } from "../model";
import { isolated } from "../text";
import { VectorChart, type Series } from "../ui/vector";
import { VariableName } from "./sliders";

export function DrawnTraversals({ model }: { model: Model }) {
  const isImage = model.data.observation.kind === "image";
  return (
    <div class={isImage ? "traversals drawn" : "traversals charts drawn"}>
      {model.data.drawn.map((drawn) => (
        <Traversal key={drawn.variable} model={model} drawn={drawn} />
      ))}
    </div>
  );
}

function Traversal({ model, drawn }: { model: Model; drawn: Drawn }) {
  const variable = model.variable(drawn.variable);
  const isImage = model.data.observation.kind === "image";
  return (
    <section class="traversal" aria-label={`Traversal of ${isolated(variable.name)}`}>
      <h3>
        <VariableName variable={variable} />
      </h3>
      {isImage ? (
        <Strip model={model} drawn={drawn} label={`Traversal of ${isolated(variable.name)}`} />
      ) : (
        <Curves model={model} drawn={drawn} />
      )}
    </section>
  );
}

interface StripProps {
  model: Model;
  drawn: Drawn;
  label: string;
}

function Strip({ model, drawn, label }: StripProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    void createImageBitmap(
      new Blob([model.bundle.file(drawn.picture)], { type: "image/png" }),
    ).then((picture) => {
      if (!canvas.current) return;
      [canvas.current.width, canvas.current.height] = [picture.width, picture.height];
      canvas.current.getContext("2d")!.drawImage(picture, 0, 0);
    });
  }, [model, drawn]);
  return <canvas ref={canvas} class="strip-picture" role="img" aria-label={label} />;
}

function Curves({ model, drawn }: { model: Model; drawn: Drawn }) {
  const seen = model.data.observation;
  if (seen.kind !== "vector") return null;
  const values = model.bundle.floats(drawn.picture);
  const steps = values.length / seen.length;
  const series: Series[] = Array.from({ length: steps }, (_, n) => ({
    name: `step ${n + 1}`,
    values: values.subarray(n * seen.length, (n + 1) * seen.length),
    role: "main",
    colour: scoreColour(steps > 1 ? n / (steps - 1) : 0.5),
  }));
  return (
    <VectorChart
      model={model}
      seen={seen}
      series={series}
      label={`Traversal of ${isolated(model.variable(drawn.variable).name)}`}
    />
  );
}
