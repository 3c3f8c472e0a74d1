/** Colours of images, differences and points. */
import type { ColourMap } from "./bundle";

export type Rgb = [number, number, number];

/** Blue, white, red: for differences, and for channels around a middle. */
export function diverging(share: number): Rgb {
  const t = Math.min(Math.max(share, 0), 1);
  const [a, b, s]: [Rgb, Rgb, number] =
    t < 0.5 ? [[5, 84, 140], [250, 250, 250], t * 2] : [[250, 250, 250], [190, 60, 10], t * 2 - 1];
  return [0, 1, 2].map((n) => a[n]! + (b[n]! - a[n]!) * s) as Rgb;
}

/** Write the pixels of an image (channels, height, width) as RGBA. */
export function paint(
  values: Float32Array,
  pixels: number,
  map: ColourMap,
  rgba: Uint8ClampedArray,
): void {
  const channels = map.low.length;
  const shares = new Array<number>(channels);
  for (let pixel = 0; pixel < pixels; pixel++) {
    for (let channel = 0; channel < channels; channel++) {
      const from = map.low[channel]!;
      const share = (values[channel * pixels + pixel]! - from) / (map.high[channel]! - from);
      shares[channel] = Math.min(Math.max(share, 0), 1);
    }
    const colour = map.diverging ? between(map.colours, shares[0]!) : mixed(map.colours, shares);
    for (let band = 0; band < 3; band++) rgba[pixel * 4 + band] = 255 * colour[band]!;
    rgba[pixel * 4 + 3] = map.alpha ? 255 * shares[channels - 1]! : 255;
  }
}

function mixed(colours: readonly Rgb[], shares: readonly number[]): Rgb {
  const sum: Rgb = [0, 0, 0];
  colours.forEach((colour, channel) => {
    for (let band = 0; band < 3; band++) sum[band as 0 | 1 | 2] += shares[channel]! * colour[band]!;
  });
  return sum;
}

/** The colour at a share of the way from the first over the second to the third. */
function between(colours: readonly Rgb[], share: number): Rgb {
  const [from, to, s] = share < 0.5 ? [colours[0]!, colours[1]!, share * 2] : [colours[1]!, colours[2]!, share * 2 - 1];
  return from.map((value, band) => value + (to[band]! - value) * s) as Rgb;
}

/** From blue over grey to orange: for curves, on light and dark pages. */
export function scoreColour(share: number): string {
  const [from, to] = [[26, 134, 200], [224, 112, 34]];
  const mix = from!.map((value, band) => Math.round(value + (to![band]! - value) * share));
  return `rgb(${mix.join(" ")})`;
}
