import { type DataOf, type Datatype, elementCount, type NamedTensors, typedArrayOf } from '@onnxserve/handler-kit';
import type { PackedTensors } from './thread-messages.js';

const SMALLEST = 4096;
/** Bytes kept for later feeds; what comes back beyond is let go. */
const MOST_KEPT = 64 * 1024 * 1024;

/**
 * Memory that travels to the inference thread with the feeds and comes back with the outputs. A new buffer for every run would
 * cost its zeroing, its page faults and, above all, the garbage collector's attention.
 */
export class FeedMemory {
  /** Free buffers by size, a power of two. */
  readonly #free = new Map<number, ArrayBuffer[]>();
  #kept = 0;

  /**
   * Copies the rows of several requests behind each other into memory that may be moved.
   * @param pieces equal in names, datatypes and trailing dimensions; a scalar is taken from the first
   */
  gather(pieces: readonly NamedTensors[]): { packed: PackedTensors; transfer: ArrayBuffer[] } {
    const transfer: ArrayBuffer[] = [];
    const packed = Object.entries(pieces[0]!).map(([name, first]) => {
      const tensors = first.shape.length === 0 ? [first] : pieces.map((piece) => piece[name]!);
      const rows = tensors.reduce((sum, tensor) => sum + (tensor.shape[0] ?? 1), 0);
      const shape = first.shape.length === 0 ? first.shape : [rows, ...first.shape.slice(1)];
      const { datatype } = first;
      if (datatype === 'BYTES')
        return { name, datatype, shape, data: tensors.flatMap((tensor) => tensor.data as DataOf['BYTES']) };
      const length = elementCount(shape);
      const buffer = this.#take(length * typedArrayOf[datatype].BYTES_PER_ELEMENT);
      const data = new typedArrayOf[datatype](buffer, 0, length);
      let at = 0;
      for (const tensor of tensors) {
        data.set(tensor.data as never, at);
        at += tensor.data.length;
      }
      transfer.push(buffer);
      return { name, datatype, shape, data: data as DataOf[Datatype] };
    });
    return { packed, transfer };
  }

  giveBack(buffers: readonly ArrayBuffer[]): void {
    for (const buffer of buffers) {
      if (this.#kept + buffer.byteLength > MOST_KEPT) continue;
      this.#kept += buffer.byteLength;
      const same = this.#free.get(buffer.byteLength);
      if (same === undefined) this.#free.set(buffer.byteLength, [buffer]);
      else same.push(buffer);
    }
  }

  #take(bytes: number): ArrayBuffer {
    const size = Math.max(SMALLEST, 2 ** Math.ceil(Math.log2(Math.max(1, bytes))));
    const found = this.#free.get(size)?.pop();
    if (found === undefined) return new ArrayBuffer(size);
    this.#kept -= size;
    return found;
  }
}
