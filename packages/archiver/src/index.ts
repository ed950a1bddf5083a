export * from './manifest.js';
export * from './provides.js';
