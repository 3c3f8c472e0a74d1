/** Files of the user: chosen, dropped or pasted, and kept in a strip. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Model } from "../model";
import { forget, originOf, refused, showUpload, take, uploadsFor, type Upload } from "../origin";
import { canDecode } from "../state";
import { toNetwork } from "../upload/read";
import { Observation } from "../ui/observation";

/** Take files that are dropped on the page or pasted; tell whether some are dragged over it. */
export function useFiles(model: Model): boolean {
  const [dragging, setDragging] = useState(false);
  useEffect(() => {
    if (!model.data.autoencodes) return;
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
      void take(model, Array.from(event.dataTransfer.files));
    };
    const paste = (event: ClipboardEvent) => {
      if (event.clipboardData?.files.length) void take(model, Array.from(event.clipboardData.files));
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

export function Uploads({ model }: { model: Model }) {
  if (!model.data.autoencodes || canDecode.value === false) return null;
  return (
    <div class="uploads">
      <FileButton model={model} />
      <ul class="strip" aria-label="Your files">
        {uploadsFor(model).map((upload) => (
          <Kept key={upload.id} model={model} upload={upload} />
        ))}
      </ul>
      {refused.value.map((reason) => (
        <p key={reason} class="refused" role="alert">{reason}</p>
      ))}
    </div>
  );
}

function FileButton({ model }: { model: Model }) {
  const input = useRef<HTMLInputElement>(null);
  const seen = model.data.observation;
  const accept = seen.kind === "image" && seen.pixels ? "image/*,.npy,.csv" : ".npy,.csv";
  return (
    <p class="choose">
      <button type="button" onClick={() => input.current!.click()}>
        {accept.startsWith("image") ? "Choose your own image" : "Choose your own file"}
      </button>{" "}
      <span class="or-drop">or drop or paste it here</span>
      <input
        ref={input}
        class="file"
        type="file"
        multiple
        accept={accept}
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

function Kept({ model, upload }: { model: Model; upload: Upload }) {
  const origin = originOf(model);
  const shown = origin.kind === "upload" && origin.upload.id === upload.id;
  return (
    <li>
      <button type="button" class="kept" aria-pressed={shown} aria-label={`Show ${upload.name}`} title={upload.name} onClick={() => void showUpload(model, upload)}>
        {model.data.observation.kind === "image" ? <UploadPicture model={model} upload={upload} label="" /> : upload.name}
      </button>
      <button type="button" class="forget" aria-label={`Remove ${upload.name}`} onClick={() => forget(upload)}>×</button>
    </li>
  );
}

export function UploadPicture({ model, upload, label }: { model: Model; upload: Upload; label: string }) {
  const values = useMemo(() => toNetwork(model.data.observation, upload.numbers), [model, upload.numbers]);
  return <Observation model={model} values={values} label={label} />;
}
