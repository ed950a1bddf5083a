import { describe, expect, it } from 'vitest';
import { readAnswers } from './http-answers.js';
import { mutate } from './mutate.js';
import { Random } from './random.js';

const read = (text: string, headAsked = false, complete = true) => readAnswers(Buffer.from(text, 'latin1'), headAsked, complete);
const whole = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab';

describe('answers over a connection', () => {
  it('are read one after the other, interim ones left out', () => {
    const chunked = 'HTTP/1.1 400 Bad Request\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nserver-timing: x\r\n\r\n';
    const answers = read(`HTTP/1.1 100 Continue\r\n\r\n${whole}${chunked}`);
    expect(answers.map(({ status, body }) => [status, body.toString()])).toEqual([
      [200, 'ab'],
      [400, 'ab'],
    ]);
  });

  it('to HEAD have no body', () => {
    const head = 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n';
    expect(read(`${head}${whole}`, true)).toHaveLength(2);
    expect(() => read(head)).toThrow(/not whole/);
  });

  it.each(['nonsense\r\n\r\n', 'HTTP/1.1 999 X\r\n\r\n', 'HTTP/1.1 200 OK\r\nno colon\r\n\r\n', whole.slice(0, -1), `${whole}x`])(
    'are no HTTP: %j',
    (text) => expect(() => read(text)).toThrow(),
  );

  it('may still be on their way', () => {
    for (let length = 0; length < whole.length; length++) expect(read(whole.slice(0, length), false, false)).toEqual([]);
  });
});

it('the same seed gives the same cases', () => {
  const cases = (seed: string) =>
    Array.from({ length: 50 }, (_, at) => mutate(Buffer.from(whole), new Random(`${seed}/${at}`)).toString('hex'));
  expect(cases('1')).toEqual(cases('1'));
  expect(cases('1')).not.toEqual(cases('2'));
});
