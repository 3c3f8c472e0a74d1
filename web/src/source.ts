/** Where the manifest, the bundles and the wasm come from: the page itself, or the server of it. */
import { Bundle, gunzip, type Manifest } from "./bundle";

/** Read bytes of the page, such as `<script type="text/plain" id="wasm">`. */
function embedded(id: string): Uint8Array<ArrayBuffer> {
  const element = document.getElementById(id);
  if (!element) throw new Error(`this page has no ${id}`);
  return fromText(element.textContent ?? "");
}

/** Printable characters that mean nothing in HTML and JSON. */
const DIGITS = Array.from({ length: 95 }, (_, n) => n + 32).filter(
  (code) => !'"&<\\'.includes(String.fromCharCode(code)),
);
const [PAIR_BITS, LAST_BITS] = [13, 6];

/** The bytes of a text: two digits are 13 bits, and a single one at the end is 6; the lowest come first. */
export function fromText(text: string): Uint8Array<ArrayBuffer> {
  const values = new Uint8Array(128);
  DIGITS.forEach((code, value) => (values[code] = value));
  const pairs = text.length >> 1;
  const bytes = new Uint8Array((pairs * PAIR_BITS + (text.length & 1) * LAST_BITS) >> 3);
  let [bits, count, to] = [0, 0, 0];
  for (let at = 0; at < text.length; at += 2) {
    const high = values[text.charCodeAt(at + 1)] ?? 0; // there is none after a single digit
    bits |= (values[text.charCodeAt(at)]! + DIGITS.length * high) << count;
    for (count += PAIR_BITS; count >= 8; count -= 8, bits >>>= 8) bytes[to++] = bits & 255;
  }
  return bytes;
}

export function readManifest(): Manifest {
  return JSON.parse(document.getElementById("manifest")?.textContent ?? "null") as Manifest;
}

/** Ask the server for the runs as they are now; null if they are as they were before. */
export async function fetchManifest(before: Manifest): Promise<Manifest | null> {
  const response = await answer("manifest", { "If-None-Match": `"${before.tag}"` });
  return response.status === NOT_MODIFIED
    ? null
    : merged(before, (await response.json()) as Manifest);
}

/** All runs, from those before and those that have changed. */
export function merged(before: Manifest, next: Manifest): Manifest {
  if (!next.ids) return next;
  const runs = new Map([...before.runs, ...next.runs].map((run) => [run.id, run]));
  return { ...next, runs: next.ids.map((id) => runs.get(id)!), ids: null };
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
