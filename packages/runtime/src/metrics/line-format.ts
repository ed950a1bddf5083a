import type { LogLevel } from '../domain/log-levels.js';

export type Level = Exclude<LogLevel, 'silent'>;

export const levelRank: Record<LogLevel, number> = { debug: 20, info: 30, warn: 40, error: 50, silent: 100 };

const shown: Record<Level, string> = { debug: 'DEBUG', info: 'INFO ', warn: 'WARN ', error: 'ERROR' };

const two = (value: number) => (value < 10 ? `0${value}` : String(value));
const three = (value: number) => String(value).padStart(3, '0');

let second = 0;
let prefix = '';

/** Local time as log4j's ISO8601 pattern writes it: `2024-05-01T12:00:00,123`. */
export function localTime(ms: number): string {
  const inSecond = Math.floor(ms / 1000);
  // At tens of thousands of lines a second the date is formatted once.
  if (inSecond !== second) {
    second = inSecond;
    const date = new Date(ms);
    prefix = `${localDate(ms)}T${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())},`;
  }
  return prefix + three(Math.floor(ms) - inSecond * 1000);
}

/** `2024-05-01`. */
export function localDate(ms: number): string {
  const date = new Date(ms);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** Milliseconds with at most three decimals, for the stages of a request. */
export function stageText(ns: number): string {
  return String(Math.round(ns / 1e3) / 1e3);
}

/** A record of a log: one line, and the lines that follow of a longer message without a time of their own. */
export function record(ms: number, level: Level, thread: string, name: string, message: string): string {
  return `${localTime(ms)} [${shown[level]}] ${thread} ${name} - ${message}\n`;
}
