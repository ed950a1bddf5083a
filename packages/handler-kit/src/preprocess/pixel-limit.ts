/** As many as Pillow takes by itself. */
const usual = 178_956_970;

let limit = usual;

/** Pixels that a picture may have unless its handler says otherwise. */
export function pixelLimit(): number {
  return limit;
}

/** What `limit_max_image_pixels` of the server says, for the whole process. */
export function limitPixels(limited: boolean): void {
  limit = limited ? usual : Number.POSITIVE_INFINITY;
}
