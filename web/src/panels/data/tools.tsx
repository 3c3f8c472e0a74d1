/** Buttons over the scatter. */
import type { Signal } from "@preact/signals";
import type { Model } from "../../model";
import { clearSelection, contours, images, selection } from "../../selection";
import { change } from "../../state";
import { thousands } from "../../text";
import type { Camera } from "./camera";
import type { Cloud } from "./cloud";
import { whyNoContours } from "./density";
import { SELECTED } from "./selected";

interface Props {
  model: Model;
  cloud: Cloud;
  lasso: Signal<boolean>;
  camera: Camera;
}

const STEP = 1.5;

export function PlotTools({ model, cloud, lasso, camera }: Props) {
  const { shown } = model.data.rows;
  return (
    <div class="tools no-export" role="group" aria-label="Tools of the scatter">
      <button type="button" onClick={() => camera.zoom(STEP)} aria-label="Zoom in">
        +
      </button>
      <button type="button" onClick={() => camera.zoom(1 / STEP)} aria-label="Zoom out">
        −
      </button>
      <button type="button" onClick={camera.reset}>
        Reset view
      </button>
      <button type="button" aria-pressed={lasso.value} onClick={() => (lasso.value = !lasso.value)}>
        Lasso
      </button>
      {shown.kind === "image" && shown.count > 0 && (
        <button
          type="button"
          aria-pressed={images.value}
          onClick={() => change({ images: !images.value })}
        >
          Images
        </button>
      )}
      <button
        type="button"
        aria-pressed={contours.value}
        onClick={() => change({ contours: !contours.value })}
      >
        Contours
      </button>
      {selection.value && (
        <>
          <button type="button" onClick={clearSelection}>
            Clear selection
          </button>
          <button
            type="button"
            class="text-button"
            title="Go to the selection"
            onClick={goToSelection}
          >
            {thousands(selection.value.length)} selected
          </button>
        </>
      )}
      {contours.value && whyNoContours(cloud) && (
        <span class="help" role="status">
          {whyNoContours(cloud)}
        </span>
      )}
    </div>
  );
}

/** The panel is below the scatter, often out of view. It is no link, as the address holds the view. */
function goToSelection(): void {
  const count = document.getElementById(SELECTED)!;
  count.focus({ preventScroll: true });
  (count.closest("section") ?? count).scrollIntoView({ block: "start" });
}
