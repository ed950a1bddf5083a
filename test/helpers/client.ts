/** An answer with its body read. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body as JSON; undefined when it is none. */
  readonly json: unknown;
}

async function read(response: Response): Promise<Answer> {
  const text = await response.text();
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  return { status: response.status, headers: response.headers, text, json };
}

export async function get(url: string): Promise<Answer> {
  return await read(await fetch(url));
}

export async function send(method: string, url: string): Promise<Answer> {
  return await read(await fetch(url, { method }));
}

/** Sends JSON, or bytes and text as they are. */
export async function post(url: string, body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
  const raw = typeof body === 'string' || body instanceof Uint8Array;
  const type = raw ? 'application/octet-stream' : 'application/json';
  const bytes = body instanceof Uint8Array ? Buffer.from(body) : typeof body === 'string' ? body : JSON.stringify(body);
  return await read(await fetch(url, { method: 'POST', body: bytes, headers: { 'content-type': type, ...headers } }));
}

/** `message` of an error body. */
export function messageOf(answer: Answer): string {
  return String((answer.json as { message?: unknown } | undefined)?.message);
}

/** Value of one sample of the metrics endpoint; labels as they are written there, in any order. */
export async function metric(metricsUrl: string, name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
  const { text } = await get(`${metricsUrl}/metrics`);
  let sum = 0;
  for (const line of text.split('\n')) {
    const sample = /^([\w:]+)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!sample || sample[1] !== name) continue;
    const own = sample[2] ?? '';
    if (Object.entries(labels).every(([key, value]) => own.includes(`${key}="${value}"`))) sum += Number(sample[3]);
  }
  return sum;
}
