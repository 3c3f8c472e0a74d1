import { describe, expect, it, vi } from "vitest";
import { Gestures } from "../../src/scatter/gestures";

function hands() {
  const actions = {
    pan: vi.fn(),
    zoom: vi.fn(),
    hover: vi.fn(),
    click: vi.fn(),
    draw: vi.fn(),
    drawn: vi.fn(),
  };
  return { actions, gestures: new Gestures(actions) };
}

describe("gestures", () => {
  it("hover without a button", () => {
    const { actions, gestures } = hands();
    gestures.move(1, [5, 5]);
    expect(actions.hover).toHaveBeenCalledWith([5, 5]);
  });

  it("pan by what the pointer moves", () => {
    const { actions, gestures } = hands();
    gestures.down(1, [0, 0], false);
    gestures.move(1, [10, 4]);
    gestures.move(1, [13, 4]);
    gestures.up(1, [13, 4]);
    expect(actions.pan.mock.calls).toEqual([[[10, 4]], [[3, 0]]]);
    expect(actions.click).not.toHaveBeenCalled();
  });

  it("click if the pointer hardly moves", () => {
    const { actions, gestures } = hands();
    gestures.down(1, [0, 0], false);
    gestures.move(1, [1, 1]);
    gestures.up(1, [1, 1]);
    expect(actions.click).toHaveBeenCalledWith([1, 1]);
    expect(actions.pan).not.toHaveBeenCalled();
  });

  it.each([
    [true, false],
    [false, true],
  ])("draw with the shift key (%s) or the tool (%s)", (shift, tool) => {
    const { actions, gestures } = hands();
    gestures.lasso = tool;
    gestures.down(1, [0, 0], shift);
    gestures.move(1, [50, 0]);
    gestures.move(1, [50, 50]);
    gestures.up(1, [50, 50]);
    expect(actions.drawn).toHaveBeenCalledWith([
      [0, 0],
      [50, 0],
      [50, 50],
    ]);
    expect(actions.pan).not.toHaveBeenCalled();
  });

  it("zoom by the distance of two fingers, around the place between them", () => {
    const { actions, gestures } = hands();
    gestures.down(1, [0, 0], false);
    gestures.down(2, [100, 0], false);
    gestures.move(2, [200, 0]);
    expect(actions.zoom).toHaveBeenCalledWith(2, [100, 0]);
    gestures.up(2, [200, 0]);
    gestures.up(1, [0, 0]);
    expect(actions.click).not.toHaveBeenCalled();
  });
});
