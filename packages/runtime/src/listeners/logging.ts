import { ServeError } from '../domain/errors.js';
import { logCategories, type LogLevel, type LogLevels, logLevels, type LogSettings } from '../domain/log-levels.js';
import { queryPairs } from '../protocol/torchserve/path.js';
import type { Exchange, ListenerLog } from './exchange.js';
import { booleanParameter } from './management-parameters.js';

const parameters: readonly string[] = ['level', ...logCategories, 'access_probes'];

/** `GET /logging` tells the log levels, `PUT /logging?level=debug` changes them until the server ends. */
export async function logging(exchange: Exchange, levels: LogLevels, log: ListenerLog | undefined): Promise<void> {
  switch (exchange.method) {
    case 'GET':
    case 'HEAD':
      break;
    case 'PUT': {
      const change = changeOf(queryPairs(exchange.search));
      const say = () => log?.info({ ...shown({ ...levels.settings, ...change }), requestId: exchange.id }, 'log levels change');
      // Said by whichever of the two levels lets it be said.
      const louder = logLevels.indexOf(change.server ?? levels.settings.server) <= logLevels.indexOf('info');
      if (!louder) say();
      levels.change(change);
      if (louder) say();
      break;
    }
    default:
      exchange.methodNotAllowed('GET, PUT');
  }
  exchange.json(200, shown(levels.settings));
}

function shown({ accessProbes, ...byCategory }: LogSettings): object {
  return { ...byCategory, access_probes: accessProbes };
}

function changeOf(query: ReadonlyArray<readonly [string, string]>): Partial<LogSettings> {
  const unknown = query.find(([key]) => !parameters.includes(key));
  if (unknown !== undefined)
    throw new ServeError(
      'BAD_REQUEST',
      `The parameter ${unknown[0].slice(0, 40)} is unknown; known are ${parameters.join(', ')}.`,
    );
  if (query.length === 0)
    throw new ServeError('BAD_REQUEST', `Nothing to change: give at least one of ${parameters.join(', ')}.`);
  const all = level(query, 'level');
  const change: { -readonly [Key in keyof LogSettings]?: LogSettings[Key] } = {};
  for (const category of logCategories) {
    const wanted = level(query, category) ?? all;
    if (wanted !== undefined) change[category] = wanted;
  }
  if (query.some(([key]) => key === 'access_probes')) change.accessProbes = booleanParameter(query, 'access_probes', false);
  return change;
}

function level(query: ReadonlyArray<readonly [string, string]>, key: string): LogLevel | undefined {
  const value = query.find(([name]) => name === key)?.[1];
  if (value === undefined) return undefined;
  const found = logLevels.find((it) => it === value.toLowerCase());
  if (found === undefined)
    throw new ServeError('BAD_REQUEST', `${key}=${value.slice(0, 40)} is no log level; levels are ${logLevels.join(', ')}.`);
  return found;
}
