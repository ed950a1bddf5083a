import { open, type FileHandle } from 'node:fs/promises';

/** Weights that an ONNX file keeps in another file. */
export interface ExternalData {
  readonly location: string;
  /** Bytes. */
  readonly offset: number;
  /** Bytes; undefined for the rest of the file. */
  readonly length: number | undefined;
}

type MessageType = 'model' | 'graph' | 'node' | 'attribute' | 'tensor' | 'sparse' | 'function' | 'entry';

/** The fields of onnx.proto that lead to tensors. */
const children: Record<MessageType, Readonly<Record<number, MessageType>>> = {
  model: { 7: 'graph', 25: 'function' },
  graph: { 1: 'node', 5: 'tensor', 15: 'sparse' },
  function: { 7: 'node' },
  node: { 5: 'attribute' },
  attribute: { 5: 'tensor', 6: 'graph', 10: 'tensor', 11: 'graph', 22: 'sparse', 23: 'sparse' },
  sparse: { 1: 'tensor', 2: 'tensor' },
  tensor: { 13: 'entry' },
  entry: {},
};
const windowSize = 1 << 16;
const longestString = 1 << 14;

/**
 * Finds the external data of an ONNX file. Weights inside the file are skipped, never read, so a file of gigabytes takes no memory.
 * Lenient: what is no sound ONNX gives what was found until then; the session will say what is wrong with it.
 */
export async function readExternalData(file: string): Promise<ExternalData[]> {
  const handle = await open(file, 'r');
  try {
    return await scan(new Window(handle), (await handle.stat()).size);
  } finally {
    await handle.close();
  }
}

async function scan(window: Window, size: number): Promise<ExternalData[]> {
  const found: ExternalData[] = [];
  const open: Array<{ type: MessageType; end: number; values: Map<string, string>; key: string }> = [];
  const enter = (type: MessageType, end: number) => open.push({ type, end, values: new Map(), key: '' });
  enter('model', size);
  let at = 0;
  while (open.length > 0) {
    const message = open.at(-1)!;
    if (at >= message.end) {
      open.pop();
      if (message.type === 'tensor') addTensor(message.values, found);
      continue;
    }
    if (!window.has(at, 20)) await window.move(at);
    const tag = window.varint(at);
    if (tag === undefined) return found;
    at = tag.next;
    const field = Math.floor(tag.value / 8);
    const wire = tag.value % 8;
    if (wire === 0) {
      const value = window.varint(at);
      if (value === undefined) return found;
      at = value.next;
      continue;
    }
    if (wire === 1 || wire === 5) {
      at += wire === 1 ? 8 : 4;
      continue;
    }
    const length = wire === 2 ? window.varint(at) : undefined;
    if (length === undefined || length.next + length.value > message.end) return found;
    at = length.next;
    const end = at + length.value;
    const child = children[message.type][field];
    if (child !== undefined) {
      enter(child, end);
      continue;
    }
    if (message.type === 'entry' && length.value <= longestString) {
      if (!window.has(at, length.value)) await window.move(at);
      const text = window.text(at, end);
      // The pair belongs to the tensor that it stands in.
      if (field === 1) message.key = text;
      else if (field === 2) open.at(-2)?.values.set(message.key, text);
    }
    at = end;
  }
  return found;
}

function addTensor(values: ReadonlyMap<string, string>, found: ExternalData[]): void {
  const location = values.get('location');
  if (location === undefined) return;
  const length = values.get('length');
  found.push({
    location,
    offset: Number(values.get('offset') ?? 0) || 0,
    length: length === undefined ? undefined : Number(length),
  });
}

/** A part of the file in memory, moved along as it is read. */
class Window {
  readonly #handle: FileHandle;
  readonly #bytes = Buffer.alloc(windowSize);
  #start = 0;
  #length = 0;

  constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  has(at: number, bytes: number): boolean {
    return at >= this.#start && at + bytes <= this.#start + this.#length;
  }

  async move(at: number): Promise<void> {
    const { bytesRead } = await this.#handle.read(this.#bytes, 0, windowSize, at);
    this.#start = at;
    this.#length = bytesRead;
  }

  varint(at: number): { value: number; next: number } | undefined {
    let value = 0;
    for (let shift = 0; shift < 70; shift += 7, at++) {
      if (!this.has(at, 1)) return undefined;
      const byte = this.#bytes[at - this.#start]!;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return { value, next: at + 1 };
    }
    return undefined;
  }

  text(from: number, to: number): string {
    return this.#bytes.toString('utf8', from - this.#start, to - this.#start);
  }
}
