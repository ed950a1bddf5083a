export type OnnxValueKind =
  | { readonly kind: 'boolean' | 'text' | 'file' | 'files' | 'entries' | 'providers' }
  | { readonly kind: 'choice'; readonly choices: readonly string[] }
  | { readonly kind: 'integer'; readonly min: number; readonly max: number };

export interface OnnxKeySpec {
  readonly name: string;
  readonly value: OnnxValueKind;
  readonly defaultDoc: string;
  readonly doc: string;
}

const boolean: OnnxValueKind = { kind: 'boolean' };
const threads: OnnxValueKind = { kind: 'integer', min: 0, max: 1024 };

/** The options under `onnx:` that are honoured. */
export const onnxKeys: readonly OnnxKeySpec[] = [
  { name: 'model', value: { kind: 'file' }, defaultDoc: 'the only .onnx file', doc: 'The model, relative to the archive.' },
  {
    name: 'sessions',
    value: { kind: 'files' },
    defaultDoc: 'none',
    doc: 'Further models: name to file, relative to the archive.',
  },
  {
    name: 'providers',
    value: { kind: 'providers' },
    defaultDoc: 'by `deviceType`',
    doc: 'Execution providers in order: `cpu`, `cuda`.',
  },
  {
    name: 'requireDevice',
    value: boolean,
    defaultDoc: 'true',
    doc: 'False: a GPU that cannot be used may be replaced by the CPU, with a warning.',
  },
  {
    name: 'graphOptimizationLevel',
    value: { kind: 'choice', choices: ['disabled', 'basic', 'extended', 'layout', 'all'] },
    defaultDoc: 'all',
    doc: 'How far the graph is optimised when it is loaded.',
  },
  {
    name: 'intraOpNumThreads',
    value: threads,
    defaultDoc: 'cores divided by workers',
    doc: 'Threads inside one operator. 0: one per core.',
  },
  {
    name: 'interOpNumThreads',
    value: threads,
    defaultDoc: 'automatic',
    doc: 'Threads across operators, with `executionMode: parallel`.',
  },
  {
    name: 'executionMode',
    value: { kind: 'choice', choices: ['sequential', 'parallel'] },
    defaultDoc: 'sequential',
    doc: 'Whether independent operators run at the same time.',
  },
  { name: 'enableCpuMemArena', value: boolean, defaultDoc: 'true', doc: 'Keep memory of a run for the next one.' },
  { name: 'enableMemPattern', value: boolean, defaultDoc: 'true', doc: 'Plan memory from earlier runs of the same shape.' },
  { name: 'enableProfiling', value: boolean, defaultDoc: 'false', doc: 'Write a profile.' },
  { name: 'profileFilePrefix', value: { kind: 'text' }, defaultDoc: '`NAME_profile`', doc: 'Start of the name of the profile.' },
  {
    name: 'logSeverityLevel',
    value: { kind: 'integer', min: 0, max: 4 },
    defaultDoc: '2',
    doc: 'What the engine logs: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal.',
  },
  {
    name: 'configEntries',
    value: { kind: 'entries' },
    defaultDoc: 'none',
    doc: 'Session configuration entries such as `session.intra_op.allow_spinning: "0"`.',
  },
];

const engine = 'the onnxruntime-node binding ignores it';
const cuda = 'the onnxruntime-node binding passes only the device to CUDA';

/** Options of ONNX Runtime that would be ignored without a word: name, and why it is refused. */
export const refusedOnnxKeys: ReadonlyMap<string, string> = new Map([
  ['freeDimensionOverrides', `${engine}; fix the dimension in the model file`],
  ['customOpLibraries', `${engine}; it has no way to load operator libraries`],
  ['optimizedModelFilePath', 'a worker must not write beside its model'],
  ['terminate', `${engine}; a run cannot be stopped, use responseTimeout`],
  ['logId', 'the runtime names its sessions itself'],
  ['logVerbosityLevel', engine],
  ['preferredOutputLocation', engine],
  ['enableGraphCapture', engine],
  ['extra', 'write the entries under configEntries'],
  ['executionProviders', 'write providers'],
  ['deviceId', 'write deviceIds beside onnx'],
  ['deviceIds', 'write deviceIds beside onnx'],
  ['deviceType', 'write deviceType beside onnx'],
  ['gpuMemLimit', cuda],
  ['arenaExtendStrategy', cuda],
  ['cudnnConvAlgoSearch', cuda],
  ['cudnnConvUseMaxWorkspace', cuda],
  ['doCopyInDefaultStream', cuda],
  ['enableCudaGraph', cuda],
  ['useTf32', cuda],
  ['preferNhwc', cuda],
]);
