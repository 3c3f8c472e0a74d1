/** Images as points: thumbnails where they do not overlap, more of them as one zooms in. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Model } from "../../model";
import { toScreen, type Box, type Size } from "../../scatter/camera";
import { apart } from "../../scatter/picking";
import { resize } from "../../scatter/renderer";
import { place, sheet } from "../../thumbnails";
import type { Cloud } from "./cloud";

const SIDE = 40;
const MOST = 400;
const FAINT = 0.2;

interface Props {
  model: Model;
  cloud: Cloud;
  box: Box;
  size: Size;
  selected: ReadonlySet<number> | null;
}

export function Images({ model, cloud, box, size, selected }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const sheets = useSheets(model);
  const perX = size.width / (box.x[1] - box.x[0]);
  const perY = size.height / (box.y[1] - box.y[0]);
  const { count } = model.data.rows.shown;
  // The zoom is rounded, because panning changes its last digits.
  const chosen = useMemo(
    () =>
      apart(
        cloud.points.x,
        cloud.points.y,
        cloud.rows.filter((row) => row < count),
        perX,
        perY,
        SIDE,
      ),
    [cloud, count, perX.toPrecision(6), perY.toPrecision(6)],
  );
  useEffect(() => {
    const context = canvas.current!.getContext("2d");
    if (!context) return;
    const ratio = window.devicePixelRatio || 1;
    resize(canvas.current!, size, ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    for (const row of visible(chosen, cloud, box, size)) {
      context.globalAlpha = !selected || selected.has(row) ? 1 : FAINT;
      drawTile(context, model, sheets, row, cloud.picker.screen(box, size, row));
    }
  }, [chosen, sheets, box, size, selected]);
  return <canvas ref={canvas} class="scatter-images" aria-hidden="true" />;
}

/** All sheets of thumbnails that have been decoded so far. */
function useSheets(model: Model): readonly (ImageBitmap | undefined)[] {
  const [sheets, setSheets] = useState<(ImageBitmap | undefined)[]>([]);
  useEffect(() => {
    const { shown } = model.data.rows;
    let current = true;
    setSheets([]);
    if (shown.kind !== "image") return;
    shown.sheets.forEach(async (_, n) => {
      const decoded = await sheet(model, n);
      if (current) setSheets((before) => Object.assign([...before], { [n]: decoded }));
    });
    return () => void (current = false);
  }, [model]);
  return sheets;
}

function visible(rows: readonly number[], { points }: Cloud, box: Box, size: Size): number[] {
  const seen = rows.filter((row) => {
    const [x, y] = toScreen(box, size, [points.x[row]!, points.y[row]!]);
    return x > -SIDE && y > -SIDE && x < size.width + SIDE && y < size.height + SIDE;
  });
  return seen.slice(0, MOST);
}

function drawTile(
  context: CanvasRenderingContext2D,
  model: Model,
  sheets: readonly (ImageBitmap | undefined)[],
  row: number,
  [x, y]: readonly [number, number],
): void {
  const { shown } = model.data.rows;
  if (shown.kind !== "image") return;
  const tile = place(shown, row);
  const source = sheets[tile.sheet];
  if (!source) return;
  const [width, height] = shown.tile;
  const scale = (SIDE - 3) / Math.max(width, height);
  const [w, h] = [width * scale, height * scale];
  context.drawImage(source, tile.x, tile.y, width, height, x - w / 2, y - h / 2, w, h);
}
