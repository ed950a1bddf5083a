export * from './context.js';
export * from './datatype.js';
export * from './errors.js';
export * from './handler.js';
export * from './request.js';
export * from './tensor.js';
