// What the runtime shares with the kit. No stability is promised to anybody else.
export * from './create-request.js';
