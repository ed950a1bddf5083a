import { setTimeout as pause } from 'node:timers/promises';

/**
 * Asks again and again until there is an answer: for states that a server shows but does not announce.
 * @throws after `limitMs` with what was waited for
 */
export async function until<T>(ask: () => Promise<T | undefined>, what: string, limitMs = 45_000): Promise<T> {
  const deadline = Date.now() + limitMs;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    if (Date.now() > deadline) throw new Error(`waited ${limitMs / 1000} s in vain until ${what}`);
    await pause(25);
  }
}
