// What the runtime shares with the kit. No stability is promised to anybody else.
export * from './create-request.js';
export * from './result.js';
export * from './response-controls.js';
export { parseJson } from './decode/json.js';
export { stringify } from './encode/json.js';
export { isNamedTensors, readable, tensorToJson } from './encode/tensors.js';
export * from './handlers/index.js';
export { tensorPostprocess, tensorPreprocess } from './handlers/tensor.js';
export { tensorsFromJson } from './handlers/tensor-input.js';
export { isHandlerResponse } from './respond.js';
export { noSequence, SequenceStates } from './sequence-states.js';
export { limitPixels } from './preprocess/pixel-limit.js';
export { checkFeeds } from './onnx/check-feeds.js';
export { cutTo, paddedShapes, padTo } from './pad.js';
export { fromOrt, keepHalfFloatsAsBits, signatureOf, toOrt } from './onnx/ort-tensors.js';
