import { describe, expect, it } from "vitest";
import type { ImageObservation, VectorObservation } from "../src/bundle";
import { numbersOf, readTable } from "../src/upload/csv";
import { readNpy } from "../src/upload/npy";
import { toNetwork } from "../src/units";
import { observationsOf, readFile } from "../src/upload/read";
import { centred, channelsOf, fit } from "../src/upload/resize";

/** The byte at place n of the images that Pillow resized for these tests. */
const byte = (n: number) => (n * 7919 + ((n * n) % 251) * 13) % 256;

function image(width: number, height: number, channels: number) {
  const pixels = Array.from({ length: channels }, (_, c) =>
    Uint8Array.from({ length: width * height }, (_, n) => byte(n * channels + c)),
  );
  return { width, height, channels: pixels };
}

describe("resizing", () => {
  // Pillow 13: ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
  it.each([
    [
      9,
      6,
      3,
      4,
      4,
      [
        91, 125, 120, 123, 84, 80, 134, 129, 110, 106, 153, 124, 122, 82, 95, 121, 83, 102, 113,
        114, 107, 147, 103, 77, 50, 103, 102, 105, 98, 75, 127, 173, 199, 69, 92, 116, 157, 106,
        113, 128, 69, 108, 194, 89, 117, 107, 176, 114,
      ],
    ],
    [5, 7, 1, 3, 2, [113, 130, 101, 75, 133, 120]],
    [
      3,
      3,
      1,
      5,
      4,
      [7, 101, 241, 121, 40, 46, 97, 174, 174, 173, 79, 88, 100, 174, 223, 106, 71, 19, 122, 190],
    ],
  ])(
    "of %i x %i pixels with %i channels equals Pillow's to one level",
    (width, height, channels, toWidth, toHeight, expected) => {
      const resized = fit(image(width, height, channels), toWidth, toHeight);
      const differences = resized.channels
        .flatMap((channel) => Array.from(channel))
        .map((x, n) => Math.abs(x - expected[n]!));
      expect(differences).toHaveLength(expected.length);
      expect(Math.max(...differences)).toBeLessThanOrEqual(1);
      expect(differences.filter(Boolean).length).toBeLessThanOrEqual(1);
    },
  );

  it("crops the centre", () => {
    expect(centred(10, 4, 2, 2)).toEqual([3, 0, 7, 4]);
    expect(centred(4, 10, 2, 1)).toEqual([0, 4, 4, 6]);
  });

  it("keeps an image that has the size", () => {
    const same = image(4, 4, 3);
    expect(fit(same, 4, 4)).toBe(same);
  });
});

it("colours become grey as in Pillow", () => {
  const { channels } = image(4, 2, 3);
  const rgba = new Uint8ClampedArray(32).fill(255);
  channels.forEach((channel, c) => channel.forEach((value, n) => (rgba[4 * n + c] = value)));
  expect(Array.from(channelsOf(rgba, 1)[0]!)).toEqual([150, 129, 57, 114, 148, 85, 95, 100]);
  expect(channelsOf(rgba, 3).map((channel) => Array.from(channel))).toEqual(
    channels.map((channel) => Array.from(channel)),
  );
});

function npy(
  descr: string,
  shape: string,
  content: ArrayBuffer,
  order = "False",
): Uint8Array<ArrayBuffer> {
  const header = `{'descr': '${descr}', 'fortran_order': ${order}, 'shape': (${shape}), }\n`;
  const bytes = new Uint8Array(10 + header.length + content.byteLength);
  bytes.set([0x93, 78, 85, 77, 80, 89, 1, 0, header.length & 255, header.length >> 8]);
  bytes.set(new TextEncoder().encode(header), 10);
  bytes.set(new Uint8Array(content), 10 + header.length);
  return bytes;
}

const GREY: ImageObservation = {
  kind: "image",
  channels: 1,
  height: 2,
  width: 2,
  channelNames: [],
  pixels: true,
  colours: { low: [0], high: [1], colours: [[1, 1, 1]], diverging: false, alpha: false },
  units: { scale: [1], shift: [0], clip: false },
};
const COLUMNS: VectorObservation = {
  kind: "vector",
  length: 3,
  names: ["a", "b", "c"],
  positions: null,
  curve: false,
  counts: false,
  units: { scale: [2, 4, 5], shift: [1, 0, -1], clip: false },
};
const file = (name: string, content: BlobPart) => new File([content], name);

describe("NumPy files", () => {
  it("of every type hold the numbers that were saved", () => {
    expect(
      Array.from(readNpy(npy("<f8", "2,", new Float64Array([1.5, -2]).buffer)).values),
    ).toEqual([1.5, -2]);
    expect(Array.from(readNpy(npy("<f4", "2,", new Float32Array([0.5, 3]).buffer)).values)).toEqual(
      [0.5, 3],
    );
    expect(
      Array.from(readNpy(npy("<u2", "2,", new Uint16Array([65535, 1]).buffer)).values),
    ).toEqual([65535, 1]);
    expect(readNpy(npy("|u1", "1, 2", new Uint8Array([7, 8]).buffer)).shape).toEqual([1, 2]);
  });

  it("that cannot be read say why", () => {
    expect(() => readNpy(npy("<f8", "3,", new Float64Array(2).buffer))).toThrow("cut off");
    expect(() => readNpy(npy("<c8", "1,", new Float64Array(1).buffer))).toThrow("<c8");
    expect(() => readNpy(npy("<f8", "2, 2", new Float64Array(4).buffer, "True"))).toThrow(
      "Fortran",
    );
    expect(() => readNpy(new TextEncoder().encode("a,b,c,d,e,f,g"))).toThrow("not a NumPy file");
  });

  it("may have channels first or last, and several rows", () => {
    const seen = { ...GREY, channels: 3, height: 1 };
    const first = { dtype: "<f8", shape: [3, 1, 2], values: Float64Array.from([0, 1, 2, 3, 4, 5]) };
    const last = {
      dtype: "<f8",
      shape: [1, 1, 2, 3],
      values: Float64Array.from([0, 2, 4, 1, 3, 5]),
    };
    expect(observationsOf(first, seen)).toEqual([first.values]);
    expect(observationsOf(last, seen)).toEqual([first.values]);
    expect(observationsOf({ ...first, shape: [2, 3], values: first.values }, COLUMNS)).toHaveLength(
      2,
    );
    expect(() => observationsOf({ ...first, shape: [6, 1] }, seen)).toThrow("3 × 1 × 2");
  });

  it("of bytes become shares of 255, and other values must be from 0 to 1", async () => {
    const [read] = await readFile(
      file("a.npy", npy("|u1", "2, 2", new Uint8Array([0, 51, 102, 255]).buffer)),
      GREY,
    );
    expect(Array.from(read!.numbers)).toEqual([0, 0.2, 0.4, 1]);
    const wrong = file("a.npy", npy("<f8", "2, 2", new Float64Array([0, 1, 2, 3]).buffer));
    await expect(readFile(wrong, GREY)).rejects.toThrow("from 0 to 3");
  });
});

describe("CSV files", () => {
  it("give columns by name in any order, or by place", () => {
    const numbers = (text: string, names = ["a", "b", "c"]) =>
      numbersOf(readTable(text, names), 3, names);
    expect(numbers('c,"x, y",a,b\r\n3,9,1,2\r\n')).toEqual([[1, 2, 3]]);
    expect(numbers("1;2;3\n4;5;6")).toEqual([
      [1, 2, 3],
      [4, 5, 6],
    ]);
    expect(numbers("p\tq\tr\n1\t-2e3\t.5")).toEqual([[1, -2000, 0.5]]);
    expect(numbers("410,400,405\n3,1,2", ["400.0", "405.0", "410.0"])).toEqual([[1, 2, 3]]);
  });

  it("that do not fit say why", () => {
    expect(() => numbersOf(readTable("a,b\n1,2", ["a", "b", "c"]), 3, ["a", "b", "c"])).toThrow(
      "without c",
    );
    expect(() => numbersOf(readTable("a,b,c\n1,,3", ["a", "b", "c"]), 3, ["a", "b", "c"])).toThrow(
      "column b",
    );
    expect(() => readTable("\n", [])).toThrow("empty");
  });

  it("become values as the network has them", async () => {
    const [read] = await readFile(file("a.csv", "a,b,c\n5,8,-1"), COLUMNS);
    expect(Array.from(toNetwork(COLUMNS, read!.numbers))).toEqual([2, 2, 0]);
  });
});

it("units of images are those of their channels", () => {
  const seen = {
    ...GREY,
    channels: 2,
    height: 1,
    units: { scale: [1, 10], shift: [0, 5], clip: false },
  };
  expect(Array.from(toNetwork(seen, [1, 2, 15, 25]))).toEqual([1, 2, 1, 2]);
});

it("images of measured values are refused with a reason", async () => {
  await expect(readFile(file("a.png", "x"), { ...GREY, pixels: false })).rejects.toThrow(".npy");
  await expect(readFile(file("a.png", "x"), COLUMNS)).rejects.toThrow(".csv");
});
