import { ServeError } from '../domain/errors.js';
import { queryPairs } from '../protocol/torchserve/path.js';
import type { ManagementService } from '../serving/management-service.js';
import type { Exchange } from './exchange.js';

const name = 'model_name';

/**
 * Which model `/invocations` means: `model_name` of the query, of the form, or the only model loaded at start.
 * @throws {ServeError} BAD_REQUEST when it stays open
 */
export async function invocationTarget(exchange: Exchange, body: Buffer, management: ManagementService): Promise<string> {
  const query = queryPairs(exchange.search).find(([key]) => key === name)?.[1];
  if (query !== undefined && query !== '') return query;
  const field = formField(exchange.request.headers['content-type'], body);
  if (field !== undefined && field !== '') return field;
  const started: string[] = [];
  for (const { modelName } of management.list(100, 0).models) {
    const [model] = await management.describe(modelName, undefined, false);
    if (model?.loadedAtStartup) started.push(modelName);
  }
  const [only] = started;
  if (only !== undefined && started.length === 1) return only;
  throw new ServeError(
    'BAD_REQUEST',
    `/invocations needs to know the model: ${started.length} models were loaded at start; give model_name in the query or the form.`,
  );
}

/** The value of the field `model_name`; the rest of the form is the worker's business. */
export function formField(contentType: string | undefined, body: Buffer): string | undefined {
  if (contentType === undefined || body.length === 0) return undefined;
  if (/^application\/x-www-form-urlencoded/i.test(contentType)) {
    return new URLSearchParams(body.toString('utf8')).get(name) ?? undefined;
  }
  if (!/^multipart\/form-data/i.test(contentType)) return undefined;
  const boundary = /;\s*boundary=(?:"([^"]+)"|([^;\s]+))/i.exec(contentType);
  const mark = boundary?.[1] ?? boundary?.[2];
  if (mark === undefined) return undefined;
  const delimiter = Buffer.from(`--${mark}`);
  let at = body.indexOf(delimiter);
  while (at >= 0) {
    const head = at + delimiter.length;
    const next = body.indexOf(delimiter, head);
    const gap = body.indexOf('\r\n\r\n', head);
    if (next < 0 || gap < 0) return undefined;
    // Only the headers are turned into text: a part may be large.
    if (gap < next && /;\s*name="?model_name"?\s*(;|\r\n|$)/i.test(body.toString('latin1', head, gap))) {
      return body.toString('utf8', gap + 4, Math.max(gap + 4, next - 2));
    }
    at = next;
  }
  return undefined;
}
