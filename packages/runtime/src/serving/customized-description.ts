import { monotonicNow } from '../domain/request.js';
import type { ModelDescription } from './management-service.js';
import type { ServedModel } from './served-model.js';

/** Describe with what the handler says of itself, asked in the model's own queue. */
export async function customizedDescription(model: ServedModel): Promise<ModelDescription> {
  const reply = await model.predict({
    id: 'describe',
    modelName: model.name,
    modelVersion: model.version,
    kind: 'describe',
    rawHeaders: [],
    urlPath: '',
    query: [],
    body: Buffer.alloc(0),
    receivedAt: monotonicNow(),
    client: undefined,
  });
  const chunks: Buffer[] = [];
  if (Buffer.isBuffer(reply.body)) chunks.push(reply.body);
  else for await (const chunk of reply.body) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString('utf8');
  return { ...model.describe(), customizedMetadata: parsed(text) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
