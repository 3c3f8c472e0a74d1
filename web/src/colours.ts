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
  const { low, high, colours } = map;
  for (let pixel = 0; pixel < pixels; pixel++) {
    let [r, g, b] = [0, 0, 0];
    for (let channel = 0; channel < colours.length; channel++) {
      const from = low[channel]!;
      const share = (values[channel * pixels + pixel]! - from) / (high[channel]! - from);
      const [red, green, blue] = map.diverging ? diverging(share) : colours[channel]!;
      const weight = map.diverging ? 1 : Math.min(Math.max(share, 0), 1);
      r += weight * red;
      g += weight * green;
      b += weight * blue;
    }
    rgba.set([r, g, b, 255], pixel * 4);
  }
}
