import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['packages/*/src/**/*.test.ts', 'packages/examples/*/*.test.ts', 'test/**/*.test.ts', 'benchmarks/**/*.test.ts'],
    exclude: ['**/dist/**', '**/node_modules/**'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Two cores: more files at once only slow each other down.
    maxWorkers: 2,
  },
});
