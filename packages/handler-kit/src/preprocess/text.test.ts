import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { toArray } from '../convert.js';
import { loadTokenizer } from './text.js';

const vocab = Object.fromEntries(
  ['[PAD]', '[UNK]', '[CLS]', '[SEP]', 'hello', 'world', 'a', '##b'].map((token, id) => [token, id]),
);
const special = (token: string, type = 0) => ({ SpecialToken: { id: token, type_id: type } });
const sequence = (id: string, type = 0) => ({ Sequence: { id, type_id: type } });
const wordPiece = {
  version: '1.0',
  truncation: null,
  padding: null,
  added_tokens: ['[PAD]', '[UNK]', '[CLS]', '[SEP]'].map((content, id) => ({
    id,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  })),
  normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
  pre_tokenizer: { type: 'BertPreTokenizer' },
  post_processor: {
    type: 'TemplateProcessing',
    single: [special('[CLS]'), sequence('A'), special('[SEP]')],
    pair: [special('[CLS]'), sequence('A'), special('[SEP]'), sequence('B', 1), special('[SEP]', 1)],
    special_tokens: {
      '[CLS]': { id: '[CLS]', ids: [2], tokens: ['[CLS]'] },
      '[SEP]': { id: '[SEP]', ids: [3], tokens: ['[SEP]'] },
    },
  },
  decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
  model: { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100, vocab },
};

let folder: string;
const file = async (content: object | string): Promise<string> => {
  const path = join(folder, `${Math.random()}.json`);
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
};
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tokenizer-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

describe('encode', () => {
  it('pads to the longest text, with a mask', async () => {
    const tokenizer = await loadTokenizer(await file(wordPiece));
    const encoded = await tokenizer.encode(['Hello world ab', 'hello', '']);
    expect(toArray(encoded.input_ids)).toEqual([
      [2n, 4n, 5n, 6n, 7n, 3n],
      [2n, 4n, 3n, 0n, 0n, 0n],
      [2n, 3n, 0n, 0n, 0n, 0n],
    ]);
    expect(toArray(encoded.attention_mask)).toEqual([
      [1n, 1n, 1n, 1n, 1n, 1n],
      [1n, 1n, 1n, 0n, 0n, 0n],
      [1n, 1n, 0n, 0n, 0n, 0n],
    ]);
    expect(encoded.token_type_ids.datatype).toBe('INT64');
  });

  it('cuts long texts and keeps the last special token', async () => {
    const tokenizer = await loadTokenizer(await file(wordPiece), { maxLength: 4 });
    const encoded = await tokenizer.encode([Array.from({ length: 5000 }, () => 'hello').join(' ')]);
    expect(toArray(encoded.input_ids)).toEqual([[2n, 4n, 4n, 3n]]);
  });

  it('encodes pairs with type ids', async () => {
    const tokenizer = await loadTokenizer(await file(wordPiece));
    const encoded = await tokenizer.encode([['hello', 'world']]);
    expect(toArray(encoded.input_ids)).toEqual([[2n, 4n, 3n, 5n, 3n]]);
    expect(toArray(encoded.token_type_ids)).toEqual([[0n, 0n, 0n, 1n, 1n]]);
  });

  it('pads to a fixed length, on the side and with the id that the file names', async () => {
    const padding = {
      strategy: { Fixed: 9 },
      direction: 'Left',
      pad_to_multiple_of: null,
      pad_id: 7,
      pad_type_id: 0,
      pad_token: '##b',
    };
    const tokenizer = await loadTokenizer(await file({ ...wordPiece, padding }), { padding: 'max', maxLength: 5 });
    const encoded = await tokenizer.encode(['hello']);
    expect(toArray(encoded.input_ids)).toEqual([[7n, 7n, 2n, 4n, 3n]]);
    expect(toArray(encoded.attention_mask)).toEqual([[0n, 0n, 1n, 1n, 1n]]);
  });

  it('keeps the limit of the file', async () => {
    const truncation = { direction: 'Right', max_length: 3, strategy: 'LongestFirst', stride: 0 };
    const tokenizer = await loadTokenizer(await file({ ...wordPiece, truncation }));
    expect((await tokenizer.encode(['hello world hello'])).input_ids.shape).toEqual([1, 3]);
  });

  it('takes no texts at all, and decodes ids', async () => {
    const tokenizer = await loadTokenizer(await file(wordPiece));
    expect((await tokenizer.encode([])).input_ids.shape).toEqual([0, 0]);
    await expect(tokenizer.decode([2n, 4n, 5n, 3n])).resolves.toBe('hello world');
    await expect(tokenizer.decode([2, 4], { skipSpecialTokens: false })).resolves.toBe('[CLS] hello');
  });
});

describe('loading', () => {
  it('names the file that it cannot use', async () => {
    const path = await file({ version: '1.0', model: { type: 'Unheard' } });
    await expect(loadTokenizer(path)).rejects.toThrow(path);
    await expect(loadTokenizer(await file('not json'))).rejects.toThrow('not a tokenizer');
    await expect(loadTokenizer(join(folder, 'absent.json'))).rejects.toThrow('absent.json');
    await expect(loadTokenizer(await file(wordPiece), { padding: 'max' })).rejects.toThrow('maxLength');
  });
});
