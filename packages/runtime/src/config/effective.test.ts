import { describe, expect, it } from 'vitest';
import { formatEffectiveConfig } from './effective.js';
import { serverKeys } from './keys.js';
import { loadConfig } from './load-config.js';

const load = (overrides: Record<string, string>, env: NodeJS.ProcessEnv = {}) =>
  formatEffectiveConfig(loadConfig({ argv: { modelStore: '/', overrides }, env, cwd: '/' }));

describe('formatEffectiveConfig', () => {
  it('shows every key that the server uses with its value and origin', () => {
    const lines = load({ job_queue_size: '5' }, { LOG_LOCATION: '/var/log/x' }).split('\n');
    for (const { name, status } of serverKeys)
      expect(lines.filter((line) => line.startsWith(`${name} `))).toHaveLength(status === 'used' ? 1 : 0);
    expect(lines.find((line) => line.startsWith('job_queue_size '))).toMatch(/= 5 +\(command line: --set job_queue_size\)$/);
    expect(lines.find((line) => line.startsWith('model_store '))).toMatch(/= \/ +\(command line: --model-store\)$/);
    expect(lines.find((line) => line.startsWith('log_location '))).toMatch(/= \/var\/log\/x +\(environment: LOG_LOCATION\)$/);
    expect(lines.find((line) => line.startsWith('max_request_size '))).toMatch(/= 6553500 +\(default\)$/);
  });

  it('hides secrets and passwords in URLs', () => {
    const text = load({ keystore_pass: 'hunter2', load_models: 'https://user:hunter2@host/a.mar' });
    expect(text).not.toContain('hunter2');
    expect(text).toMatch(/keystore_pass +=/);
    expect(text).toContain('https://user:***@host/a.mar');
  });
});
