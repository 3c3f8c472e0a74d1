/** The left column: the observation, what is decoded from the sliders, and the sliders. */
import { Fragment } from "preact";
import { useRef } from "preact/hooks";
import { useDecoded } from "../decoded";
import type { Model } from "../model";
import {
  codeOf,
  codesBeyond,
  isUnmoved,
  originOf,
  reset,
  showRow,
  type Origin,
  type Upload,
} from "../origin";
import { narrow } from "../screen";
import { canDecode, code } from "../state";
import { useThumbnail } from "../thumbnails";
import { isolated, rowName, significant } from "../text";
import { ChannelKey } from "../ui/channels";
import type { Csv } from "../ui/export";
import { Observation } from "../ui/observation";
import { Exports } from "../ui/panel";
import { Thumbnail } from "../ui/thumbnail";
import { Others } from "./others";
import { VectorChart, type Series } from "../ui/vector";
import { Sliders } from "./sliders";
import { dimensionNames } from "./data/table";
import "./stage.css";
import { UploadPicture, Uploads, useFiles } from "./uploads";
import { NoWasm } from "./waiting";

export function Stage({ model }: { model: Model }) {
  const dragging = useFiles(model);
  const body = useRef<HTMLElement>(null);
  return (
    <aside ref={body} class={dragging ? "stage dragging" : "stage"} aria-label="Latent variables">
      <Current model={model} />
      <Others model={model} />
      <div class="tools">
        <button
          type="button"
          title="Back to the code of the observation"
          onClick={() => reset(model)}
          disabled={isUnmoved(model) || !codeOf(model, originOf(model))}
        >
          Reset
        </button>
        <button type="button" onClick={() => showRow(model, randomRow(model))}>
          Another observation
        </button>
        <Exports title="Current code" body={body} csv={() => codeCsv(model)} />
      </div>
      <Uploads model={model} />
      {canDecode.value === false && <NoWasm />}
      <fieldset class="all-sliders" disabled={canDecode.value === false} aria-label="Sliders">
        <Sliders model={model} most={narrow.value ? MOST : Infinity} />
      </fieldset>
    </aside>
  );
}

const MOST = 3; // sliders on a small screen, which leave room for what they move

/** The code of the sliders, beside that of the observation. */
export function codeCsv(model: Model): Csv {
  const observed = codeOf(model, originOf(model));
  return {
    columns: ["latent variable", "value", "value of the observation"],
    rows: dimensionNames(model).map((name, column) => [
      name,
      code.value[column]!,
      observed?.[column] ?? null,
    ]),
  };
}

function Current({ model }: { model: Model }) {
  const origin = originOf(model);
  const seen = model.data.observation;
  const isImage = seen.kind === "image";
  return (
    <div class={isImage ? "current pair" : "current"}>
      {isImage && model.data.autoencodes && origin.kind !== "absent" && (
        <Original model={model} origin={origin} />
      )}
      <Decoded model={model} origin={origin} />
      {seen.kind === "image" && <ChannelKey seen={seen} />}
      <About model={model} origin={origin} />
    </div>
  );
}

function Original({
  model,
  origin,
}: {
  model: Model;
  origin: Exclude<Origin, { kind: "absent" }>;
}) {
  return (
    <figure class="original">
      {origin.kind === "row" ? (
        <RowPicture model={model} row={origin.row} />
      ) : (
        <UploadPicture
          model={model}
          upload={origin.upload}
          label={`Your file ${isolated(origin.upload.name)}`}
        />
      )}
      <figcaption>{origin.kind === "row" ? "Observation" : "Your file"}</figcaption>
    </figure>
  );
}

function RowPicture({ model, row }: { model: Model; row: number }) {
  if (row >= model.data.rows.shown.count)
    return <div class="missing">No thumbnail for this observation.</div>;
  return (
    <Thumbnail model={model} row={row} label={`Observation, ${isolated(rowName(model, row))}`} />
  );
}

function Decoded({ model, origin }: { model: Model; origin: Origin }) {
  const decoded = useDecoded(model, [code.value], true);
  const behind = useBehind(model, origin);
  const unmoved = isUnmoved(model) && model.data.autoencodes;
  return (
    <figure class="decoded">
      {decoded ? (
        <Observation
          model={model}
          values={decoded.values}
          behind={behind}
          label="Decoded from the sliders"
        />
      ) : (
        <Undecoded model={model} behind={behind} />
      )}
      <figcaption>
        <span class="key main">{unmoved ? "Reconstruction" : "Decoded"}</span>
        {behind && (
          <span class="key behind">{origin.kind === "row" ? "Observation" : "Your file"}</span>
        )}
      </figcaption>
    </figure>
  );
}

/** What stands in the place of the decoded observation until there is one. */
function Undecoded({ model, behind }: { model: Model; behind: ArrayLike<number> | null }) {
  const seen = model.data.observation;
  if (behind && seen.kind === "vector") {
    const series: Series[] = [{ name: "observed", values: behind, role: "behind" }];
    return <VectorChart model={model} seen={seen} series={series} label="Observation" />;
  }
  return (
    <div class="missing" role="status">
      {canDecode.value === false ? "No decoder" : "Starting the decoder …"}
    </div>
  );
}

/** The numbers of a vector that the code started from, in the user's units. */
function useBehind(model: Model, origin: Origin): ArrayLike<number> | null {
  const isVector = model.data.observation.kind === "vector" && model.data.autoencodes;
  const shown = useThumbnail(model, isVector && origin.kind === "row" ? origin.row : null);
  if (!isVector) return null;
  if (origin.kind === "upload") return origin.upload.numbers;
  return origin.kind === "row" && shown?.kind === "vector" ? shown.values : null;
}

/** What is known about the observation: its name and factors, or what was done to a file. */
function About({ model, origin }: { model: Model; origin: Origin }) {
  return (
    <p class="about-origin">
      {origin.kind === "row" && <AboutRow model={model} row={origin.row} />}
      {origin.kind === "upload" && <AboutUpload model={model} upload={origin.upload} />}
      {origin.kind === "absent" && "The code of a file that is not in this page."}
    </p>
  );
}

function AboutUpload({ model, upload: { name, note, codes } }: { model: Model; upload: Upload }) {
  const code = codes.get(model);
  const beyond = code ? codesBeyond(model, code) : 0;
  const strange =
    beyond > 0
      ? ` It is unlike the data: ${beyond} of ${model.data.size} numbers of its code lie beyond all codes of the data.`
      : "";
  return (
    <>
      <bdi>{name}</bdi>. {note}
      {strange}
    </>
  );
}

function AboutRow({ model, row }: { model: Model; row: number }) {
  return (
    <>
      <bdi>{rowName(model, row)}</bdi>
      {model.data.factors.map(({ name, values, continuous }, n) => {
        const value = model.factor(row, n);
        if (Number.isNaN(value)) return null;
        return (
          <Fragment key={n}>
            {" · "}
            <bdi>{name}</bdi>&nbsp;
            <bdi>{continuous ? significant(value, 3) : (values[value] ?? value)}</bdi>
          </Fragment>
        );
      })}
    </>
  );
}

/** A row that the page can show, if it shows any. */
export function randomRow(model: Model): number {
  const { rows } = model.data;
  return Math.floor(Math.random() * (rows.shown.count || rows.count));
}
