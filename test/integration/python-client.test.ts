import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const folder = fileURLToPath(new URL('../clients/torchserve/', import.meta.url));
const python = process.env['ONNXSERVE_TEST_PYTHON'] ?? 'python3';
const found = spawnSync(python, ['-c', 'import requests, grpc, grpc_tools'], { encoding: 'utf8' });
const missing = found.status === 0 ? undefined : (found.error?.message ?? found.stderr.trim().split('\n').at(-1));
if (missing !== undefined)
  console.log(
    `The Python client is not run: ${python} needs requests, grpcio and grpcio-tools (${missing}); ONNXSERVE_TEST_PYTHON names another.`,
  );

it.skipIf(missing !== undefined)('a TorchServe client in Python sees what it saw of TorchServe 0.12.0', () => {
  const { status, stdout, stderr } = spawnSync(python, ['compare.py', '--recorded', 'torchserve-0.12.0.json'], {
    cwd: folder,
    encoding: 'utf8',
  });
  expect(`${stdout}${stderr}`).toMatch(/ observations are the same, \d+ differ on purpose, 0 differ$/m);
  expect(status).toBe(0);
});
