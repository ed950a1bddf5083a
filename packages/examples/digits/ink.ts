/** A grey picture, one byte a pixel, row by row. */
export interface GreyPicture {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array;
}

export type InkKind = 'dark-on-light' | 'light-on-dark';

/** Share of the strongest ink from which on a pixel counts as part of the digit. */
const inkThreshold = 0.25;
/** Grey levels by which the strongest ink must differ from the background. */
const minimumContrast = 24;

/**
 * Turns a picture of one digit into what the network was trained on: 8x8 cells of 0 (no ink) to 16 (all ink), the digit
 * cropped and centred. The background is the median of the picture's border, whether light or dark.
 * @returns undefined when nothing stands out from the background
 */
export function inkCells(picture: GreyPicture): { readonly cells: Float32Array; readonly ink: InkKind } | undefined {
  const background = borderMedian(picture);
  const dark = background > 127.5;
  let contrast = 0;
  for (const value of picture.data) contrast = Math.max(contrast, dark ? background - value : value - background);
  if (contrast < minimumContrast) return undefined;

  const strength = Float64Array.from(picture.data, (value) =>
    Math.max(0, (dark ? background - value : value - background) / contrast),
  );
  return { cells: average(strength, picture.width, inkBox(strength, picture)), ink: dark ? 'dark-on-light' : 'light-on-dark' };
}

interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

function borderMedian({ width, height, data }: GreyPicture): number {
  const border: number[] = [];
  for (let y = 0; y < height; y++) {
    const whole = y === 0 || y === height - 1;
    for (let x = 0; x < width; x += whole ? 1 : Math.max(1, width - 1)) border.push(data[y * width + x]!);
  }
  border.sort((a, b) => a - b);
  const middle = border.length >> 1;
  return border.length % 2 === 1 ? border[middle]! : (border[middle - 1]! + border[middle]!) / 2;
}

function inkBox(strength: Float64Array, { width, height }: GreyPicture): Box {
  const box = { left: width, top: height, right: 0, bottom: 0 };
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (strength[y * width + x]! <= inkThreshold) continue;
      box.left = Math.min(box.left, x);
      box.top = Math.min(box.top, y);
      box.right = Math.max(box.right, x + 1);
      box.bottom = Math.max(box.bottom, y + 1);
    }
  }
  return box;
}

/** Mean ink of each of 8x8 cells laid over the square that holds the box in its centre; partly covered pixels count in part. */
function average(strength: Float64Array, width: number, box: Box): Float32Array {
  const boxWidth = box.right - box.left;
  const boxHeight = box.bottom - box.top;
  const cell = Math.max(boxWidth, boxHeight) / 8;
  const startX = (cell * 8 - boxWidth) / 2;
  const startY = (cell * 8 - boxHeight) / 2;
  const sums = new Float64Array(64);
  for (let y = 0; y < boxHeight; y++) {
    for (const [row, shareY] of shares(startY + y, cell)) {
      for (let x = 0; x < boxWidth; x++) {
        const value = strength[(box.top + y) * width + box.left + x]!;
        if (value === 0) continue;
        for (const [column, shareX] of shares(startX + x, cell)) sums[row * 8 + column]! += value * shareX * shareY;
      }
    }
  }
  return Float32Array.from(sums, (sum) => sum * 16);
}

/** The cells that a pixel starting at `start` touches, each with the share of the cell that the pixel covers. */
function shares(start: number, cell: number): Array<readonly [number, number]> {
  const result: Array<readonly [number, number]> = [];
  for (let index = Math.floor(start / cell); index < 8 && index * cell < start + 1; index++) {
    const covered = Math.min(start + 1, (index + 1) * cell) - Math.max(start, index * cell);
    if (covered > 0) result.push([index, covered / cell]);
  }
  return result;
}
