/** A small model for tests, made without Python: 3 variables, 2 factors, 4 x 4 images. */
import { Bundle, type ArrayRef, type ModelData, type RunData } from "../src/bundle";
import { vi } from "vitest";
import { Model } from "../src/model";

/** Wait until a check no longer fails, however long a busy machine takes. */
export const eventually = (check: () => void) => vi.waitFor(check, { timeout: 60_000 });

/** Let the page draw: many turns of the event loop, however long they take. */
export async function drawn(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await new Promise((done) => setTimeout(done, 0));
}

/** Write a bundle as Python does, without byte planes. */
export async function writeBundle(
  data: (add: (values: number[], shape: number[]) => ArrayRef) => ModelData,
): Promise<Bundle> {
  const arrays: Float32Array[] = [];
  let offset = 0;
  const header = data((values, shape) => {
    const ref: ArrayRef = { dtype: "float32", shape, offset, planes: 1 };
    arrays.push(new Float32Array(values));
    offset += Math.ceil((4 * values.length) / 8) * 8;
    return ref;
  });
  const text = new TextEncoder().encode(JSON.stringify(header));
  const start = Math.ceil((4 + text.length) / 8) * 8;
  const bytes = new Uint8Array(start + offset).fill(32, 4 + text.length, start);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 4);
  let at = start;
  for (const array of arrays) {
    bytes.set(new Uint8Array(array.buffer), at);
    at += Math.ceil(array.byteLength / 8) * 8;
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
  return Bundle.read(new Uint8Array(await new Response(stream).arrayBuffer()));
}

/** Scores of a standard normal prior are its values. */
export const NORMAL = Array.from({ length: 61 }, (_, n) => -3 + n / 10);

const ROWS = 50;

/** z0 is the factor "size", z1 is noise, and c is a discrete variable, the factor "shape". */
export function smallModel(id = "aaaaaaaaaaaa", sign = 1): Promise<Model> {
  const noise = (n: number) => Math.sin(12.9898 * n) * 2;
  return writeBundle((add) => ({
    id,
    name: `beta-vae, ${id}`,
    step: 100,
    headline: "Two of three latent variables carry information.",
    data: "shapes",
    dataName: "shapes",
    observation: {
      kind: "image",
      channels: 1,
      height: 4,
      width: 4,
      colours: { low: [0], high: [1], colours: [[1, 1, 1]], diverging: false, alpha: false },
      units: { scale: [1], shift: [0], clip: false },
      channelNames: [],
      pixels: true,
    },
    size: 5,
    noise: [],
    autoencodes: true,
    variables: [
      variable(0, "z0", [0, 1], true, "size"),
      { ...variable(2, "c", [2, 5], true, "shape"), discrete: true, classes: 3, quantiles: [] },
      variable(1, "z1", [1, 2], false, null),
    ],
    rate: {
      rate: 3,
      mutualInformation: 2.5,
      totalCorrelation: 0.3,
      dimensionKl: [0.1, 0.05, 0.05],
      factorised: true,
      groups: [],
    },
    factors: [
      {
        name: "size",
        values: ["0", "1", "2", "3", "4"],
        ordered: true,
        continuous: false,
        atChance: "",
      },
      {
        name: "shape",
        values: ["square", "ellipse", "heart"],
        ordered: false,
        continuous: false,
        atChance: "",
      },
    ],
    shares: add([0.9, 0.02, 0.01, 0.02, 0.01, 0.95], [3, 2]),
    aboveChance: [
      [true, false],
      [false, false],
      [false, true],
    ],
    chance: [0.02, 0.02],
    rows: {
      count: ROWS,
      index: Array.from({ length: ROWS }, (_, n) => n),
      names: [],
      mean: add(
        Array.from({ length: ROWS }, (_, n) => [
          sign * ((n % 5) - 2),
          noise(n),
          ...[0, 1, 2].map((c) => +(n % 3 === c)),
        ]).flat(),
        [ROWS, 5],
      ),
      sample: add(
        Array.from({ length: 5 * ROWS }, (_, n) => 3 * noise(n)),
        [ROWS, 5],
      ),
      factors: add(Array.from({ length: ROWS }, (_, n) => [n % 5, n % 3]).flat(), [ROWS, 2]),
      error: add(
        Array.from({ length: ROWS }, (_, n) => n / ROWS),
        [ROWS],
      ),
      pca: add(Array.from({ length: ROWS }, (_, n) => [n % 5, noise(n)]).flat(), [ROWS, 2]),
      embedding: null,
      embeddingName: "",
      shown: { kind: "vector", count: 0, values: add([], [0, 16]) },
    },
    prior: add(
      Array.from({ length: 100 }, (_, n) => noise(n + 7)),
      [20, 5],
    ),
    start: 0,
    encoder: { dtype: "uint8", shape: [0], offset: 0, planes: 1 },
    decoder: { dtype: "uint8", shape: [0], offset: 0, planes: 1 },
    drawn: [],
  })).then((bundle) => new Model(bundle));
}

function variable(
  number: number,
  name: string,
  columns: [number, number],
  active: boolean,
  factor: string | null,
): ModelData["variables"][number] {
  return {
    number,
    name,
    columns,
    discrete: false,
    classes: 0,
    kl: active ? 2 : 0.01,
    information: active ? 1.5 : 0.001,
    active,
    quantiles: [NORMAL],
    priorMasses: [],
    masses: [],
    groups: [],
    factor,
    share: factor ? 0.9 : 0,
    aboveChance: factor !== null,
  };
}

/** A finished run without scores and curves. */
export function runData(id: string, part: Partial<RunData> = {}): RunData {
  const empty = { step: [], terms: {} };
  return {
    id,
    name: `run ${id}`,
    state: "finished",
    step: 100,
    steps: 100,
    settings: { seed: 0 },
    scores: {},
    noEvidence: {},
    log: empty,
    measures: empty,
    final: {},
    explorable: true,
    reason: "",
    ...part,
  };
}
