import { readFile } from 'node:fs/promises';
import type * as Tokenizers from 'tokenizers';
import { optionalPeer } from '../optional-peer.js';
import type { PadValues } from '../pad.js';
import { Tensor } from '../tensor.js';

export interface TokenizerOptions {
  /** Longer texts are cut to so many tokens, special ones included; default what `tokenizer.json` says, else no limit. */
  readonly maxLength?: number;
  /** `longest` (default): to the longest text of the call. `max`: to `maxLength`, for models of a fixed length. */
  readonly padding?: 'longest' | 'max';
  /**
   * Widths are rounded up to a multiple of this, `maxLength` at most, for devices that prefer such sizes. That texts of nearly the same
   * length share a run is better left to a handler's `pad`.
   */
  readonly padToMultipleOf?: number;
  /** Id that fills; default what `tokenizer.json` says, else that of `[PAD]`, `<pad>` or `<|pad|>`, else 0. */
  readonly padId?: number;
}

/** One text, or a pair such as question and passage. */
export type TextInput = string | readonly [text: string, pair: string];

/** Model inputs, each INT64 `[texts, tokens]`. */
export interface EncodedTexts extends Record<string, Tensor> {
  readonly input_ids: Tensor<'INT64'>;
  readonly attention_mask: Tensor<'INT64'>;
  readonly token_type_ids: Tensor<'INT64'>;
}

/** A tokenizer with the ids of the reference implementation. */
export interface TextTokenizer {
  /** Encodes off the calling thread. An empty text gives its special tokens alone. */
  encode(texts: readonly TextInput[]): Promise<EncodedTexts>;
  decode(ids: Iterable<number | bigint>, options?: { readonly skipSpecialTokens?: boolean }): Promise<string>;
  readonly padId: number;
  /** For a handler's `pad`: texts of different lengths then share a run where that pays. */
  readonly pad: PadValues;
}

interface TokenizerFile {
  readonly truncation?: {
    readonly max_length?: number;
    readonly strategy?: string;
    readonly stride?: number;
    readonly direction?: string;
  } | null;
  readonly padding?: { readonly pad_id?: number; readonly direction?: string } | null;
}

/**
 * Loads a `tokenizer.json`. Needs the package `tokenizers`.
 * @param file path, for example `ctx.model.path('tokenizer.json')`
 * @throws naming the file when it cannot be read or is of a kind that is not supported
 */
export async function loadTokenizer(file: string, options: TokenizerOptions = {}): Promise<TextTokenizer> {
  const peer = await optionalPeer<typeof Tokenizers>('tokenizers', () => import('tokenizers'));
  const text = await readFile(file, 'utf8');
  let tokenizer: Tokenizers.Tokenizer;
  let settings: TokenizerFile;
  try {
    settings = JSON.parse(text) as TokenizerFile;
    tokenizer = peer.Tokenizer.fromString(text);
  } catch (error) {
    throw new Error(`${file} is not a tokenizer that can be loaded: ${(error as Error).message}`, { cause: error });
  }
  const maxLength = options.maxLength ?? settings.truncation?.max_length;
  if (options.padding === 'max' && maxLength === undefined) throw new Error('padding "max" needs maxLength');
  if (options.maxLength !== undefined) {
    const { strategy, stride, direction } = settings.truncation ?? {};
    tokenizer.setTruncation(options.maxLength, {
      ...(strategy === undefined ? {} : { strategy: strategy as never }),
      ...(stride === undefined ? {} : { stride }),
      ...(direction === undefined ? {} : { direction }),
    });
  }
  // Padding is done here, straight into the tensors.
  tokenizer.disablePadding();
  const padId = options.padId ?? settings.padding?.pad_id ?? padToken(tokenizer) ?? 0;
  const padLeft = settings.padding?.direction === 'Left';
  const multiple = options.padToMultipleOf ?? 1;
  if (!Number.isSafeInteger(multiple) || multiple < 1)
    throw new Error(`padToMultipleOf must be a whole number from 1, got ${multiple}`);
  const rounded = (length: number) => Math.max(length, Math.min(Math.ceil(length / multiple) * multiple, maxLength ?? Infinity));
  const side = padLeft ? 'left' : 'right';
  return {
    padId,
    pad: { input_ids: { value: padId, side }, attention_mask: { value: 0, side }, token_type_ids: { value: 0, side } },
    async encode(texts) {
      const encodings = await encodeAll(tokenizer, texts);
      const rows = encodings.map((it) => ({ ids: it.getIds(), mask: it.getAttentionMask(), types: it.getTypeIds() }));
      const longest = rows.reduce((length, { ids }) => Math.max(length, ids.length), 0);
      const width = options.padding === 'max' ? maxLength! : rounded(longest);
      const fill = (values: ReadonlyArray<readonly number[]>, pad: number): Tensor<'INT64'> =>
        padded(values, width, pad, padLeft);
      return {
        input_ids: fill(
          rows.map((row) => row.ids),
          padId,
        ),
        attention_mask: fill(
          rows.map((row) => row.mask),
          0,
        ),
        token_type_ids: fill(
          rows.map((row) => row.types),
          0,
        ),
      };
    },
    decode: async (ids, { skipSpecialTokens = true } = {}) => tokenizer.decode(Array.from(ids, Number), skipSpecialTokens),
  };
}

async function encodeAll(tokenizer: Tokenizers.Tokenizer, texts: readonly TextInput[]): Promise<Tokenizers.Encoding[]> {
  const single = texts.filter((item) => typeof item === 'string');
  if (single.length === texts.length) return tokenizer.encodeBatch(single);
  // The binding's batch call takes no pairs.
  return Promise.all(
    texts.map((item) => (typeof item === 'string' ? tokenizer.encode(item) : tokenizer.encode(item[0], item[1]))),
  );
}

function padded(rows: ReadonlyArray<readonly number[]>, width: number, pad: number, left: boolean): Tensor<'INT64'> {
  const data = new BigInt64Array(rows.length * width).fill(BigInt(pad));
  for (const [index, row] of rows.entries()) {
    const start = index * width + (left ? width - row.length : 0);
    for (const [at, value] of row.entries()) data[start + at] = BigInt(value);
  }
  return new Tensor('INT64', [rows.length, width], data);
}

function padToken(tokenizer: Tokenizers.Tokenizer): number | undefined {
  for (const token of ['[PAD]', '<pad>', '<|pad|>']) {
    const id = tokenizer.tokenToId(token);
    if (id !== null) return id;
  }
  return undefined;
}
