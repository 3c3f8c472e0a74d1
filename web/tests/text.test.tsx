import { render } from "preact";
import { beforeAll, describe, expect, it } from "vitest";
import type { ImageObservation } from "../src/bundle";
import { massText } from "../src/panels/classes";
import { Stage } from "../src/panels/stage";
import { models, view } from "../src/state";
import { isolated, percent, rowName, shortened, thousands } from "../src/text";
import { ChannelKey, keyNames, rangeText } from "../src/ui/channels";
import { smallModel } from "./fixture";

const RIGHT_TO_LEFT = "\u202Egnitceffe";

describe("text", () => {
  it("is cut between characters, not within", () => {
    expect(shortened("🙂🙂🙂🙂🙂", 4)).toBe("🙂🙂🙂…");
    expect(shortened("🙂🙂🙂🙂", 4)).toBe("🙂🙂🙂🙂");
    expect(shortened("abcdef", 1.5)).toBe("ab…");
  });

  it("isolates names that could turn the text around them", () => {
    expect(isolated("size")).toBe("size");
    for (const name of ["\u05D2\u05D5\u05D3\u05DC", "\u0644\u0648\u0646", RIGHT_TO_LEFT])
      expect(isolated(name)).toBe(`\u2068${name}\u2069`);
  });

  it("has shares in percent", () => {
    expect([percent(0.874), percent(0.0312, 1)]).toEqual(["87%", "3.1%"]);
  });

  it("has thousands", () => {
    expect([900, 7000, 1234567].map(thousands)).toEqual(["900", "7,000", "1,234,567"]);
  });

  it("names rows, or gives their number in the data", async () => {
    const model = await smallModel();
    expect(rowName(model, 3)).toBe("row 3");
    model.data.rows.names = ["a", ""];
    expect([rowName(model, 0), rowName(model, 1)]).toEqual(["a", "row 1"]);
  });

  it("of a class says how often it occurs in the data and under the prior", async () => {
    const variable = {
      ...(await smallModel()).variable(2),
      masses: [0.5, 0.3, 0.2],
      priorMasses: [0.25, 0.25, 0.5],
    };
    expect(massText(variable, 0, true)).toBe(
      "Class 0, 50% of the data and 25% under the prior; the observation is in it",
    );
  });
});

describe("names in any script", () => {
  beforeAll(async () => {
    const model = await smallModel();
    model.data.factors[0]!.name = RIGHT_TO_LEFT;
    model.data.variables[0]!.name = RIGHT_TO_LEFT;
    models.value = new Map([[model.id, model]]);
    view.value = { ...view.value, open: [model.id] };
    render(<Stage model={model} />, document.body);
  });

  it("are isolated from the text around them", () => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const around: (string | undefined)[] = [];
    while (walker.nextNode()) {
      if (walker.currentNode.nodeValue!.includes(RIGHT_TO_LEFT))
        around.push(walker.currentNode.parentElement?.localName);
    }
    expect(around.length).toBeGreaterThan(1);
    expect(new Set(around)).toEqual(new Set(["bdi"]));
  });
});

describe("the key of channels", () => {
  const image = (
    channelNames: string[],
    colours: [number, number, number][],
    alpha = false,
  ): ImageObservation => ({
    kind: "image",
    channels: colours.length,
    height: 1,
    width: 1,
    units: { scale: [1], shift: [0], clip: false },
    channelNames,
    pixels: false,
    colours: {
      low: colours.map(() => 0),
      high: colours.map(() => 1),
      colours,
      diverging: false,
      alpha,
    },
  });
  const bands: [number, number, number][] = [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
    [0, 0, 0],
  ];

  it("is for false colours only", () => {
    expect(keyNames(image(["red", "green", "blue"], bands.slice(0, 3)))).toEqual([]);
    expect(keyNames(image(["red", "green", "blue", "opacity"], bands, true))).toEqual([]);
    expect(keyNames(image(["channel 0"], [[1, 1, 1]]))).toEqual([]);
    const measured = ["channel 0", "channel 1", "channel 2"];
    expect(keyNames(image(measured, bands.slice(0, 3)))).toEqual(measured);
  });

  it("has the colour and the name of each channel", () => {
    const page = document.createElement("div");
    render(
      <ChannelKey
        seen={image(
          ["DNA", "actin"],
          [
            [1, 0, 0.5],
            [0, 1, 0],
          ],
        )}
      />,
      page,
    );
    expect(Array.from(page.querySelectorAll("li"), (item) => item.textContent!.trim())).toEqual([
      "DNA",
      "actin",
    ]);
    expect(page.querySelector("rect")!.getAttribute("style")).toContain("rgb(255 0 128)");
  });

  it("has the values of colours in the user's units, if there are any", () => {
    const plain = image(["channel 0"], [[1, 1, 1]]);
    const units = { scale: [2649.4], shift: [200], clip: true };
    expect(rangeText(plain, 0)).toBe("");
    expect(rangeText({ ...plain, units, pixels: true }, 0)).toBe("");
    expect(rangeText({ ...plain, units }, 0)).toBe("200 to 2850");
    const page = document.createElement("div");
    render(<ChannelKey seen={{ ...plain, units }} />, page);
    expect(page.textContent).toBe("Black to white: 200 to 2850");
    const several = image(["DNA", "actin"], bands.slice(0, 2));
    const own = { scale: [1, 4.5], shift: [0, -0.821], clip: true };
    expect([0, 1].map((n) => rangeText({ ...several, units: own }, n))).toEqual([
      "",
      "−0.821 to 3.68",
    ]);
  });
});
