import { render } from "preact";
import { expect, it, vi } from "vitest";
import { useCanvas } from "../../src/panels/data/camera";
import { cloudOf } from "../../src/panels/data/cloud";
import { colouring, lookOf } from "../../src/panels/data/colouring";
import { createRenderer } from "../../src/scatter/renderer";
import { eventually, smallModel } from "../fixture";

const renderer = { place: vi.fn(), style: vi.fn(), draw: vi.fn(), dispose: vi.fn() };
vi.mock(import("../../src/scatter/renderer"), async (original) => ({
  ...(await original()),
  createRenderer: vi.fn(() => ({ ...renderer })),
}));

const model = await smallModel();
const cloud = cloudOf(model, "z:0", "z:1");
const look = lookOf(colouring(null), cloud.rows, model.data.rows.count, null);

function Points() {
  return <canvas ref={useCanvas(cloud, look, cloud.points.whole, { width: 10, height: 10 })} />;
}

it("a restored context is used again, and given back only with the canvas", async () => {
  const page = document.createElement("div");
  render(<Points />, page);
  const canvas = page.querySelector("canvas")!;
  await eventually(() => expect(renderer.draw).toHaveBeenCalledTimes(1));
  canvas.dispatchEvent(new Event("webglcontextlost", { cancelable: true }));
  canvas.dispatchEvent(new Event("webglcontextrestored"));
  await eventually(() => expect(renderer.draw).toHaveBeenCalledTimes(2));
  expect(createRenderer).toHaveBeenCalledTimes(2);
  expect(renderer.dispose).not.toHaveBeenCalled();
  render(null, page);
  expect(renderer.dispose).toHaveBeenCalledOnce();
  canvas.dispatchEvent(new Event("webglcontextrestored"));
  expect(createRenderer).toHaveBeenCalledTimes(2);
});
