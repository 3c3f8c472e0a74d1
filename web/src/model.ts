/** A model that is open in the page: its data, its arrays and its networks. */
import { Bundle, type ModelData, type Variable } from "./bundle";
import { Network } from "./runtime";
import { readBundle } from "./source";
import type { Priority } from "./turns";

/** A code z, one number a dimension. */
export type Code = readonly number[];

/** Sliders go from -LIMIT to LIMIT in normal scores of the prior. */
export const LIMIT = 3;
const STEPS = 10; // quantiles for each unit of the score

export class Model {
  readonly data: ModelData;
  readonly means: Float32Array;
  readonly factors: Float32Array;
  readonly shares: Float32Array;
  /** Rows by the index of their observation in the data. */
  private positions: ReadonlyMap<number, number> | null = null;
  private decoder: Promise<Network> | null = null;
  private encoder: Promise<Network> | null = null;

  constructor(readonly bundle: Bundle) {
    this.data = bundle.data;
    this.means = bundle.floats(this.data.rows.mean);
    this.factors = bundle.floats(this.data.rows.factors);
    this.shares = bundle.floats(this.data.shares);
  }

  static async open(id: string, served: boolean): Promise<Model> {
    return new Model(await readBundle(id, served));
  }

  /** Give the memory of the networks back; the next call loads them again. */
  close(): void {
    for (const network of [this.encoder, this.decoder])
      void network?.then(
        (each) => each.release(),
        () => undefined, // one that did not load has nothing to give back
      );
    this.encoder = this.decoder = null;
  }

  get id(): string {
    return this.data.id;
  }

  /** The shape of one observation as the network has it. */
  get shape(): number[] {
    const seen = this.data.observation;
    return seen.kind === "image" ? [seen.channels, seen.height, seen.width] : [seen.length];
  }

  /** Numbers of one observation. */
  get length(): number {
    return this.shape.reduce((product, n) => product * n, 1);
  }

  get active(): Variable[] {
    return this.data.variables.filter((variable) => variable.active);
  }

  variable(number: number): Variable {
    const found = this.data.variables.find((each) => each.number === number);
    if (!found) throw new Error(`there is no latent variable ${number}`);
    return found;
  }

  /** The row of an observation, by its index in the data, or null. Rows come in another order in
   * every bundle; indices stay. */
  rowOf(index: number): number | null {
    this.positions ??= new Map(this.data.rows.index.map((each, row) => [each, row]));
    return this.positions.get(index) ?? null;
  }

  /** The index in the data of a row. */
  indexOf(row: number): number {
    return this.data.rows.index[row]!;
  }

  /** The mean of q(z|x) of a row. */
  code(row: number): number[] {
    const { size } = this.data;
    return Array.from(this.means.subarray(row * size, (row + 1) * size));
  }

  /** The share of a factor that a variable explains. */
  share(variable: number, factor: number): number {
    return this.shares[variable * this.data.factors.length + factor]!;
  }

  /** The value of a factor in a row, NaN if it is missing. */
  factor(row: number, factor: number): number {
    return this.factors[row * this.data.factors.length + factor]!;
  }

  /** Decode codes, (n, length), as the network has values. */
  async decode(codes: readonly Code[], priority?: Priority): Promise<Float32Array> {
    const { size, noise, decoder } = this.data;
    this.decoder ??= Network.load(this.bundle.file(decoder));
    const width = size + noise.length;
    const values = new Float32Array(codes.length * width);
    codes.forEach((code, n) => {
      values.set(code, n * width);
      values.set(noise, n * width + size);
    });
    return (await this.decoder).run(values, [width], priority);
  }

  /** Encode observations as the network has values; return the means of q(z|x). */
  async encode(x: Float32Array): Promise<number[][]> {
    this.encoder ??= Network.load(this.bundle.file(this.data.encoder));
    const flat = await (await this.encoder).run(x, this.shape);
    const { size } = this.data;
    const count = flat.length / size;
    return Array.from({ length: count }, (_, n) =>
      Array.from(flat.subarray(n * size, (n + 1) * size)),
    );
  }
}

/** The value of a continuous column at a normal score of the prior. */
export function valueAt(quantiles: readonly number[], score: number): number {
  const place = Math.min(Math.max((score + LIMIT) * STEPS, 0), quantiles.length - 1);
  const low = Math.min(Math.floor(place), quantiles.length - 2);
  const [a, b] = [quantiles[low]!, quantiles[low + 1]!];
  return a + (b - a) * (place - low);
}

/** The normal score of a value; values beyond the sliders' range get its ends. */
export function scoreOf(quantiles: readonly number[], value: number): number {
  if (!(value > quantiles[0]!)) return -LIMIT;
  const above = quantiles.findIndex((quantile) => quantile >= value);
  if (above < 0) return LIMIT;
  const [a, b] = [quantiles[above - 1]!, quantiles[above]!];
  return (above - 1 + (value - a) / (b - a)) / STEPS - LIMIT;
}

/** The class of a discrete variable in a code: the most probable one. */
export function classOf(variable: Variable, code: Code): number {
  const [first, end] = variable.columns;
  if (end - first === 1) return code[first]! >= 0.5 ? 1 : 0;
  let best = first;
  for (let column = first; column < end; column++) if (code[column]! > code[best]!) best = column;
  return best - first;
}

/** Set a discrete variable of a code to one of its classes. */
export function withClass(variable: Variable, code: Code, chosen: number): number[] {
  const [first, end] = variable.columns;
  const changed = [...code];
  if (end - first === 1) changed[first] = chosen;
  else
    for (let column = first; column < end; column++) changed[column] = +(column - first === chosen);
  return changed;
}

/** Codes along a variable, all else as in `code`: every class, or `steps` scores from -2 to 2. */
export function traverse(variable: Variable, code: Code, steps: number): number[][] {
  if (variable.discrete) {
    return Array.from({ length: variable.classes }, (_, c) => withClass(variable, code, c));
  }
  return Array.from({ length: steps }, (_, n) => {
    const score = steps === 1 ? 0 : -2 + (4 * n) / (steps - 1);
    return withScore(variable, code, score);
  });
}

/** Set a continuous variable of a code to a score of the prior, in all of its columns. */
export function withScore(variable: Variable, code: Code, score: number): number[] {
  const changed = [...code];
  variable.quantiles.forEach((quantiles, n) => {
    changed[variable.columns[0] + n] = valueAt(quantiles, score);
  });
  return changed;
}
