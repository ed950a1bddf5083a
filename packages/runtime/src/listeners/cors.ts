import type { IncomingMessage } from 'node:http';
import type { ServerConfig } from '../config/server-config.js';

/** `[name, value, ...]` of the CORS headers; empty when no origin is configured. */
export function corsHeaders(config: ServerConfig): string[] {
  const headers: string[] = [];
  if (config.corsAllowedOrigin) headers.push('Access-Control-Allow-Origin', config.corsAllowedOrigin);
  if (config.corsAllowedMethods) headers.push('Access-Control-Allow-Methods', config.corsAllowedMethods);
  if (config.corsAllowedHeaders) headers.push('Access-Control-Allow-Headers', config.corsAllowedHeaders);
  return headers;
}

/** A browser asking whether it may send the real request. */
export function isPreflight(request: IncomingMessage): boolean {
  return request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined;
}
