/** What stands here in the place of a Python package, by its import name. */
const counterparts: Readonly<Record<string, string>> = {
  torch: 'the server runs the model; `inference` and tensors come from @onnxserve/handler-kit',
  torchvision: '`imageTensor` of @onnxserve/handler-kit/preprocess/image (resize, crop, normalise)',
  PIL: '`imageTensor` or `decodeImage` of @onnxserve/handler-kit/preprocess/image',
  cv2: '`imageTensor` or `decodeImage` of @onnxserve/handler-kit/preprocess/image; else the package sharp',
  numpy: '`tensor` of @onnxserve/handler-kit, typed arrays, and @onnxserve/handler-kit/postprocess',
  scipy: '@onnxserve/handler-kit/postprocess has softmax, sigmoid and topK; else JavaScript of your own',
  transformers: '`loadTokenizer` of @onnxserve/handler-kit/preprocess/text reads tokenizer.json; the model is exported',
  tokenizers: '`loadTokenizer` of @onnxserve/handler-kit/preprocess/text reads the same tokenizer.json',
  sentencepiece: '`loadTokenizer` of @onnxserve/handler-kit/preprocess/text, after converting to tokenizer.json',
  torchaudio: '`audioTensor` of @onnxserve/handler-kit/preprocess/audio',
  librosa: '`audioTensor` of @onnxserve/handler-kit/preprocess/audio',
  soundfile: '`decodeWav` of @onnxserve/handler-kit/preprocess/audio',
  onnxruntime: 'the server runs the model; further ones are `ctx.sessions`, set with onnx.sessions',
  requests: '`fetch`',
  httpx: '`fetch`',
  aiohttp: '`fetch`',
  boto3: 'a package of npm, @aws-sdk/client-s3, bundled into the archive',
  pandas: 'JavaScript of your own',
  sklearn: 'a second ONNX model made by skl2onnx, named under onnx.sessions',
  yaml: '`ctx.model.config` is the parsed model-config.yaml',
  pydantic: 'a package of npm such as zod, bundled into the archive',
  nltk: 'JavaScript of your own or a package of npm, bundled into the archive',
  ts: '@onnxserve/handler-kit',
};

/** Modules that come with Python and need no counterpart that a reader would have to look for. */
const standard = new Set(
  (
    '__future__ abc argparse ast asyncio base64 binascii bisect calendar codecs collections concurrent contextlib copy csv ctypes ' +
    'dataclasses datetime decimal difflib enum errno functools gc glob gzip hashlib heapq hmac html http importlib inspect io ipaddress ' +
    'itertools json linecache locale logging math mimetypes multiprocessing numbers operator os pathlib pickle pkgutil platform pprint ' +
    'queue random re secrets select shlex shutil signal socket sqlite3 ssl statistics string struct subprocess sys tarfile tempfile ' +
    'textwrap threading time timeit traceback types typing unicodedata unittest urllib uuid warnings weakref xml zipfile zlib zoneinfo'
  ).split(' '),
);

/** @param module top name of an import, or of a requirement: `numpy` */
export function counterpartOf(module: string): string | undefined {
  return Object.hasOwn(counterparts, module) ? counterparts[module] : undefined;
}

export function isStandardModule(module: string): boolean {
  return standard.has(module);
}
