/** How speech is cut out of the probabilities; the names and the defaults are silero-vad's own. */
export interface SegmentSettings {
  /** Probability from which on speech begins. It ends below this less 0.15. */
  readonly threshold: number;
  /** Shorter speech is left out. */
  readonly min_speech_duration_ms: number;
  /** Speech goes on over shorter pauses. */
  readonly min_silence_duration_ms: number;
  /** Added at both ends, at most up to the middle of a pause. */
  readonly speech_pad_ms: number;
}

/** Speech, in seconds from the beginning of the recording. */
export interface Segment {
  readonly start: number;
  readonly end: number;
}

export const sampleRate = 16_000;
export const windowSize = 512;

/**
 * @param probabilities one for each window of 512 samples at 16 kHz
 * @param length samples of the recording
 */
export function speechSegments(probabilities: Float32Array, length: number, settings: SegmentSettings): Segment[] {
  const samples = (milliseconds: number) => (sampleRate * milliseconds) / 1000;
  const minimum = samples(settings.min_speech_duration_ms);
  const found = rawSegments(probabilities, length, settings).filter(({ start, end }) => end - start > minimum);
  return padded(found, length, samples(settings.speech_pad_ms)).map(({ start, end }) => ({
    start: seconds(start),
    end: seconds(end),
  }));
}

/** Speech between a window at the threshold and the first of the low windows that last long enough, in samples. */
function rawSegments(probabilities: Float32Array, length: number, settings: SegmentSettings): Segment[] {
  const low = Math.max(settings.threshold - 0.15, 0.01);
  const minimumSilence = (sampleRate * settings.min_silence_duration_ms) / 1000;
  const found: Segment[] = [];
  let start: number | undefined;
  let quietSince: number | undefined;
  for (const [index, probability] of probabilities.entries()) {
    const now = index * windowSize;
    if (probability >= settings.threshold) {
      quietSince = undefined;
      start ??= now;
    } else if (probability < low && start !== undefined) {
      quietSince ??= now;
      if (now - quietSince < minimumSilence) continue;
      found.push({ start, end: quietSince });
      start = quietSince = undefined;
    }
  }
  if (start !== undefined) found.push({ start, end: length });
  return found;
}

/** Segments with `pad` samples more at both ends; neighbours that would overlap share the pause between them. */
function padded(segments: readonly Segment[], length: number, pad: number): Segment[] {
  const between = (before: Segment, after: Segment) => Math.min(pad, Math.floor((after.start - before.end) / 2));
  return segments.map((segment, index) => {
    const previous = segments[index - 1];
    const next = segments[index + 1];
    return {
      start: Math.max(0, segment.start - (previous === undefined ? pad : between(previous, segment))),
      end: Math.min(length, segment.end + (next === undefined ? pad : between(segment, next))),
    };
  });
}

function seconds(samples: number): number {
  return Math.round((samples / sampleRate) * 1000) / 1000;
}
