export { fakeSession } from './fake-session.js';
export { multipart, type Payload, type PayloadPart, type PayloadRequest, request } from './payload.js';
export { realSession } from './real-session.js';
export {
  runHandler,
  type RunOptions,
  type TestAnswer,
  type TestFailure,
  type TestResult,
  type TestResults,
} from './run-handler.js';
export { type ModelOptions, type RecordedLog, type RecordedMetric } from './test-context.js';
