import type { Duplex } from 'node:stream';
import { BrokenFrameError, encodeFrame, type Frame, FrameReader } from './frames.js';

/** Frames over a socket. What is sent in one turn of the event loop leaves in one write. */
export class Connection {
  readonly #socket: Duplex;
  #corked = false;
  #drained: Array<() => void> = [];

  constructor(socket: Duplex, onFrame: (frame: Frame) => void, onClose: (error: Error | undefined) => void) {
    this.#socket = socket;
    const reader = new FrameReader(onFrame);
    let failure: Error | undefined;
    socket.on('data', (chunk: Buffer) => {
      try {
        reader.push(chunk);
      } catch (error) {
        // Whatever wrote there, no frame after it can be trusted.
        if (!(error instanceof BrokenFrameError)) throw error;
        socket.destroy(error);
      }
    });
    socket.on('error', (error: Error) => {
      failure = error;
    });
    socket.on('drain', () => this.#release());
    socket.on('close', () => {
      this.#release();
      onClose(failure);
    });
    socket.on('end', () => socket.end());
  }

  send(meta: unknown, blobs?: readonly Uint8Array[]): void {
    if (this.#socket.destroyed || this.#socket.writableEnded) return;
    if (!this.#corked) {
      this.#corked = true;
      this.#socket.cork();
      process.nextTick(() => this.flush());
    }
    for (const piece of encodeFrame(meta, blobs)) this.#socket.write(piece);
  }

  /** Writes at once what was sent in this turn. Before anything that may block the event loop. */
  flush(): void {
    if (!this.#corked) return;
    this.#corked = false;
    this.#socket.uncork();
  }

  /** Resolves when the socket takes more without buffering; at once when it does already. */
  async writable(): Promise<void> {
    if (!this.#socket.writableNeedDrain || this.#socket.destroyed) return;
    await new Promise<void>((resolve) => this.#drained.push(resolve));
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #release(): void {
    const waiting = this.#drained;
    this.#drained = [];
    for (const resolve of waiting) resolve();
  }
}
