export * from './activation.js';
export * from './ctc.js';
export * from './nms.js';
export * from './pooling.js';
export type { Scores } from './scores.js';
export * from './top-k.js';
