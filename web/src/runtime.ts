/** Networks in the browser: onnxruntime's wasm provider, in one thread, without any request. */
import * as ort from "onnxruntime-web/wasm";
import { readWasm } from "./source";
import { Turns, type Priority } from "./turns";

let ready: Promise<void> | null = null;

function start(): Promise<void> {
  ready ??= (async () => {
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.proxy = false;
    ort.env.logLevel = "error";
    ort.env.wasm.wasmBinary = await readWasm();
  })();
  return ready;
}

/** All networks run in the page's own thread, so all of them take turns. */
const turns = new Turns();
const MOST_ROWS = 32; // of a call, so that what is urgent waits a short time only

/** A network with one input and one output, whose rows are independent. */
export class Network {
  private constructor(private readonly session: ort.InferenceSession) {}

  static async load(file: Uint8Array): Promise<Network> {
    await start();
    return new Network(await ort.InferenceSession.create(file, { executionProviders: ["wasm"] }));
  }

  /** Apply the network to `values` of shape (n, ...shape); return its output, (n, ...). */
  async run(values: Float32Array, shape: number[], priority: Priority = 2): Promise<Float32Array> {
    const parts = split(values, MOST_ROWS * shape.reduce((product, n) => product * n, 1));
    const calls = parts.map((part) => turns.take(() => this.call(part, shape), priority));
    return joined(await Promise.all(calls));
  }

  /** Give the memory of the network back after the calls that wait: no other job is less urgent. */
  release(): void {
    void turns.take(() => this.session.release(), 2);
  }

  private async call(values: Float32Array, shape: number[]): Promise<Float32Array> {
    const size = shape.reduce((product, n) => product * n, 1);
    const input = new ort.Tensor("float32", values, [values.length / size, ...shape]);
    const outputs = await this.session.run({ [this.session.inputNames[0]!]: input });
    return outputs[this.session.outputNames[0]!]!.data as Float32Array;
  }
}

/** Parts of at most `length` numbers, in order. */
export function split(values: Float32Array, length: number): Float32Array[] {
  const count = Math.ceil(values.length / length);
  return Array.from({ length: count }, (_, n) => values.subarray(n * length, (n + 1) * length));
}

export function joined(parts: readonly Float32Array[]): Float32Array {
  if (parts.length === 1) return parts[0]!;
  const whole = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let place = 0;
  for (const part of parts) {
    whole.set(part, place);
    place += part.length;
  }
  return whole;
}
