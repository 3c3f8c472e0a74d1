/**
 * What Python writes for the page (src/unweave/explorer/contents.py has the same types), and how it
 * is read.
 *
 * The manifest is JSON: all runs, with settings, scores and curves. Everything about one model is a
 * bundle: the length of its header (uint32, little endian), the header (a ModelData as JSON in UTF-8),
 * spaces up to a multiple of 8, then the arrays. A bundle is compressed by gzip.
 */

/** An array in the binary part of a bundle. `offset` counts from the start of that part. */
export interface ArrayRef {
  dtype: "float32" | "uint8";
  shape: number[];
  offset: number;
  /** Float32 values and networks are stored as planes: all first bytes, then all second bytes, and
   * so on, which compresses better. The number of bytes is padded to a multiple of `planes`. */
  planes: 1 | 4;
}

export type Setting = string | number | boolean | null;

/** Columns of numbers over training steps, at most a few hundred rows. */
export interface Curves {
  step: number[];
  terms: Record<string, (number | null)[]>;
}

export interface RunData {
  /** The digest that names the run's folder. */
  id: string;
  /** What tells it from the other runs of the page, such as "beta-vae, beta 4, seed 0". */
  name: string;
  state: "finished" | "running" | "stopped" | "failed" | "not started";
  step: number;
  steps: number;
  /** All settings, flat: "objective.beta": 4. */
  settings: Record<string, Setting>;
  /** Scores by metric, "mig/chen2018": 0.31. */
  scores: Record<string, number>;
  /** Why scores prove nothing, for those of which that is known. */
  noEvidence: Record<string, string>;
  log: Curves;
  measures: Curves;
  /** The mean of each term of the log over the end of training. */
  final: Record<string, number | null>;
  /** Whether there is a model to open. */
  explorable: boolean;
  /** Why there is none: the end of a sentence that begins with the name of the run. */
  reason: string;
}

/** A score, or a term of a log or of measurements, as people read it. */
export interface TermLabel {
  name: string;
  unit: string;
  /** "" if neither is better. */
  better: "higher" | "lower" | "";
}

export interface Manifest {
  title: string;
  version: string;
  /** Whether a server answers: then models are fetched, otherwise they are in the page. */
  served: boolean;
  /** Whether to ask the server again and again for new curves and checkpoints. */
  watch: boolean;
  runs: RunData[];
  /** The runs to open first, at most 4. */
  open: string[];
  /** What the scores and terms of the runs are called, "mig/chen2018". */
  terms: Record<string, TermLabel>;
  /** Names this state of the runs when the server is asked what has changed since. */
  tag: string;
  /** All runs in order, if `runs` are those that have changed; null if they are all. */
  ids: string[] | null;
}

/** How channels become colours: rgb = sum over channels of clamp((x - low) / (high - low)) * colour,
 * with colours from 0 to 1. A diverging map of one channel has three: at low, in the middle, at high. */
export interface ColourMap {
  low: number[];
  high: number[];
  colours: [number, number, number][];
  diverging: boolean;
  /** Whether the last channel is the opacity; its colour is black. */
  alpha: boolean;
}

/** Values as the user has them are `x * scale + shift` of values as the network has them; counts and
 * plain values have scale 1 and shift 0. The scale of what is constant is 0. One number for all, one a channel, or one a column. */
export interface Units {
  scale: number[];
  shift: number[];
  /** Whether the network's values are limited to [0, 1]. */
  clip: boolean;
}

export interface ImageObservation {
  kind: "image";
  channels: number;
  height: number;
  width: number;
  colours: ColourMap;
  units: Units;
  channelNames: string[];
  /** Whether 8-bit files become [0, 1] by division by 255. If not, an upload needs numbers. */
  pixels: boolean;
}

export interface VectorObservation {
  kind: "vector";
  length: number;
  /** Names of the columns. */
  names: string[];
  /** Positions of the columns if their names are increasing numbers (wavelengths), otherwise null. */
  positions: number[] | null;
  /** Neighbouring columns are alike, so a curve is drawn; otherwise bars. */
  curve: boolean;
  units: Units;
  /** The encoder reads log(1 + x); the bundle's encoder does that itself. */
  counts: boolean;
}

export interface Variable {
  /** Its place in the latent space, and its row in `shares`. */
  number: number;
  name: string;
  /** Columns of z, [first, last + 1]. */
  columns: [number, number];
  discrete: boolean;
  /** Values of a discrete variable; a variable of one column has two, 0 and 1. Otherwise 0. */
  classes: number;
  /** Mean of KL(q(z_j|x) || p(z_j)), and I(x; z_j), in nats. */
  kl: number;
  information: number;
  /** Whether it carries information about the data. */
  active: boolean;
  /** For each column of a continuous variable, the prior's quantiles at the normal probabilities of
   * -3, -2.9, ..., 3 (61 values). Sliders are linear in these scores. */
  quantiles: number[][];
  /** For a discrete variable, p(c) and the aggregate q(c) of its classes. */
  priorMasses: number[];
  masses: number[];
  /** Names of the groups of the latent tree around it, outermost first. */
  groups: string[];
  /** The factor that an active variable explains best, that share, and whether it
   * is above chance. */
  factor: string | null;
  share: number;
  aboveChance: boolean;
}

export interface Group {
  /** The path of the group; "" is all of z. */
  name: string;
  /** Total correlation of the parts of the group, in nats. */
  totalCorrelation: number;
}

export interface Rate {
  /** KL(q(z|x) || p(z)), in nats. If the prior is `factorised`, it is mutualInformation +
   * totalCorrelation + the sum of dimensionKl, up to the errors of their estimates. */
  rate: number;
  mutualInformation: number;
  totalCorrelation: number;
  /** KL(q(z_j) || p(z_j)) by variable number. */
  dimensionKl: number[];
  /** Whether p(z) is the product of p(z_j). */
  factorised: boolean;
  groups: Group[];
}

export interface Factor {
  name: string;
  /** Names of the values of classes; empty for a continuous factor. */
  values: string[];
  /** Whether the order of the values means something. */
  ordered: boolean;
  continuous: boolean;
  /** What the rows show if no variable explains more of it than chance; otherwise "". */
  atChance: string;
}

/** Images of the first `count` rows, as files of tiles, row by row. */
export interface Thumbnails {
  kind: "image";
  count: number;
  /** Tiles in a row of a sheet (fewer if `count` is smaller), and rows in a full sheet. */
  columns: number;
  rows: number;
  /** Width and height of a tile in pixels. */
  tile: [number, number];
  /** PNG or WebP files. */
  sheets: ArrayRef[];
  type: string;
}

/** Values of the first `count` rows, (count, length), in the user's units. */
export interface Values {
  kind: "vector";
  count: number;
  values: ArrayRef;
}

/** Observations of the data, in random order. */
export interface Rows {
  count: number;
  /** Indices in the data. */
  index: number[];
  /** Names of rows, or []. */
  names: string[];
  /** Means of q(z|x), (count, size). */
  mean: ArrayRef;
  /** One sample of q(z|x) of each of the first rows, (n, size): together, samples of q(z). */
  sample: ArrayRef;
  /** (count, factors): index of the value, or the number of a continuous factor; NaN is missing. */
  factors: ArrayRef;
  /** Mean squared error of the reconstruction, as the network sees values; null without a decoder
   * that reconstructs. */
  error: ArrayRef | null;
  /** The first two principal components of the means, (count, 2). */
  pca: ArrayRef;
  /** A 2-D embedding of the means, (count, 2), and the name of the method. */
  embedding: ArrayRef | null;
  embeddingName: string;
  shown: Thumbnails | Values;
}

/** A traversal of one variable from the start, drawn beforehand for browsers without wasm. */
export interface Drawn {
  variable: number;
  /** A PNG file of one row of tiles, or values (steps, length) in the user's units. The steps are
   * evenly spaced over the prior's range, or the classes of a discrete variable. */
  picture: ArrayRef;
}

export interface ModelData {
  id: string;
  name: string;
  /** The step of the weights; grows while a run in training is watched. */
  step: number;
  /** One sentence from the report's verdict. */
  headline: string;
  /** Fingerprint of the observations. Models with the same one can be compared. */
  data: string;
  dataName: string;
  observation: ImageObservation | VectorObservation;
  /** Dimensions of z. */
  size: number;
  /** Noise that the decoder takes after z, [] for autoencoders. */
  noise: number[];
  /** Whether the model encodes and reconstructs, so that codes of an upload mean something. */
  autoencodes: boolean;
  /** All variables, by decreasing KL. */
  variables: Variable[];
  rate: Rate;
  factors: Factor[];
  /** The share of each factor that each variable explains, (variables by number, factors), where it
   * is above chance, and for each factor the largest share that is chance. */
  shares: ArrayRef;
  aboveChance: boolean[][];
  chance: number[];
  rows: Rows;
  /** Samples of the prior, (n, size). */
  prior: ArrayRef;
  /** The one of `rows` to start from; it has a thumbnail or values. */
  start: number;
  /** ONNX: input "x" (n, *shape) as the network has values, output "mean" (n, size). */
  encoder: ArrayRef;
  /** ONNX: input "z" (n, size + noise), output "x" (n, *shape), as the network has values. */
  decoder: ArrayRef;
  drawn: Drawn[];
}

/** A bundle that was read: its header and its arrays. */
export class Bundle {
  private constructor(
    readonly data: ModelData,
    private readonly bytes: Uint8Array,
  ) {}

  static async read(compressed: Uint8Array<ArrayBuffer>): Promise<Bundle> {
    const bytes = await gunzip(compressed);
    const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    const header = new TextDecoder().decode(bytes.subarray(4, 4 + length));
    const start = Math.ceil((4 + length) / 8) * 8;
    return new Bundle(JSON.parse(header) as ModelData, bytes.subarray(start));
  }

  /** The bytes of an array, such as a file. */
  file(ref: ArrayRef): Uint8Array<ArrayBuffer> {
    const size = ref.shape.reduce((product, n) => product * n, ref.dtype === "float32" ? 4 : 1);
    const padded = Math.ceil(size / ref.planes) * ref.planes;
    const stored = this.bytes.subarray(ref.offset, ref.offset + padded);
    const bytes = new Uint8Array(padded);
    if (ref.planes === 1) bytes.set(stored);
    else interleave(stored, bytes, ref.planes);
    return bytes.subarray(0, size);
  }

  floats(ref: ArrayRef): Float32Array<ArrayBuffer> {
    return new Float32Array(this.file(ref).buffer);
  }
}

function interleave(planes: Uint8Array, bytes: Uint8Array, count: number): void {
  const each = planes.length / count;
  for (let plane = 0; plane < count; plane++) {
    for (let i = 0; i < each; i++) bytes[i * count + plane] = planes[plane * each + i]!;
  }
}

export async function gunzip(
  compressed: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([compressed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
