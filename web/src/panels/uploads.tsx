/** Files of the user: chosen, dropped or pasted, and kept in a strip. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Model } from "../model";
import { forget, originOf, refused, showUpload, take, uploadsFor, type Upload } from "../origin";
import { canDecode } from "../state";
import { isolated } from "../text";
import { Observation } from "../ui/observation";
import { toNetwork } from "../units";

/** Take files that are dropped on the page or pasted; tell whether some are dragged over it. */
export function useFiles(model: Model): boolean {
  const [dragging, setDragging] = useState(false);
  useEffect(() => {
    const over = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setDragging(true);
    };
    const leave = (event: DragEvent) => event.relatedTarget === null && setDragging(false);
    const drop = (event: DragEvent) => {
      setDragging(false);
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      accept(model, event.dataTransfer.files);
    };
    const paste = (event: ClipboardEvent) => {
      if (event.clipboardData?.files.length) accept(model, event.clipboardData.files);
    };
    const stop = new AbortController();
    const { signal } = stop;
    window.addEventListener("dragover", over, { signal });
    window.addEventListener("dragleave", leave, { signal });
    window.addEventListener("drop", drop, { signal });
    window.addEventListener("paste", paste, { signal });
    return () => stop.abort();
  }, [model]);
  return dragging;
}

/** Take files, or say why the model cannot. */
export function accept(model: Model, files: FileList | readonly File[]): void {
  const reason = whyNoFiles(model);
  if (reason === null) void take(model, Array.from(files));
  else refused.value = [reason];
}

function whyNoFiles(model: Model): string | null {
  if (!model.data.autoencodes)
    return "This model does not encode observations, so it cannot show your files.";
  return canDecode.value === false
    ? "The encoder needs WebAssembly, which did not start in this browser."
    : null;
}

export function Uploads({ model }: { model: Model }) {
  const canTake = whyNoFiles(model) === null;
  if (!canTake && refused.value.length === 0) return null;
  return (
    <div class="uploads">
      {canTake && (
        <>
          <FileButton model={model} />
          <ul class="strip" aria-label="Your files">
            {uploadsFor(model).map((upload) => (
              <Kept key={upload.id} model={model} upload={upload} />
            ))}
          </ul>
        </>
      )}
      {refused.value.map((reason) => (
        <p key={reason} class="refused" role="alert">
          {reason}
        </p>
      ))}
    </div>
  );
}

function FileButton({ model }: { model: Model }) {
  const input = useRef<HTMLInputElement>(null);
  const seen = model.data.observation;
  const types = seen.kind === "image" && seen.pixels ? "image/*,.npy,.csv" : ".npy,.csv";
  return (
    <p class="choose">
      <button type="button" onClick={() => input.current!.click()}>
        {types.startsWith("image") ? "Choose your own image" : "Choose your own file"}
      </button>{" "}
      <span class="or-drop">or drop or paste it here</span>
      <input
        ref={input}
        class="file"
        type="file"
        multiple
        accept={types}
        tabIndex={-1}
        aria-label="Files to encode"
        onChange={(event) => {
          const files = Array.from(event.currentTarget.files ?? []);
          event.currentTarget.value = "";
          void take(model, files);
        }}
      />
    </p>
  );
}

function show(model: Model, upload: Upload): void {
  refused.value = [];
  void showUpload(model, upload);
}

function Kept({ model, upload }: { model: Model; upload: Upload }) {
  const origin = originOf(model);
  const shown = origin.kind === "upload" && origin.upload.id === upload.id;
  return (
    <li>
      <button
        type="button"
        class="kept"
        aria-pressed={shown}
        aria-label={`Show ${isolated(upload.name)}`}
        title={upload.name}
        onClick={() => show(model, upload)}
      >
        {model.data.observation.kind === "image" ? (
          <UploadPicture model={model} upload={upload} label="" />
        ) : (
          <bdi>{upload.name}</bdi>
        )}
      </button>
      <button
        type="button"
        class="forget"
        aria-label={`Remove ${isolated(upload.name)}`}
        onClick={() => forget(upload)}
      >
        ×
      </button>
    </li>
  );
}

export function UploadPicture({
  model,
  upload,
  label,
}: {
  model: Model;
  upload: Upload;
  label: string;
}) {
  const values = useMemo(
    () => toNetwork(model.data.observation, upload.numbers),
    [model, upload.numbers],
  );
  return <Observation model={model} values={values} label={label} />;
}
