export * from './archive.js';
export * from './archive-error.js';
export * from './cli/command.js';
export * from './cli/workflow-command.js';
export * from './manifest.js';
export * from './provides.js';
export { type ArchiveFormat, archiveFormats } from './write-archive.js';
export * from './workflow/archive-workflow.js';
