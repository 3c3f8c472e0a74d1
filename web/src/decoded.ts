/** Decode codes for a component; while the networks are busy, only the newest request waits. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Code, Model } from "./model";
import { canDecode, noDecoder, report, succeeded } from "./state";
import { messageOf } from "./text";

export interface Decoded {
  /** The codes that were decoded, which may be older than the ones that were asked for. */
  codes: readonly Code[];
  /** (codes, length), as the network has values. */
  values: Float32Array;
}

/**
 * Return the newest decoded codes, or null before the first are there.
 *
 * @param first Whether they go before everything that waits.
 */
export function useDecoded(
  model: Model | undefined,
  codes: readonly Code[],
  first = false,
): Decoded | null {
  const [decoded, setDecoded] = useState<(Decoded & { model: Model }) | null>(null);
  const queue = useRef<Queue>(null);
  queue.current ??= new Queue();
  const key = JSON.stringify(codes);
  useEffect(() => {
    if (!model || codes.length === 0) return;
    queue.current!.ask(async () => {
      const values = await model.decode(codes, first ? 0 : codes.length === 1 ? 1 : 2);
      canDecode.value = true;
      succeeded("decode");
      setDecoded({ model, codes, values });
    });
    return () => queue.current!.drop(); // a closed model must not load its decoder again
  }, [model, key]);
  return decoded && decoded.model === model ? decoded : null;
}

/** The decoded observations one by one; the same arrays until others are decoded, so that a drawing
 * can tell whether it has to be drawn again. */
export function useParts(decoded: Decoded | null): readonly Float32Array[] {
  return useMemo(() => {
    const count = decoded?.codes.length ?? 0;
    const length = decoded ? decoded.values.length / count : 0;
    return Array.from({ length: count }, (_, n) =>
      decoded!.values.subarray(n * length, (n + 1) * length),
    );
  }, [decoded]);
}

/** Runs one job at a time and remembers only the last one that was asked for meanwhile. */
class Queue {
  private busy = false;
  private next: (() => Promise<void>) | null = null;

  ask(job: () => Promise<void>): void {
    this.next = job;
    if (!this.busy) void this.work();
  }

  /** Forget the job that waits. */
  drop(): void {
    this.next = null;
  }

  private async work(): Promise<void> {
    this.busy = true;
    while (this.next) {
      const job = this.next;
      this.next = null;
      try {
        await job();
      } catch (error) {
        if (canDecode.value) report("decode", `The decoder failed: ${messageOf(error)}`);
        else [canDecode.value, noDecoder.value] = [false, messageOf(error)];
      }
    }
    this.busy = false;
  }
}
