/** An observation of the data, small: its image, or its values as a curve or bars. */
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Model } from "../model";
import { useThumbnail, type Tile } from "../thumbnails";
import { described } from "./observation";
import { VectorChart } from "./vector";

interface Props {
  model: Model;
  row: number;
  label: string;
}

/** Draws nothing if the page has only the code of the row. */
export function Thumbnail({ model, row, label }: Props) {
  const shown = useThumbnail(model, row);
  const seen = model.data.observation;
  if (!shown) return null;
  if (shown.kind === "image") return <TilePicture tile={shown} label={label} />;
  return seen.kind === "vector" ? (
    <VectorChart
      model={model}
      seen={seen}
      series={[{ name: "observed", values: shown.values, role: "main" }]}
      label={label}
    />
  ) : null;
}

export function TilePicture({ tile, label }: { tile: Tile; label: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const { sheet, x, y, width, height } = tile;
    const context = canvas.current!.getContext("2d")!;
    context.clearRect(0, 0, width, height);
    context.drawImage(sheet, x, y, width, height, 0, 0, width, height);
  }, [tile]);
  return (
    <canvas
      ref={canvas}
      class="picture"
      width={tile.width}
      height={tile.height}
      {...described(label)}
    />
  );
}
