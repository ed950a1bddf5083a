import { PredictionError } from '../errors.js';

/** Sound as floats from -1 to 1, one array for each channel. */
export interface Audio {
  /** Samples per second. */
  readonly sampleRate: number;
  readonly channels: readonly Float32Array[];
}

interface Format {
  readonly float: boolean;
  readonly channels: number;
  readonly sampleRate: number;
  readonly bytes: number;
}

const pcm = 1;
const ieeeFloat = 3;
const extensible = 0xfffe;

/**
 * Decodes a WAV file: PCM of 8, 16, 24 and 32 bits and floats of 32 and 64, `WAVE_FORMAT_EXTENSIBLE` included.
 * A data chunk whose length was left open (0 or 0xffffffff, as streaming writers do) reaches to the end of the file.
 * @throws {PredictionError} 400 saying what is wrong; 415 for an encoding that is not supported
 */
export function decodeWav(bytes: Uint8Array): Audio {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (file.length < 12 || file.toString('latin1', 0, 4) !== 'RIFF' || file.toString('latin1', 8, 12) !== 'WAVE') {
    throw new PredictionError(
      file.length === 0 ? 'the audio is empty' : 'the audio is not a WAV file (RIFF/WAVE header expected)',
      400,
    );
  }
  let format: Format | undefined;
  for (let at = 12; at + 8 <= file.length;) {
    const id = file.toString('latin1', at, at + 4);
    const size = file.readUInt32LE(at + 4);
    const start = at + 8;
    if (id === 'data') {
      if (!format) throw broken('the "data" chunk comes before the "fmt " chunk');
      const open = size === 0xffff_ffff || (size === 0 && start < file.length);
      if (!open && start + size > file.length) throw broken(`it ends after ${file.length - start} of ${size} bytes of sound`);
      return samples(file.subarray(start, open ? file.length : start + size), format);
    }
    if (id === 'fmt ') {
      if (start + size > file.length) throw broken('it ends within the "fmt " chunk');
      format = parseFormat(file.subarray(start, start + size));
    }
    at = start + size + (size % 2);
  }
  throw broken(format ? 'it has no "data" chunk' : 'it has no "fmt " chunk');
}

function parseFormat(chunk: Buffer): Format {
  if (chunk.length < 16) throw broken(`its "fmt " chunk has ${chunk.length} bytes, 16 are needed`);
  let tag = chunk.readUInt16LE(0);
  // The real tag is the beginning of the subformat's GUID.
  if (tag === extensible) {
    if (chunk.length < 40) throw broken('its extensible "fmt " chunk is too short');
    tag = chunk.readUInt16LE(24);
  }
  const channels = chunk.readUInt16LE(2);
  const sampleRate = chunk.readUInt32LE(4);
  const bits = chunk.readUInt16LE(14);
  const supported = (tag === pcm && [8, 16, 24, 32].includes(bits)) || (tag === ieeeFloat && [32, 64].includes(bits));
  if (!supported) {
    throw new PredictionError(
      `WAV encoding ${tag} with ${bits} bits is not supported; send PCM of 8, 16, 24 or 32 bits, or 32- or 64-bit floats`,
      415,
    );
  }
  if (channels === 0 || sampleRate === 0) throw broken(`it names ${channels} channels at ${sampleRate} Hz`);
  if (chunk.readUInt16LE(12) !== (channels * bits) / 8)
    throw broken(`its block size does not fit ${channels} channels of ${bits} bits`);
  return { float: tag === ieeeFloat, channels, sampleRate, bytes: bits / 8 };
}

function samples(data: Buffer, format: Format): Audio {
  const { channels: count, bytes, sampleRate } = format;
  const frames = Math.floor(data.length / (count * bytes));
  const read = reader(data, format);
  const channels = Array.from({ length: count }, () => new Float32Array(frames));
  let at = 0;
  for (let frame = 0; frame < frames; frame++) {
    for (let channel = 0; channel < count; channel++) {
      channels[channel]![frame] = read(at);
      at += bytes;
    }
  }
  return { sampleRate, channels };
}

function reader(data: Buffer, { float, bytes }: Format): (at: number) => number {
  if (float) return bytes === 4 ? (at) => data.readFloatLE(at) : (at) => data.readDoubleLE(at);
  // Eight bits are unsigned, all others signed.
  if (bytes === 1) return (at) => (data[at]! - 128) / 128;
  const full = 2 ** (bytes * 8 - 1);
  return (at) => data.readIntLE(at, bytes) / full;
}

function broken(why: string): PredictionError {
  return new PredictionError(`the WAV file is broken: ${why}`, 400);
}
