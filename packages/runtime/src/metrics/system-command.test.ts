import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { noMetricsConfig, parseMetricsConfig, type MetricsConfig } from './metrics-config.js';
import { MetricRegistry } from './registry.js';
import { parseMetricLine, SystemCommand, wordsOf } from './system-command.js';

let folder: string;
let warnings: string[];
let registry: MetricRegistry;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'command-'));
  warnings = [];
  registry = new MetricRegistry();
});
afterEach(() => rmSync(folder, { recursive: true }));

function script(text: string): string {
  const file = join(folder, 'collector');
  writeFileSync(file, `#!/bin/sh\n${text}\n`);
  chmodSync(file, 0o755);
  return file;
}
function open(command: string, config: MetricsConfig = noMetricsConfig): SystemCommand {
  const warn = (sentence: string) => warnings.push(sentence);
  return new SystemCommand({ command, registry, hostname: 'box', config, warn, timeoutMs: 500 });
}
const run = async (command: SystemCommand) => await command.collect(new AbortController().signal);
/** Samples of a family; undefined when there is no such family. */
function shown(name: string): Record<string, number> | undefined {
  const family = [...registry.all].find((it) => it.name === name);
  return family && Object.fromEntries([...family.samples].map((it) => [it.labels, it.value]));
}

it('reads lines as TorchServe prints them', () => {
  expect(parseMetricLine('CPUUtilization.Percent:12.5|#Level:Host|#hostname:h,timestamp:1714564800')).toEqual({
    name: 'CPUUtilization',
    unit: 'Percent',
    value: 12.5,
    dimensions: [['Level', 'Host']],
    hostname: 'h',
  });
  expect(parseMetricLine('Fan.rpm:1e3|#Level:Host,Fan:a b|#hostname:h,1714564800|#type:GAUGE|')).toMatchObject({
    value: 1000,
    dimensions: [
      ['Level', 'Host'],
      ['Fan', 'a b'],
    ],
  });
  for (const text of [
    '',
    'nonsense',
    'A.B:x|#L:H',
    'A.B:|#L:H',
    'A:1|#L:H',
    'A.B:1.2.3|#L:H|#hostname:h',
    'A.B:1|#LH|#hostname:h',
  ])
    expect(parseMetricLine(text), text).toBeUndefined();
});

it('splits a command line into words', () => {
  expect(wordsOf(`  a  --b="c d" 'e "f"' g\\h ""`)).toEqual(['a', '--b=c d', 'e "f"', 'g\\h', '']);
});

it('shows known and new metrics, and takes away what is not printed any more', async () => {
  const state = join(folder, 'state');
  const command = open(
    script(
      `echo "CPUUtilization.Percent:12.5|#Level:Host|#hostname:h,timestamp:1"
[ -e ${state} ] || echo "GPUUtilization.Percent:7|#Level:Host,DeviceId:0|#hostname:h,timestamp:1"
echo "FanSpeed.rpm:900|#Level:Host,Fan:$1|#hostname:h,timestamp:1"
echo
echo "4711:12345"`,
    ) + ' "left one"',
  );
  await run(command);
  expect(shown('CPUUtilization')).toEqual({ 'Level="Host",Hostname="h"': 12.5 });
  expect(shown('GPUUtilization')).toEqual({ 'Level="Host",DeviceId="0",Hostname="h"': 7 });
  expect(shown('FanSpeed')).toEqual({ 'Level="Host",Fan="left one",Hostname="h"': 900 });
  writeFileSync(state, '');
  await run(command);
  expect(shown('GPUUtilization')).toEqual({});
  expect(shown('FanSpeed')).toEqual({ 'Level="Host",Fan="left one",Hostname="h"': 900 });
  expect(warnings).toEqual([]);
});

it.each([
  ['a program that fails', 'echo no driver >&2; exit 3', /it exited with 3: no driver/],
  ['a program that hangs', 'sleep 60', /did not answer within 0\.5 s/],
  ['a line that is no metric', 'echo hello', /no metric: hello/],
  [
    'labels that a family does not have',
    'echo "MemoryUsed.Megabytes:1|#Level:Host,X:1|#hostname:h,1"',
    /are Level, X and must be Level/,
  ],
  ['a name of ours', 'echo "onnxserve_workers.Count:1|#Level:Host|#hostname:h,1"', /clashes with onnxserve_workers/],
])('says once what is wrong: %s', async (_, text, why) => {
  const command = open(script(text));
  for (let round = 0; round < 3; round++) await run(command);
  expect(warnings).toEqual([expect.stringMatching(why)]);
});

it('says once that there is no such program', async () => {
  const command = open(join(folder, 'none'));
  for (let round = 0; round < 2; round++) await run(command);
  expect(warnings).toEqual([expect.stringMatching(/there is no program/)]);
});

it('takes types and the choice of metrics from the metrics_config file', async () => {
  const config = parseMetricsConfig(
    'ts_metrics: {counter: [{name: Swaps, unit: Count, dimensions: [Level, Hostname]}], gauge: [{name: Load, dimensions: [Level, Kind]}]}',
    'm.yaml',
  );
  const command = open(
    script(
      'for n in Swaps.Count Load.Count Other.Count CPUUtilization.Percent; do echo "$n:2|#Level:Host|#hostname:h,timestamp:1"; done',
    ),
    config,
  );
  for (let round = 0; round < 2; round++) await run(command);
  expect(shown('Swaps')).toEqual({ 'Level="Host",Hostname="h"': 4 });
  expect([...registry.all].find(({ name }) => name === 'Swaps')?.type).toBe('counter');
  expect(shown('Load')).toBeUndefined();
  expect(shown('CPUUtilization')).toEqual({});
  expect(warnings.sort()).toEqual([
    expect.stringMatching(/"CPUUtilization" is not in the ts_metrics/),
    expect.stringMatching(/"Other" is not in the ts_metrics/),
    expect.stringMatching(/dimensions of "Load" are Level and not those of the metrics_config file, Level, Kind/),
  ]);
});

it('bounds what a program makes of its own', async () => {
  const command = open(script('i=0; while [ $i -lt 1100 ]; do echo "Own.Count:1|#Id:$i|#hostname:h,1"; i=$((i+1)); done'));
  await run(command);
  expect(Object.keys(shown('Own') ?? {})).toHaveLength(1000);
  expect(warnings).toEqual([expect.stringMatching(/more than 1000 series/)]);
});
