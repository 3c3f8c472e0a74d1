/** One observation: an image on a canvas, or a vector as a curve or bars. */
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ColourMap, ImageObservation } from "../bundle";
import { diverging, paint } from "../colours";
import type { Model } from "../model";
import { inUnits } from "../units";
import { VectorChart, type Series } from "./vector";

interface Props {
  model: Model;
  /** The numbers of one observation, as the network has them. */
  values: Float32Array;
  /** Draw values minus these instead, from blue over white to red. */
  minus?: Float32Array | undefined;
  /** The observation to draw behind a vector, in the user's units. */
  behind?: ArrayLike<number> | null | undefined;
  label: string;
}

export function Observation({ model, values, minus, behind, label }: Props) {
  const seen = model.data.observation;
  if (seen.kind === "image") return <Picture seen={seen} values={values} minus={minus} label={label} />;
  const main = inUnits(seen, values);
  const before = minus && inUnits(seen, minus);
  const series: Series[] = [
    before
      ? { name: "change", values: main.map((value, n) => value - before[n]!), role: "main" }
      : { name: "decoded", values: main, role: "main" },
  ];
  if (behind && !before) series.push({ name: "observed", values: behind, role: "behind" });
  return <VectorChart model={model} seen={seen} series={series} label={label} difference={Boolean(before)} />;
}

interface PictureProps {
  seen: ImageObservation;
  values: Float32Array;
  minus: Float32Array | undefined;
  label: string;
}

function Picture({ seen, values, minus, label }: PictureProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const context = canvas.current!.getContext("2d")!;
    context.putImageData(imageData(seen, values, minus), 0, 0);
  }, [seen, values, minus]);
  return (
    <canvas ref={canvas} class="picture" width={seen.width} height={seen.height} {...described(label)} />
  );
}

/** How a drawing is told to screen readers; without a label, what is around it tells more. */
export function described(label: string) {
  return label ? ({ role: "img", "aria-label": label } as const) : ({ "aria-hidden": "true" } as const);
}

/** The pixels of an image, or of the difference of two. */
export function imageData(seen: ImageObservation, values: Float32Array, minus?: Float32Array): ImageData {
  const { width, height } = seen;
  const data = new ImageData(width, height);
  if (minus) paintDifference(seen, values, minus, data.data);
  else paint(values, width * height, seen.colours, data.data);
  return data;
}

/** The change of brightness of every pixel: white is none, and full blue and red half the range. */
function paintDifference(
  seen: ImageObservation,
  values: Float32Array,
  minus: Float32Array,
  rgba: Uint8ClampedArray,
): void {
  const pixels = seen.width * seen.height;
  for (let pixel = 0; pixel < pixels; pixel++) {
    const change = brightnessChange(seen.colours, values, minus, pixel, pixels);
    rgba.set([...diverging(0.5 + change), 255], pixel * 4);
  }
}

function brightnessChange(
  map: ColourMap,
  values: Float32Array,
  minus: Float32Array,
  pixel: number,
  pixels: number,
): number {
  const channels = map.low.length;
  let sum = 0;
  for (let channel = 0; channel < channels; channel++) {
    const at = channel * pixels + pixel;
    sum += (values[at]! - minus[at]!) / (map.high[channel]! - map.low[channel]!);
  }
  return sum / channels;
}
