/** Read a NumPy file (.npy) of numbers. */

export interface NumberArray {
  dtype: string;
  shape: number[];
  values: Float64Array;
}

type Reader = (view: DataView, at: number) => number;

/** By the type in the header: bytes of a number, and how one is read. */
const TYPES: Record<string, [number, Reader]> = {
  "<f4": [4, (view, at) => view.getFloat32(at, true)],
  "<f8": [8, (view, at) => view.getFloat64(at, true)],
  "|u1": [1, (view, at) => view.getUint8(at)],
  "<u2": [2, (view, at) => view.getUint16(at, true)],
  "<i2": [2, (view, at) => view.getInt16(at, true)],
  "<i4": [4, (view, at) => view.getInt32(at, true)],
};

export function readNpy(bytes: Uint8Array): NumberArray {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [header, start] = readHeader(bytes, view);
  const dtype = /'descr':\s*'([^']*)'/.exec(header)?.[1] ?? "";
  const shape = (/'shape':\s*\(([^)]*)\)/.exec(header)?.[1] ?? "")
    .split(",")
    .filter((part) => part.trim())
    .map(Number);
  if (/'fortran_order':\s*True/.test(header)) {
    throw new Error("it is in Fortran order. Save it with np.save(file, np.ascontiguousarray(x))");
  }
  const type = TYPES[dtype];
  if (!type)
    throw new Error(
      `it holds the type ${dtype || "unknown"}. Save it as float32, float64, uint8 or uint16`,
    );
  return { dtype, shape, values: readValues(view, start, shape, type) };
}

function readHeader(bytes: Uint8Array, view: DataView): [string, number] {
  const isNpy =
    bytes.length > 12 &&
    bytes[0] === 0x93 &&
    new TextDecoder().decode(bytes.subarray(1, 6)) === "NUMPY";
  if (!isNpy) throw new Error("it is not a NumPy file");
  const long = bytes[6]! > 1;
  const length = long ? view.getUint32(8, true) : view.getUint16(8, true);
  const start = (long ? 12 : 10) + length;
  return [new TextDecoder().decode(bytes.subarray(long ? 12 : 10, start)), start];
}

function readValues(
  view: DataView,
  start: number,
  shape: number[],
  [size, read]: [number, Reader],
): Float64Array {
  const count = shape.reduce((product, n) => product * n, 1);
  if (!Number.isInteger(count) || count < 0) throw new Error("its header has no shape");
  if (view.byteLength < start + count * size) throw new Error("it is cut off");
  return Float64Array.from({ length: count }, (_, n) => read(view, start + n * size));
}
