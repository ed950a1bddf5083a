import type { Reason } from '../../domain/errors.js';

/** TorchServe's error body, and ours after it: the machine-readable cause and the id to look for in the logs. */
export function errorBody(status: number, type: string, message: string, reason: Reason, requestId: string): string {
  return prettyJson({ code: status, type, message, reason, requestId });
}

/** Management and error bodies: two spaces and a newline at the end. */
export function prettyJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
