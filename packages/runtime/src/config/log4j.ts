import type { LogLevel } from '../domain/log-levels.js';

/** Levels that a log4j2 file gives to what this server logs. */
export interface Log4jLevels {
  readonly server: LogLevel | undefined;
  readonly access: LogLevel | undefined;
  readonly model: LogLevel | undefined;
}

const levels: Readonly<Record<string, LogLevel>> = {
  all: 'debug',
  trace: 'debug',
  debug: 'debug',
  info: 'info',
  warn: 'warn',
  error: 'error',
  fatal: 'error',
  off: 'silent',
};

/** Reads the levels of TorchServe's loggers from a log4j2 file, in XML or properties form. Appenders and patterns mean nothing here. */
export function readLog4jLevels(text: string): Log4jLevels {
  const found = text.trimStart().startsWith('<') ? fromXml(text) : fromProperties(text);
  const level = (...names: string[]) => {
    for (const name of names) {
      const known = levels[(found.get(name) ?? '').toLowerCase()];
      if (known !== undefined) return known;
    }
    return undefined;
  };
  return { server: level('org.pytorch.serve', ''), access: level('ACCESS_LOG'), model: level('MODEL_LOG') };
}

/** Level by name of the logger; the root has the empty name. */
function fromXml(text: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const [, attributes = ''] of text.replaceAll(/<!--[^]*?-->/g, '').matchAll(/<(?:Async)?(?:Logger|Root)\b([^>]*)>/gi)) {
    const attribute = (name: string) => new RegExp(`\\b${name}\\s*=\\s*["']([^"']*)["']`, 'i').exec(attributes)?.[1];
    const level = attribute('level');
    if (level !== undefined) found.set(attribute('name') ?? '', level);
  }
  return found;
}

function fromProperties(text: string): Map<string, string> {
  const found = new Map<string, string>();
  const names = new Map<string, string>();
  const byId = new Map<string, string>();
  for (const line of text.split(/\r?\n/)) {
    const [, key = '', value = ''] = /^\s*([\w.]+)\s*[=:]\s*(\S*)/.exec(line) ?? [];
    if (key === 'rootLogger.level') found.set('', value);
    const [, id = '', field = ''] = /^logger\.(\w+)\.(name|level)$/.exec(key) ?? [];
    if (field === 'name') names.set(id, value);
    if (field === 'level') byId.set(id, value);
  }
  for (const [id, level] of byId) found.set(names.get(id) ?? id, level);
  return found;
}
