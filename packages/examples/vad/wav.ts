import { PredictionError } from '@onnxserve/handler-kit';

export interface Audio {
  /** Samples a second. */
  readonly rate: number;
  /** One channel, -1 to 1: the mean of the channels of the file. */
  readonly samples: Float32Array;
}

interface Format {
  readonly code: number;
  readonly channels: number;
  readonly rate: number;
  readonly bits: number;
}

const pcm = 1;
const float = 3;
const extensible = 0xfffe;

/**
 * Reads a WAV file of integer (8, 16, 24, 32 bit) or floating-point (32, 64 bit) samples.
 * @throws {PredictionError} 400 naming what is wrong with it
 */
export function decodeWav(bytes: Uint8Array): Audio {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 12 || tag(view, 0) !== 'RIFF' || tag(view, 8) !== 'WAVE') {
    throw new PredictionError('the body is not a WAV file: it does not begin with RIFF and WAVE', 400);
  }
  let format: Format | undefined;
  for (let at = 12; at + 8 <= bytes.length;) {
    const name = tag(view, at);
    const start = at + 8;
    // A recorder that streams writes the size before it knows it: the data then goes to the end of the file.
    const size = Math.min(view.getUint32(at + 4, true), bytes.length - start);
    if (name === 'fmt ') format = readFormat(view, start, size);
    if (name === 'data') {
      if (format === undefined) throw new PredictionError('the WAV file has its data before its format', 400);
      return { rate: format.rate, samples: readSamples(view, start, size, format) };
    }
    at = start + size + (size % 2);
  }
  throw new PredictionError('the WAV file has no data', 400);
}

function tag(view: DataView, at: number): string {
  return String.fromCharCode(view.getUint8(at), view.getUint8(at + 1), view.getUint8(at + 2), view.getUint8(at + 3));
}

function readFormat(view: DataView, at: number, size: number): Format {
  if (size < 16) throw new PredictionError(`the format of the WAV file has ${size} bytes, at least 16 are needed`, 400);
  const written = view.getUint16(at, true);
  const format = {
    code: written === extensible && size >= 26 ? view.getUint16(at + 24, true) : written,
    channels: view.getUint16(at + 2, true),
    rate: view.getUint32(at + 4, true),
    bits: view.getUint16(at + 14, true),
  };
  const known =
    (format.code === pcm && [8, 16, 24, 32].includes(format.bits)) || (format.code === float && [32, 64].includes(format.bits));
  if (!known || format.channels === 0) {
    throw new PredictionError(
      `WAV format ${format.code} with ${format.bits} bits and ${format.channels} channels is not supported; ` +
        'send PCM of 8, 16, 24 or 32 bits or floating point of 32 or 64 bits',
      400,
    );
  }
  return format;
}

function readSamples(view: DataView, start: number, size: number, { code, channels, bits }: Format): Float32Array {
  const width = bits / 8;
  const read = sampleReader(view, code, bits);
  const samples = new Float32Array(Math.floor(size / (width * channels)));
  for (let index = 0; index < samples.length; index++) {
    let sum = 0;
    for (let channel = 0; channel < channels; channel++) sum += read(start + (index * channels + channel) * width);
    samples[index] = sum / channels;
  }
  return samples;
}

function sampleReader(view: DataView, code: number, bits: number): (at: number) => number {
  if (code === float) return bits === 32 ? (at) => view.getFloat32(at, true) : (at) => view.getFloat64(at, true);
  switch (bits) {
    case 8:
      return (at) => (view.getUint8(at) - 128) / 128;
    case 16:
      return (at) => view.getInt16(at, true) / 32_768;
    case 24:
      return (at) => (view.getUint16(at, true) + view.getInt8(at + 2) * 65_536) / 8_388_608;
    default:
      return (at) => view.getInt32(at, true) / 2_147_483_648;
  }
}
