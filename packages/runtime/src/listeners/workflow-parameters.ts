import { ServeError } from '../domain/errors.js';
import { jsonObject, type Pairs, refuseTypos } from './management-parameters.js';

export interface WorkflowOptions {
  readonly url: string;
  readonly workflowName: string | undefined;
}

const known = ['url', 'workflow_name', 'response_timeout', 'startup_timeout', 'synchronous', 's3_sse_kms'];

/** Registration of a workflow by query parameters. @throws {ServeError} BAD_REQUEST naming the parameter */
export function workflowOptions(query: Pairs): WorkflowOptions {
  refuseTypos(
    query.map(([name]) => name),
    known,
  );
  return options((key) => query.find(([name]) => name === key)?.[1]);
}

/** Registration by a JSON body with the same keys. */
export function workflowOptionsOfJson(body: Buffer): WorkflowOptions {
  const fields = jsonObject(body);
  refuseTypos(Object.keys(fields), known);
  return options((key) => (Object.hasOwn(fields, key) ? fields[key] : undefined) ?? undefined);
}

function options(field: (key: string) => unknown): WorkflowOptions {
  const text = (key: string) => {
    const value = field(key);
    if (value !== undefined && typeof value !== 'string') throw new ServeError('BAD_REQUEST', `${key} must be text.`);
    return value;
  };
  const url = text('url');
  if (url === undefined) {
    throw new ServeError('BAD_REQUEST', 'url is missing; give the workflow archive to register as ?url=... or in a JSON body.');
  }
  if (url === '') throw new ServeError('WORKFLOW_NOT_FOUND', 'url is empty; it must name a workflow archive.');
  const name = text('workflow_name');
  return { url, workflowName: name === '' ? undefined : name };
}
