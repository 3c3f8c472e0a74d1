/** Timers that are left when the tests of a file end are cancelled: their page is gone. */
import { afterAll } from "vitest";

const start = globalThis.setTimeout;
const started: ReturnType<typeof start>[] = [];

globalThis.setTimeout = Object.assign((...given: Parameters<typeof start>) => {
  const timer = start(...given);
  started.push(timer);
  return timer;
}, start);

afterAll(() => started.forEach((timer) => clearTimeout(timer)));
