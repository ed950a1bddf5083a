/** How a picture is brought to the model's size. Sizes are in pixels. */
export type Resize =
  /** To exactly this size; the aspect ratio is not kept. */
  | { readonly mode: 'stretch'; readonly width: number; readonly height: number; readonly kernel?: Kernel }
  /**
   * The shorter side to `shortestSide` (default: the longer side of the result), then the centre is cut out. The longer side is rounded
   * down and offsets are rounded to the nearest, halves to even, as torchvision's `Resize` and `CenterCrop` do.
   */
  | {
      readonly mode: 'crop';
      readonly width: number;
      readonly height: number;
      readonly shortestSide?: number;
      readonly kernel?: Kernel;
    }
  /** As large as fits, the rest filled evenly on both sides; an odd pixel goes to the right or the bottom. */
  | {
      readonly mode: 'letterbox';
      readonly width: number;
      readonly height: number;
      readonly background?: Rgb;
      readonly kernel?: Kernel;
    };

/** `linear` is PIL's bilinear with antialiasing, the default of torchvision. */
export type Kernel = 'nearest' | 'linear' | 'cubic' | 'lanczos3';
export type Rgb = readonly [red: number, green: number, blue: number];

/** Where a picture lies in the result: `x' = x * scaleX + left`, and the same for y. */
export interface Geometry {
  readonly originalWidth: number;
  readonly originalHeight: number;
  readonly scaleX: number;
  readonly scaleY: number;
  /** Negative when that much was cut off. */
  readonly left: number;
  readonly top: number;
}

export interface Layout {
  readonly width: number;
  readonly height: number;
  /** The picture is scaled to this first. */
  readonly scaled: { readonly width: number; readonly height: number };
  readonly geometry: Geometry;
}

/** @throws {RangeError} for sizes that make no picture; the handler's bug */
export function layout(width: number, height: number, resize: Resize): Layout {
  for (const size of [resize.width, resize.height]) {
    if (!Number.isInteger(size) || size < 1)
      throw new RangeError(`a picture cannot be resized to ${resize.width} x ${resize.height}`);
  }
  const scaled = scaledSize(width, height, resize);
  const offset = resize.mode === 'letterbox' ? Math.floor : (half: number) => -roundHalfEven(-half);
  const geometry: Geometry = {
    originalWidth: width,
    originalHeight: height,
    scaleX: scaled.width / width,
    scaleY: scaled.height / height,
    left: offset((resize.width - scaled.width) / 2) || 0,
    top: offset((resize.height - scaled.height) / 2) || 0,
  };
  return { width: resize.width, height: resize.height, scaled, geometry };
}

function scaledSize(width: number, height: number, resize: Resize): { width: number; height: number } {
  const { mode } = resize;
  if (mode === 'stretch') return { width: resize.width, height: resize.height };
  if (mode === 'letterbox') {
    const scale = Math.min(resize.width / width, resize.height / height);
    return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) };
  }
  const longer = Math.max(resize.width, resize.height);
  const shortest = resize.shortestSide ?? longer;
  if (shortest < longer) {
    throw new RangeError(`shortestSide ${shortest} is smaller than the crop of ${resize.width} x ${resize.height}`);
  }
  return width <= height
    ? { width: shortest, height: Math.floor((shortest * height) / width) }
    : { width: Math.floor((shortest * width) / height), height: shortest };
}

function roundHalfEven(value: number): number {
  const rounded = Math.round(value);
  return Math.abs(value % 1) === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}
