/**
 * Build the explorer into the Python package: one script, one style sheet, the compressed wasm of
 * onnxruntime, and the licences of everything in them.
 *
 *     node build.mjs [folder]
 */
import { build } from "esbuild";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, "../src/unweave/explorer/app"));
mkdirSync(out, { recursive: true });

const result = await build({
  entryPoints: { explorer: join(here, "src/main.tsx") },
  outdir: out,
  absWorkingDir: here,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "ascii",
  metafile: true,
  logLevel: "warning",
});

const ort = join(here, "node_modules/onnxruntime-web");
const wasm = readFileSync(join(ort, "dist/ort-wasm-simd-threaded.wasm"));
writeFileSync(join(out, "ort.wasm.gz"), gzipSync(wasm, { level: 9 }));

const packages = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
  const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
  if (found) packages.add(found[1]);
}
writeFileSync(join(out, "LICENSES.txt"), [...packages].sort().map(licence).join("\n\n"));

/** The name, version and licence text of a package. */
function licence(name) {
  const folder = join(here, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  const text = file ? readFileSync(join(folder, file), "utf8").trim() : `License: ${license}`;
  return `${"=".repeat(80)}\n${name} ${version} (${license})\n${"=".repeat(80)}\n\n${text}\n`;
}
