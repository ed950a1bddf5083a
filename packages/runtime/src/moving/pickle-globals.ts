/** A class or function that a pickle names. */
export type PickleGlobal = readonly [module: string, name: string];

/** Bytes of argument by opcode; those not listed have none. */
const fixed: Readonly<Record<number, number>> = {
  0x71: 1,
  0x72: 4,
  0x68: 1,
  0x6a: 4,
  0x4a: 4,
  0x4b: 1,
  0x4d: 2,
  0x47: 8,
  0x80: 1,
  0x82: 1,
  0x83: 2,
  0x84: 4,
  0x95: 8,
};
/** Bytes of the length before an argument. */
const counted: Readonly<Record<number, number>> = {
  0x58: 4,
  0x55: 1,
  0x54: 4,
  0x42: 4,
  0x43: 1,
  0x8a: 1,
  0x8b: 4,
  0x8c: 1,
  0x8d: 8,
  0x8e: 8,
  0x96: 8,
};
/** Arguments of one line, as I, L, F, S, V, P, g, p have them. */
const lines = new Set([0x49, 0x4c, 0x46, 0x53, 0x56, 0x50, 0x67, 0x70]);
const texts = new Set([0x58, 0x55, 0x54, 0x8c, 0x8d]);
const opcodes = new Set([
  ...Buffer.from('(.012NQR]abdl}e)ostu~'),
  0x81,
  0x85,
  0x86,
  0x87,
  0x88,
  0x89,
  0x8f,
  0x90,
  0x91,
  0x92,
  0x93,
  0x94,
  0x97,
  0x98,
]);

/**
 * What a pickle, or several one after the other, would import. Only its opcodes are read, nothing is built.
 * Ends quietly at the first byte that is no opcode.
 */
export function pickleGlobals(bytes: Buffer): PickleGlobal[] {
  const found = new Map<string, PickleGlobal>();
  const strings: string[] = [];
  const add = (module: string, name: string) => found.set(`${module}.${name}`, [module, name]);
  let at = 0;
  const line = (): string => {
    const end = bytes.indexOf(0x0a, at);
    const text = bytes.toString('utf8', at, end === -1 ? bytes.length : end);
    at = end === -1 ? bytes.length : end + 1;
    return text;
  };
  while (at < bytes.length) {
    const opcode = bytes[at++]!;
    const size = counted[opcode];
    if (opcode === 0x63 || opcode === 0x69) add(line(), line());
    else if (lines.has(opcode)) line();
    else if (size !== undefined) {
      if (at + size > bytes.length) break;
      const length = size === 8 ? Number(bytes.readBigUInt64LE(at)) : bytes.readUIntLE(at, size);
      at += size;
      if (texts.has(opcode)) strings.push(bytes.toString('utf8', at, at + Math.min(length, 1000)));
      at += length;
    } else if (fixed[opcode] !== undefined) at += fixed[opcode];
    else if (!opcodes.has(opcode)) break;
    // The newest two strings are what protocol 4 takes from the stack.
    if (opcode === 0x93 && strings.length >= 2) add(strings.at(-2)!, strings.at(-1)!);
  }
  return [...found.values()];
}
