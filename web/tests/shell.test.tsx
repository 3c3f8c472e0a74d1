import { render } from "preact";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { currentLink } from "../src/link";
import { recall } from "../src/memory";
import { allowSingleKeys, press } from "../src/shortcuts";
import { change, decode, DEFAULTS, follow, manifest, undo, view } from "../src/state";
import { chooseTheme, shade, startTheme } from "../src/theme";
import { Footer } from "../src/ui/footer";
import { placeAfter, Tabs } from "../src/ui/tabs";
import { beside } from "../src/ui/tour";
import { smallModel } from "./fixture";

beforeEach(() => {
  view.value = DEFAULTS;
  render(null, document.body);
});

describe("tabs", () => {
  const tabs = ["a", "b", "c"].map((id) => ({ id, name: id }));
  const draw = (shown: string, onChoose = vi.fn()) => {
    render(
      <Tabs tabs={tabs} shown={shown} onChoose={onChoose}>
        content
      </Tabs>,
      document.body,
    );
    return onChoose;
  };

  it("go round with the arrow keys", () => {
    expect([0, 1, 2].map((n) => placeAfter("ArrowRight", n, 3))).toEqual([1, 2, 0]);
    expect([0, 1, 2].map((n) => placeAfter("ArrowLeft", n, 3))).toEqual([2, 0, 1]);
    expect([placeAfter("Home", 1, 3), placeAfter("End", 1, 3), placeAfter("x", 1, 3)]).toEqual([
      0, 2, -1,
    ]);
  });

  it("have one stop for the Tab key", () => {
    draw("b");
    const stops = Array.from(document.querySelectorAll("[role=tab]"), (tab) =>
      tab.getAttribute("tabindex"),
    );
    expect(stops).toEqual(["-1", "0", "-1"]);
  });

  it("choose and focus what a key goes to", () => {
    const onChoose = draw("c");
    document
      .querySelector("[role=tablist]")!
      .dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    expect(onChoose).toHaveBeenCalledWith("a");
    expect(document.activeElement?.id).toBe("tab-a");
  });
});

describe("keys", () => {
  const actions = { openTab: vi.fn(), showKeys: vi.fn() };
  const key = (key: string, more: KeyboardEventInit = {}, target?: HTMLElement) => {
    const event = new KeyboardEvent("keydown", { key, bubbles: true, ...more });
    if (target) Object.defineProperty(event, "target", { value: target });
    return press(event, actions);
  };

  it("undo and redo", () => {
    change({ tab: "data" });
    expect(key("z", { ctrlKey: true })).toBe(true);
    expect(view.value.tab).toBe("traversals");
    key("Z", { ctrlKey: true, shiftKey: true });
    expect(view.value.tab).toBe("data");
    undo();
    key("y", { ctrlKey: true });
    expect(view.value.tab).toBe("data");
  });

  it("open tabs and the list of keys", () => {
    key("4");
    expect(actions.openTab).toHaveBeenLastCalledWith(3);
    key("?");
    expect(actions.showKeys).toHaveBeenCalledOnce();
    expect(key("a")).toBe(false);
  });

  it("do nothing behind a dialog, and single keys can be turned off for good", () => {
    const dialog = document.body.appendChild(document.createElement("dialog"));
    dialog.setAttribute("open", "");
    expect([key("1"), key("z", { ctrlKey: true })]).toEqual([false, false]);
    dialog.remove();
    allowSingleKeys(false);
    expect([key("1"), key("?"), key("z", { ctrlKey: true })]).toEqual([false, false, true]);
    expect(recall("unweave-single-keys")).toBe("off");
    allowSingleKeys(true);
    expect(key("1")).toBe(true);
  });

  it("are text where one types", () => {
    const field = Object.assign(document.createElement("input"), { type: "search" });
    const slider = Object.assign(document.createElement("input"), { type: "range" });
    expect(key("z", { ctrlKey: true }, field)).toBe(false);
    expect(key("1", {}, field)).toBe(false);
    expect(key("1", {}, slider)).toBe(true);
  });
});

describe("the link", () => {
  it("holds the view of this moment", () => {
    change({ tab: "factors", z: [1, 2] });
    expect(decode(new URL(currentLink()).hash)).toEqual(view.value);
  });

  it("is followed when it is put into the address bar, and that can be undone", () => {
    manifest.value = { ...manifest.value, open: ["page"] };
    follow('#tab="grid"&open=["gone"]');
    expect(view.value).toEqual({ ...DEFAULTS, tab: "grid", open: ["page"] });
    undo();
    expect(view.value).toEqual(DEFAULTS);
  });
});

describe("the theme", () => {
  it("follows the system until the user chooses", () => {
    const listeners: ((event: { matches: boolean }) => void)[] = [];
    const system = {
      matches: true,
      addEventListener: (_: string, listen: (typeof listeners)[0]) => listeners.push(listen),
    };
    vi.stubGlobal("matchMedia", () => system);
    startTheme();
    expect(document.documentElement.dataset["theme"]).toBe("dark");
    listeners[0]!({ matches: false });
    expect(shade.value).toBe("light");
    chooseTheme("dark");
    expect(document.documentElement.dataset["theme"]).toBe("dark");
    chooseTheme("system");
    expect(shade.value).toBe("light");
    vi.unstubAllGlobals();
  });

  it("can be chosen where nothing can be remembered", () => {
    vi.stubGlobal("localStorage", {
      setItem: () => {
        throw new Error("refused");
      },
    });
    chooseTheme("dark");
    expect(shade.value).toBe("dark");
    vi.unstubAllGlobals();
  });
});

describe("the card of the tour", () => {
  const screen = { width: 1400, height: 900 };
  const card = { width: 340, height: 160 };

  it("lies on the screen and not on what it points at", () => {
    for (const target of [
      { left: 0, top: 0, width: 300, height: 880 },
      { left: 900, top: 700, width: 480, height: 190 },
      { left: 300, top: 10, width: 1090, height: 40 },
    ]) {
      const { left, top } = beside(target, card, screen);
      expect(left).toBeGreaterThanOrEqual(0);
      expect(left + card.width).toBeLessThanOrEqual(screen.width);
      expect(top + card.height).toBeLessThanOrEqual(screen.height);
      const apart =
        left >= target.left + target.width ||
        left + card.width <= target.left ||
        top >= target.top + target.height ||
        top + card.height <= target.top;
      expect(apart).toBe(true);
    }
  });

  it("of a small screen hides nothing of a target at one end that leaves room for it", () => {
    const small = { width: 390, height: 844 };
    for (let height = 20; height <= small.height - card.height - 24; height += 40) {
      for (const at of [0, 10, small.height - height - 10, small.height - height]) {
        const { top } = beside({ left: 12, top: at, width: 366, height }, card, small);
        expect(top >= at + height || top + card.height <= at).toBe(true);
        expect([top >= 0, top + card.height <= small.height]).toEqual([true, true]);
      }
    }
  });

  it("lies in the corner if there is no room beside it", () => {
    const place = beside({ left: 0, top: 0, width: 390, height: 900 }, card, {
      width: 390,
      height: 844,
    });
    expect(place).toEqual({ left: 38, top: 672 });
  });
});

describe("the foot of the page", () => {
  it("shows hostile names as text", async () => {
    const model = await smallModel();
    model.data.name = '<img src=x onerror="alert(1)">\u202E';
    render(<Footer model={model} />, document.body);
    expect(document.querySelector("img")).toBeNull();
    expect(document.querySelector("bdi")!.textContent).toBe(model.data.name);
  });
});
