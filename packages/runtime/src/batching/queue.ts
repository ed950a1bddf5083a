import type { Job } from './job.js';

/** First in, first out; removal in the middle is a mark, swept when the head passes it. */
export class JobQueue {
  #items: Array<Job | undefined> = [];
  #head = 0;
  #live = 0;

  get length(): number {
    return this.#live;
  }

  push(job: Job): void {
    this.#items.push(job);
    this.#live++;
  }

  /** Puts jobs back where they came from: before everything younger. */
  putBack(jobs: readonly Job[]): void {
    const waiting = this.#items.slice(this.#head).filter((job) => job !== undefined);
    this.#items = [...jobs, ...waiting].sort((a, b) => a.id - b.id);
    this.#head = 0;
    this.#live = this.#items.length;
  }

  peek(): Job | undefined {
    this.#skip();
    return this.#items[this.#head];
  }

  shift(): Job | undefined {
    this.#skip();
    const job = this.#items[this.#head];
    if (job === undefined) return undefined;
    this.#items[this.#head++] = undefined;
    this.#live--;
    if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return job;
  }

  /** The youngest. */
  peekLast(): Job | undefined {
    while (this.#items.length > this.#head && this.#items.at(-1) === undefined) this.#items.pop();
    return this.#items.length > this.#head ? this.#items.at(-1) : undefined;
  }

  pop(): Job | undefined {
    const job = this.peekLast();
    if (job === undefined) return undefined;
    this.#items.pop();
    this.#live--;
    return job;
  }

  /** @returns false when the job was not waiting here */
  remove(job: Job): boolean {
    const at = this.#items.indexOf(job, this.#head);
    if (at < 0) return false;
    this.#items[at] = undefined;
    this.#live--;
    // While the head waits it passes no marks, however many clients come and leave behind it.
    if (this.#items.length - this.#head > 2 * this.#live + 1024) this.#sweep();
    return true;
  }

  /** Takes everything out. */
  drain(): Job[] {
    const jobs = this.#items.slice(this.#head).filter((job) => job !== undefined);
    this.#items = [];
    this.#head = 0;
    this.#live = 0;
    return jobs;
  }

  #sweep(): void {
    this.#items = this.#items.slice(this.#head).filter((job) => job !== undefined);
    this.#head = 0;
  }

  #skip(): void {
    while (this.#head < this.#items.length && this.#items[this.#head] === undefined) this.#head++;
    if (this.#head === this.#items.length && this.#head > 0) {
      this.#items = [];
      this.#head = 0;
    }
  }
}
