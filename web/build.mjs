/**
 * Build the explorer into the Python package: one script, one style sheet, the compressed wasm of
 * onnxruntime, and the licences of everything in them.
 *
 *     node build.mjs [folder]
 */
import { build } from "esbuild";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
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

const wasm = readFileSync(
  join(here, "node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm"),
);
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
  return `${"=".repeat(80)}\n${name} ${version} (${license})\n${"=".repeat(80)}\n\n${licenceText(name, folder)}\n`;
}

/** The text that a package brings, or the one in licences/ if it brings none. */
function licenceText(name, folder) {
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  const own = join(here, "licences", `${name}.txt`);
  if (!file && !existsSync(own))
    throw new Error(`${name} has no licence: put its text into ${own}`);
  return readFileSync(file ? join(folder, file) : own, "utf8")
    .replaceAll("\r", "")
    .trim();
}
