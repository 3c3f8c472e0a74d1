/**
 * Bring 8-bit images to a model's size as Python's loader does: Pillow's bilinear filter, which
 * averages over the area of a target pixel, applied to the largest centred crop. Pillow rounds to
 * bytes between the two directions, whose order depends on its version and the size, so that a pixel
 * may differ by one of 255 levels.
 */

/** Pixels of all channels, channel by channel. */
export interface Pixels {
  width: number;
  height: number;
  channels: Uint8Array[];
}

/** Left, top, right and bottom. */
type Box = [number, number, number, number];

/** The largest centred part of an image that has the shape of the target. */
export function centred(width: number, height: number, toWidth: number, toHeight: number): Box {
  const ratio = toWidth / toHeight;
  const [w, h] = width / height >= ratio ? [ratio * height, height] : [width, width / ratio];
  const [left, top] = [(width - w) / 2, (height - h) / 2];
  return [left, top, left + w, top + h];
}

export function fit(image: Pixels, width: number, height: number): Pixels {
  if (image.width === width && image.height === height) return image;
  const [left, top, right, bottom] = centred(image.width, image.height, width, height).map(
    Math.fround,
  ) as Box;
  const across = weights(image.width, left, right, width);
  const down = weights(image.height, top, bottom, height);
  const channels = image.channels.map((channel) => {
    const narrow = resizeRows(channel, image.width, image.height, across);
    const turned = transpose(narrow, width, image.height);
    return transpose(resizeRows(turned, image.height, width, down), height, width);
  });
  return { width, height, channels };
}

interface Weights {
  first: number;
  values: number[];
}

const BITS = 2 ** 22; // Pillow's weights of 8-bit images have 22 bits

/** The weights of source pixels for each target pixel, as integers that sum to about 2^22. */
function weights(length: number, from: number, to: number, target: number): Weights[] {
  const scale = Math.fround(to - from) / target; // Pillow has boxes in single precision
  const support = Math.max(scale, 1);
  return Array.from({ length: target }, (_, n) => {
    const centre = from + (n + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - support + 0.5));
    const end = Math.min(length, Math.trunc(centre + support + 0.5));
    const raw = Array.from({ length: end - first }, (_, i) =>
      triangle((first + i - centre + 0.5) / support),
    );
    const sum = raw.reduce((total, weight) => total + weight, 0);
    return { first, values: raw.map((weight) => Math.trunc(0.5 + (weight / sum) * BITS)) };
  });
}

function triangle(distance: number): number {
  return Math.max(0, 1 - Math.abs(distance));
}

function resizeRows(
  pixels: Uint8Array,
  width: number,
  height: number,
  targets: readonly Weights[],
): Uint8Array {
  const resized = new Uint8Array(height * targets.length);
  for (let row = 0; row < height; row++) {
    targets.forEach(({ first, values }, n) => {
      let sum = BITS / 2;
      for (let i = 0; i < values.length; i++) sum += pixels[row * width + first + i]! * values[i]!;
      resized[row * targets.length + n] = Math.min(255, Math.floor(sum / BITS));
    });
  }
  return resized;
}

function transpose(pixels: Uint8Array, width: number, height: number): Uint8Array {
  const turned = new Uint8Array(pixels.length);
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++)
      turned[column * height + row] = pixels[row * width + column]!;
  }
  return turned;
}

/** Split RGBA into 1 (grey, as Pillow weights colours), 3 or 4 channels. */
export function channelsOf(rgba: Uint8ClampedArray, count: number): Uint8Array[] {
  const pixels = rgba.length / 4;
  const channels = Array.from({ length: count }, () => new Uint8Array(pixels));
  for (let n = 0; n < pixels; n++) {
    const [r, g, b] = [rgba[4 * n]!, rgba[4 * n + 1]!, rgba[4 * n + 2]!];
    if (count === 1) channels[0]![n] = (19595 * r + 38470 * g + 7471 * b + 32768) >> 16;
    else channels.forEach((channel, c) => (channel[n] = rgba[4 * n + c]!));
  }
  return channels;
}
