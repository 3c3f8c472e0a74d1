import { expect, it } from "vitest";
import { fromText } from "../src/source";

const WRITTEN: [string, number[]][] = [
  ["", []],
  ["  ", [0]],
  ["m#", [255]],
  ["^': ", [1, 2, 3]],
  ["drgO?}['", [250, 251, 252, 253, 254, 255]],
  [
    "!Pn#/Pi!i559')ig=#27",
    [0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240],
  ],
];

it("reads bytes as Python writes them", () => {
  for (const [text, bytes] of WRITTEN) expect([...fromText(text)]).toEqual(bytes);
});
