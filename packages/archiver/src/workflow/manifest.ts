import { ManifestError } from '../manifest.js';

/** `WAR-INF/MANIFEST.json` of a workflow archive. */
export interface WorkflowManifest {
  readonly createdOn?: string | undefined;
  readonly archiverVersion?: string | undefined;
  readonly workflow: {
    /** Undefined: whoever registers must give a name. */
    readonly workflowName?: string | undefined;
    readonly specFile: string;
    readonly handler?: string | undefined;
  };
}

/** @throws {ManifestError} */
export function parseWorkflowManifest(text: string): WorkflowManifest {
  let json: unknown;
  try {
    json = JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (error) {
    throw new ManifestError('', `not valid JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  const root = object(json, '');
  const workflow = object(root['workflow'], 'workflow');
  const specFile = textOf(workflow, 'specFile', 'workflow.');
  if (specFile === undefined) throw new ManifestError('workflow.specFile', 'there is no field "workflow.specFile"');
  return {
    createdOn: textOf(root, 'createdOn', ''),
    archiverVersion: textOf(root, 'archiverVersion', ''),
    workflow: {
      workflowName: textOf(workflow, 'workflowName', 'workflow.'),
      specFile,
      handler: textOf(workflow, 'handler', 'workflow.'),
    },
  };
}

/** The file's text, with the fields in the order in which TorchServe's archiver writes them. */
export function formatWorkflowManifest({ createdOn, archiverVersion, workflow }: WorkflowManifest): string {
  return `${JSON.stringify({ createdOn, workflow, archiverVersion }, undefined, 2)}\n`;
}

function object(value: unknown, field: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new ManifestError(field, field === '' ? 'must hold a JSON object' : `field "${field}" must be an object`);
}

function textOf(from: Record<string, unknown>, name: string, prefix: string): string | undefined {
  const value = from[name];
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value === 'string') return value;
  throw new ManifestError(prefix + name, `field "${prefix}${name}" must be a string`);
}
