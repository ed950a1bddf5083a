import { pino, stdSerializers, type Logger } from 'pino';
import { levelRank, record, type Level } from './line-format.js';
import type { LogFiles } from './log-files.js';
import { redact } from './redact.js';

const levels: Record<number, Level> = { 10: 'debug', 20: 'debug', 30: 'info', 40: 'warn', 50: 'error', 60: 'error' };

export interface ServerLogOptions {
  readonly files: LogFiles;
  readonly level: Level | 'silent';
  readonly format: 'torchserve' | 'json';
}

/** The server's own log: a pino logger whose records go to ts_log.log and standard output, without secrets. */
export function createLogger({ files, level, format }: ServerLogOptions): Logger {
  const stream = {
    write(line: string): void {
      const safe = redact(format === 'json' ? line : asText(line));
      files.server.write(safe);
      files.print(safe);
    },
  };
  return pino(
    {
      level,
      base: undefined,
      serializers: { err: stdSerializers.err, error: stdSerializers.err },
      formatters: { level: (label) => ({ level: label === 'trace' ? 'debug' : label === 'fatal' ? 'error' : label }) },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      redact: { paths: ['authorization', 'headers.authorization', 'req.headers.authorization', 'token', 'key'], censor: '***' },
    },
    stream,
  );
}

/** pino's JSON as a line of TorchServe's pattern, the fields after the message and a stack below it. */
function asText(line: string): string {
  const { level, time, msg, err, error, name, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const thrown = (err ?? error) as { readonly message?: string; readonly stack?: string } | undefined;
  const parts = [typeof msg === 'string' ? msg : (thrown?.message ?? '')];
  for (const [key, value] of Object.entries(fields))
    parts.push(`${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
  const stack = typeof thrown?.stack === 'string' ? `\n${thrown.stack}` : '';
  const at = typeof time === 'string' ? Date.parse(time) : Date.now();
  const known: Level = typeof level === 'string' && level in levelRank ? (level as Level) : (levels[Number(level)] ?? 'info');
  return record(at, known, 'main', typeof name === 'string' ? name : 'onnxserve', parts.join(' ') + stack);
}
