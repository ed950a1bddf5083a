export * from './domain/errors.js';
export * from './domain/request.js';
