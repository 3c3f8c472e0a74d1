/** One observation: an image on a canvas, or a vector as a curve or bars. */
import { scaleLinear } from "d3-scale";
import { line } from "d3-shape";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ColourMap, ImageObservation, VectorObservation } from "../bundle";
import { diverging, paint } from "../colours";
import type { Model } from "../model";

interface Props {
  model: Model;
  /** The numbers of one observation, as the network has them. */
  values: Float32Array;
  /** Draw values minus these instead, from blue over white to red. */
  minus?: Float32Array | undefined;
  label: string;
}

export function Observation({ model, values, minus, label }: Props) {
  const seen = model.data.observation;
  return seen.kind === "image" ? (
    <Picture seen={seen} values={values} minus={minus} label={label} />
  ) : (
    <Vector seen={seen} values={values} minus={minus} label={label} />
  );
}

interface PictureProps extends Omit<Props, "model"> {
  seen: ImageObservation;
}

function Picture({ seen, values, minus, label }: PictureProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const context = canvas.current!.getContext("2d")!;
    context.putImageData(imageData(seen, values, minus), 0, 0);
  }, [seen, values, minus]);
  return (
    <canvas ref={canvas} class="picture" width={seen.width} height={seen.height} role="img" aria-label={label} />
  );
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
  const channels = map.colours.length;
  let sum = 0;
  for (let channel = 0; channel < channels; channel++) {
    const at = channel * pixels + pixel;
    sum += (values[at]! - minus[at]!) / (map.high[channel]! - map.low[channel]!);
  }
  return sum / channels;
}

interface VectorProps extends Omit<Props, "model"> {
  seen: VectorObservation;
}

const WIDTH = 320;
const HEIGHT = 160;

/** Values in the user's units. */
export function inUnits(seen: VectorObservation, values: Float32Array): number[] {
  const { scale, shift } = seen.units;
  return Array.from(values, (x, n) => x * (scale[n] ?? scale[0]!) + (shift[n] ?? shift[0]!));
}

function Vector({ seen, values, minus, label }: VectorProps) {
  const shown = inUnits(seen, values);
  const before = minus ? inUnits(seen, minus) : null;
  const drawn = before ? shown.map((value, n) => value - before[n]!) : shown;
  const x = scaleLinear([0, drawn.length - 1], [4, WIDTH - 4]);
  const y = scaleLinear([Math.min(0, ...drawn), Math.max(0, ...drawn)], [HEIGHT - 4, 4]).nice();
  const at = (n: number) => (seen.positions ? positioned(seen.positions, n) : x(n));
  return (
    <svg class="vector" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      <line class="zero" x1={0} x2={WIDTH} y1={y(0)} y2={y(0)} />
      {seen.curve ? (
        <path class="curve" d={line<number>((_, n) => at(n), (value) => y(value))(drawn) ?? ""} />
      ) : (
        drawn.map((value, n) => (
          <rect
            class="bar"
            x={(WIDTH / drawn.length) * n}
            width={Math.max(WIDTH / drawn.length - 0.5, 0.3)}
            y={Math.min(y(0), y(value))}
            height={Math.abs(y(value) - y(0))}
          >
            <title>{`${seen.names[n]}: ${value.toPrecision(4)}`}</title>
          </rect>
        ))
      )}
    </svg>
  );
}

function positioned(positions: number[], n: number): number {
  const [first, last] = [positions[0]!, positions[positions.length - 1]!];
  return 4 + ((positions[n]! - first) / (last - first)) * (WIDTH - 8);
}
