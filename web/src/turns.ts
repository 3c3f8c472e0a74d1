/** Takes turns: one job at a time, the most urgent first, with a pause for the page between them. */

/** 0 is what follows a slider, 1 another single image, 2 everything else. */
export type Priority = 0 | 1 | 2;

export class Turns {
  private readonly waiting: (() => Promise<void>)[][] = [[], [], []];
  private busy = false;

  constructor(private readonly pause: () => Promise<void> = nextTask) {}

  /** Do a job when its turn comes: after those of its priority that wait already. */
  take<T>(job: () => Promise<T>, priority: Priority): Promise<T> {
    const done = new Promise<T>((resolve, reject) => {
      this.waiting[priority]!.push(() => job().then(resolve, reject));
    });
    if (!this.busy) void this.work();
    return done;
  }

  private async work(): Promise<void> {
    this.busy = true;
    // Jobs that are asked for together are compared before the first one begins.
    await Promise.resolve();
    for (let job = this.next(); job; job = this.next()) {
      await job();
      await this.pause();
    }
    this.busy = false;
  }

  private next(): (() => Promise<void>) | undefined {
    return this.waiting.find((jobs) => jobs.length > 0)?.shift();
  }
}

/** Let the page handle events and draw. A message comes sooner than the least timeout of browsers. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
