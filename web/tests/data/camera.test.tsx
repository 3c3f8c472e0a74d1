import { render } from "preact";
import { beforeEach, expect, it } from "vitest";
import { useCamera, type Camera } from "../../src/panels/data/camera";
import { Data } from "../../src/panels/data/data";
import type { Box } from "../../src/scatter/camera";
import { DEFAULTS, models, redo, undo, view } from "../../src/state";
import { eventually, smallModel } from "../fixture";

const model = await smallModel();
const WHOLE: Box = { x: [0, 8], y: [0, 4] };
const CLOSER: Box = { x: [2, 6], y: [1, 3] };
let camera: Camera;

function Shown() {
  camera = useCamera(WHOLE, { width: 80, height: 40 });
  return <p>{camera.seen().x.join()}</p>;
}

beforeEach(() => {
  models.value = new Map([[model.id, model]]);
  view.value = { ...DEFAULTS, open: [model.id], tab: "data" };
});

it("follows undo and redo, which take one motion together", async () => {
  const page = document.createElement("div");
  render(<Shown />, page);
  camera.zoom(Math.SQRT2);
  camera.zoom(Math.SQRT2);
  await eventually(() => expect(view.value.box).toEqual([2, 6, 1, 3]));
  expect(camera.seen()).toEqual(CLOSER);
  undo();
  await eventually(() => expect(page.textContent).toBe("0,8"));
  expect(camera.seen()).toEqual(WHOLE);
  redo();
  await eventually(() => expect(page.textContent).toBe("2,6"));
  render(null, page);
});

it("leaves the wheel to the page unless a key is held or the plot has the focus", () => {
  const page = document.createElement("div");
  document.body.append(page);
  render(<Data model={model} />, page);
  const plot = page.querySelector<HTMLElement>("[data-testid=scatter]")!;
  // Wheel events of happy-dom have no keys.
  const isTaken = (keys: { ctrlKey?: boolean; metaKey?: boolean }) =>
    !plot.dispatchEvent(
      Object.assign(new WheelEvent("wheel", { deltaY: 9, cancelable: true }), keys),
    );
  expect([isTaken({}), isTaken({ ctrlKey: true }), isTaken({ metaKey: true })]).toEqual([
    false,
    true,
    true,
  ]);
  plot.focus();
  expect(isTaken({})).toBe(true);
  render(null, page);
});
