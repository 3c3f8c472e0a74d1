/** Where the manifest, the bundles and the wasm come from: the page itself, or the server of it. */
import { Bundle, gunzip, type Manifest } from "./bundle";

/** Read base64 text of the page, such as `<script type="text/plain" id="wasm">`. */
function embedded(id: string): Uint8Array<ArrayBuffer> {
  const element = document.getElementById(id);
  if (!element) throw new Error(`this page has no ${id}`);
  const text = atob((element.textContent ?? "").trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

export function readManifest(): Manifest {
  return JSON.parse(document.getElementById("manifest")?.textContent ?? "null") as Manifest;
}

let manifestTag = "";

/** Ask the server for the runs as they are now; null if they are as they were at the last question. */
export async function fetchManifest(): Promise<Manifest | null> {
  const response = await answer("manifest", manifestTag ? { "If-None-Match": manifestTag } : {});
  if (response.status === NOT_MODIFIED) return null;
  const next = (await response.json()) as Manifest;
  manifestTag = response.headers.get("ETag") ?? "";
  return next;
}

export async function readBundle(id: string, served: boolean): Promise<Bundle> {
  if (!served) return Bundle.read(embedded(`model-${id}`));
  const response = await answer(`model/${encodeURIComponent(id)}`);
  return Bundle.read(new Uint8Array(await response.arrayBuffer()));
}

/** The binary of onnxruntime, always in the page. */
export function readWasm(): Promise<Uint8Array<ArrayBuffer>> {
  return gunzip(embedded("wasm"));
}

const NOT_MODIFIED = 304;

async function answer(path: string, headers: Record<string, string> = {}): Promise<Response> {
  const response = await fetch(path, { headers });
  if (response.ok || response.status === NOT_MODIFIED) return response;
  const body = (await response.json().catch(() => null)) as { error?: string } | null;
  throw new Error(body?.error ?? `the server answered ${response.status}`);
}
