import { render } from "preact";
import { act } from "preact/test-utils";
import { beforeEach, expect, it, vi } from "vitest";
import { refused, uploads } from "../src/origin";
import { codeCsv } from "../src/panels/stage";
import { Uploads, useFiles } from "../src/panels/uploads";
import { DEFAULTS, models, view } from "../src/state";
import { Tour } from "../src/ui/tour";
import { smallModel } from "./fixture";

const model = await smallModel();
const page = document.createElement("div");
document.body.append(page);

beforeEach(() => {
  models.value = new Map([[model.id, model]]);
  view.value = { ...DEFAULTS, open: [model.id], row: 7 };
});

it("the code is saved beside that of the observation", () => {
  view.value = { ...view.value, z: [3, 0, 0, 1, 0] };
  const { rows } = codeCsv(model);
  expect(rows.map(([name]) => name)).toEqual(["z0", "z1", "c[0]", "c[1]", "c[2]"]);
  expect(rows.map(([, value]) => value)).toEqual([3, 0, 0, 1, 0]);
  expect(rows.map(([, , observed]) => observed)).toEqual(model.code(7));
});

it("a file that a model cannot encode is refused, and the page stays", async () => {
  const decoderOnly = await smallModel();
  decoderOnly.data.autoencodes = false;
  const Dropping = () => (
    <div data-dragging={useFiles(decoderOnly)}>
      <Uploads model={decoderOnly} />
    </div>
  );
  await act(() => render(<Dropping />, page));
  const drop = new Event("drop", { cancelable: true });
  Object.assign(drop, { dataTransfer: { files: [new File([], "a.png")], types: ["Files"] } });
  await act(() => void window.dispatchEvent(drop));
  expect(drop.defaultPrevented).toBe(true);
  expect(page.textContent).toBe(
    "This model does not encode observations, so it cannot show your files.",
  );
  expect(uploads.value).toEqual([]);
  await act(() => render(null, page));
  refused.value = [];
});

it("the page may scroll while the tour closes", async () => {
  await act(() => render(<Tour onClose={() => undefined} />, page));
  const error = vi.spyOn(console, "error").mockImplementation(() => undefined);
  const failed = vi.fn();
  window.addEventListener("error", failed);
  render(null, page); // effects end only after the next frame
  window.dispatchEvent(new Event("scroll"));
  window.removeEventListener("error", failed);
  expect(failed).not.toHaveBeenCalled();
  expect(error).not.toHaveBeenCalled();
});
