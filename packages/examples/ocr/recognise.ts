import { type SessionHandle, Tensor } from '@onnxserve/handler-kit';
import { ctcGreedyDecode } from '@onnxserve/handler-kit/postprocess';
import { type Picture, turned, writePlanes } from './picture.js';

const lineHeight = 48;
const orientationWidth = 192;
/** Lines are padded to a multiple of this, so that lines of about the same length share a run. */
const widthStep = 160;
const minimumWidth = 320;
const maximumWidth = 3200;
const normalisation = { mean: [0.5, 0.5, 0.5], deviation: [0.5, 0.5, 0.5] } as const;

export interface ReadLine {
  readonly text: string;
  /** Mean probability of the characters, 0 to 1; 0 for an empty line. */
  readonly score: number;
}

/** Turns the lines that lie upside down. */
export async function uprightLines(session: SessionHandle, lines: readonly Picture[], linesPerRun: number): Promise<Picture[]> {
  const result: Picture[] = [];
  for (let start = 0; start < lines.length; start += linesPerRun) {
    const group = lines.slice(start, start + linesPerRun);
    const probabilities = await run(session, group, orientationWidth);
    for (const [index, line] of group.entries()) {
      result.push((probabilities.data as Float32Array)[index * 2 + 1]! > 0.9 ? turned(line) : line);
    }
  }
  return result;
}

/**
 * Reads the lines, those of like width together.
 * @param characters what the classes of the network mean; class 0 is the blank
 */
export async function recogniseLines(
  session: SessionHandle,
  lines: readonly Picture[],
  characters: readonly string[],
  linesPerRun: number,
): Promise<ReadLine[]> {
  const result: ReadLine[] = [];
  for (const [width, members] of groupedByWidth(lines)) {
    for (let start = 0; start < members.length; start += linesPerRun) {
      const group = members.slice(start, start + linesPerRun);
      const output = await run(
        session,
        group.map((index) => lines[index]!),
        width,
      );
      const texts = ctcGreedyDecode(output, { labels: characters });
      for (const [row, { text, score }] of texts.entries()) result[group[row]!] = { text, score };
    }
  }
  return result;
}

function groupedByWidth(lines: readonly Picture[]): Map<number, number[]> {
  const groups = new Map<number, number[]>();
  for (const [index, line] of lines.entries()) {
    const wanted = Math.ceil(naturalWidth(line) / widthStep) * widthStep;
    const width = Math.min(maximumWidth, Math.max(minimumWidth, wanted));
    const group = groups.get(width);
    if (group === undefined) groups.set(width, [index]);
    else group.push(index);
  }
  return groups;
}

/** Width of a line that is scaled to the height that the networks want. */
function naturalWidth({ width, height }: Picture): number {
  return Math.ceil((lineHeight * width) / height);
}

/** One run over lines scaled to one height, cut off or padded with grey to one width. */
async function run(session: SessionHandle, lines: readonly Picture[], width: number): Promise<Tensor> {
  const size = 3 * lineHeight * width;
  const planes = new Float32Array(lines.length * size);
  for (const [index, line] of lines.entries()) {
    const target = planes.subarray(index * size, (index + 1) * size);
    writePlanes(line, { width: Math.min(width, naturalWidth(line)), height: lineHeight }, normalisation, target, width);
  }
  const feeds = { [session.inputs[0]!.name]: new Tensor('FP32', [lines.length, 3, lineHeight, width], planes) };
  return (await session.run(feeds))[session.outputs[0]!.name]!;
}
