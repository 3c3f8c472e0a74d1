/** One observation: an image on a canvas, or a vector as a curve or bars. */
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ColourMap, ImageObservation } from "../bundle";
import { diverging, paint, type Rgb } from "../colours";
import type { Model } from "../model";
import { inUnits } from "../units";
import { VectorChart, type Series } from "./vector";

interface Props {
  model: Model;
  /** The numbers of one observation, as the network has them. */
  values: Float32Array;
  /** Draw values minus these instead: from blue over white to red, or the colours around grey. */
  minus?: Float32Array | undefined;
  /** The observation to draw behind a vector, in the user's units. */
  behind?: ArrayLike<number> | null | undefined;
  label: string;
}

export function Observation({ model, values, minus, behind, label }: Props) {
  const seen = model.data.observation;
  if (seen.kind === "image")
    return <Picture seen={seen} values={values} minus={minus} label={label} />;
  const main = inUnits(seen, values);
  const before = minus && inUnits(seen, minus);
  const series: Series[] = [
    before
      ? { name: "change", values: main.map((value, n) => value - before[n]!), role: "main" }
      : { name: "decoded", values: main, role: "main" },
  ];
  if (behind && !before) series.push({ name: "observed", values: behind, role: "behind" });
  return (
    <VectorChart
      model={model}
      seen={seen}
      series={series}
      label={label}
      difference={Boolean(before)}
    />
  );
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
    <canvas
      ref={canvas}
      class="picture"
      width={seen.width}
      height={seen.height}
      {...described(label)}
    />
  );
}

/** What screen readers say of a drawing; without a label, they read only what is around it. */
export function described(label: string) {
  return label
    ? ({ role: "img", "aria-label": label } as const)
    : ({ "aria-hidden": "true" } as const);
}

/** The pixels of an image, or of the difference of two. */
export function imageData(
  seen: ImageObservation,
  values: Float32Array,
  minus?: Float32Array,
): ImageData {
  const { width, height } = seen;
  const data = new ImageData(width, height);
  if (minus) paintDifference(seen, values, minus, data.data);
  else paint(values, width * height, seen.colours, data.data);
  return data;
}

/** The change of every pixel; full colours are half the range. */
function paintDifference(
  { width, height, colours }: ImageObservation,
  values: Float32Array,
  minus: Float32Array,
  rgba: Uint8ClampedArray,
): void {
  const pixels = width * height;
  const count = colourChannels(colours);
  const change = (channel: number, pixel: number): number => {
    const at = channel * pixels + pixel;
    return (values[at]! - minus[at]!) / (colours.high[channel]! - colours.low[channel]!);
  };
  for (let pixel = 0; pixel < pixels; pixel++) {
    const changes = Array.from({ length: count }, (_, channel) => change(channel, pixel));
    const rgb = count === 1 ? diverging(0.5 + changes[0]!) : aroundGrey(colours, changes);
    rgba.set([...rgb, 255], pixel * 4);
  }
}

/** Channels that are seen as colours: all but the opacity. */
export function colourChannels({ low, alpha }: ColourMap): number {
  return low.length - (alpha ? 1 : 0);
}

/** Changes of channels in their own colours: grey is none. A sum over channels would hide that one
 * colour became another. */
function aroundGrey({ colours }: ColourMap, changes: readonly number[]): Rgb {
  const sum = (band: number) =>
    changes.reduce((all, change, channel) => all + change * colours[channel]![band]!, 0.5);
  return [255 * sum(0), 255 * sum(1), 255 * sum(2)];
}
