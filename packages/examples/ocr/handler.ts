import { defineHandler, PredictionError, type SessionHandle } from '@onnxserve/handler-kit';
import { cropLine } from './crop.js';
import { type DetectionSettings, detectLines } from './detect.js';
import type { Box } from './geometry.js';
import { decodePicture, type Picture } from './picture.js';
import { recogniseLines, uprightLines } from './recognise.js';

interface Settings extends DetectionSettings {
  /** Pictures with a longer side are scaled down before anything else. */
  readonly longestSide: number;
  /** Lines with a lower score are left out. */
  readonly minimumScore: number;
  readonly linesPerRun: number;
}

const defaults: Settings = {
  longestSide: 2048,
  limitSideLength: 960,
  threshold: 0.3,
  boxThreshold: 0.6,
  unclipRatio: 1.5,
  minimumScore: 0.5,
  linesPerRun: 8,
};

interface Page {
  readonly picture: Picture;
  /** From the picture's pixels to those that the client sent. */
  readonly scale: number;
  readonly signal: AbortSignal;
}

/** A line on the page, with its box in the pixels that the client sent. */
interface FoundLine {
  readonly text: string;
  readonly score: number;
  readonly box: Box;
}

export default defineHandler({
  async load(ctx) {
    const keys = (await ctx.model.text('ppocr_keys_v1.txt')).split(/\r?\n/);
    if (keys.at(-1) === '') keys.pop();
    return {
      settings: { ...defaults, ...(ctx.model.config['ocr'] as Partial<Settings> | undefined) },
      characters: ['', ...keys, ' '],
    };
  },

  async preprocess(request, ctx): Promise<Page> {
    const decoded = await decodePicture(request.body(), ctx.state.settings.longestSide);
    return { ...decoded, signal: request.signal };
  },

  /** Pages differ in size and are searched one by one; the lines of all of them are read together. */
  async inference(batch: readonly Page[], ctx): Promise<Array<FoundLine[] | Error>> {
    const { settings, characters } = ctx.state;
    const results: Array<FoundLine[] | Error> = batch.map(() => []);
    const found: Array<{ readonly page: number; readonly box: Box; readonly line: Picture }> = [];
    for (const [page, { picture, signal }] of batch.entries()) {
      try {
        signal.throwIfAborted();
        for (const box of await detectLines(named(ctx.sessions, 'detection'), picture, settings)) {
          const line = cropLine(picture, box);
          if (line !== undefined) found.push({ page, box, line });
        }
      } catch (error) {
        results[page] = error as Error;
      }
    }
    const lines = found.filter(({ page }) => Array.isArray(results[page]));
    const upright = await uprightLines(
      named(ctx.sessions, 'orientation'),
      lines.map(({ line }) => line),
      settings.linesPerRun,
    );
    const read = await recogniseLines(ctx.session!, upright, characters, settings.linesPerRun);
    for (const [index, { page, box }] of lines.entries()) {
      const result = results[page]!;
      const { text, score } = read[index]!;
      if (result instanceof Error || score < settings.minimumScore) continue;
      const { scale } = batch[page]!;
      const original = box.map(([x, y]) => [Math.round(x * scale), Math.round(y * scale)]) as unknown as Box;
      result.push({ text, score: Number(score.toFixed(5)), box: original });
    }
    return results;
  },

  postprocess: (lines: FoundLine[]) => lines,
});

function named(sessions: Readonly<Record<string, SessionHandle>>, name: string): SessionHandle {
  const session = sessions[name];
  if (session === undefined) {
    throw new PredictionError(`model-config.yaml names no session "${name}"; add it under "onnx: sessions:"`, 500);
  }
  return session;
}
