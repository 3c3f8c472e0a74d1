/** Networks in the browser: onnxruntime's wasm provider, in one thread, without any request. */
import * as ort from "onnxruntime-web/wasm";
import { readWasm } from "./source";

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

/** A network with one input and one output, whose rows are independent. */
export class Network {
  /** Calls of one session must not overlap. */
  private last: Promise<unknown> = Promise.resolve();

  private constructor(private readonly session: ort.InferenceSession) {}

  static async load(file: Uint8Array): Promise<Network> {
    await start();
    return new Network(await ort.InferenceSession.create(file, { executionProviders: ["wasm"] }));
  }

  /** Apply the network to `values` of shape (n, ...shape); return its output, (n, ...). */
  run(values: Float32Array, shape: number[]): Promise<Float32Array> {
    const call = this.last.then(() => this.call(values, shape));
    this.last = call.catch(() => undefined);
    return call;
  }

  /** Give the memory of the network back after the last call. */
  release(): void {
    void this.last.then(() => this.session.release());
  }

  private async call(values: Float32Array, shape: number[]): Promise<Float32Array> {
    const size = shape.reduce((product, n) => product * n, 1);
    const input = new ort.Tensor("float32", values, [values.length / size, ...shape]);
    const outputs = await this.session.run({ [this.session.inputNames[0]!]: input });
    return outputs[this.session.outputNames[0]!]!.data as Float32Array;
  }
}
