import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ArchiveError } from './archive-error.js';

/** Runs in a process of its own, since a broken model may take the process down. */
const child = `
const { InferenceSession } = await import(process.argv[2]);
try {
  await InferenceSession.create(process.argv[1], { graphOptimizationLevel: 'disabled', logSeverityLevel: 4 });
  process.exit(0);
} catch (error) {
  process.stderr.write(String(error?.message ?? error));
  process.exit(1);
}
`;

/**
 * Loads an ONNX file once.
 * @param shownName for the message
 * @throws {ArchiveError} with the engine's own words
 */
export async function checkModel(file: string, shownName: string): Promise<void> {
  const engine = import.meta.resolve('onnxruntime-node');
  const node = spawn(process.execPath, ['--input-type=module', '--eval', child, file, engine], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ORT_DISABLE_TELEMETRY: '1' },
    // The engine finds external data from the model's own path, wherever the process stands.
    cwd: fileURLToPath(new URL('.', import.meta.url)),
  });
  let said = '';
  node.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-4000)));
  const ended = await new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((done, fail) => {
    node.once('error', fail);
    node.once('close', (code, signal) => done({ code, signal }));
  });
  if (ended.code === 0) return;
  const how = ended.signal === null ? said.trim() || `exit code ${ended.code}` : `the process was ended by ${ended.signal}`;
  throw new ArchiveError(`The model ${shownName} cannot be loaded: ${how}`);
}
