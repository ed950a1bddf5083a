import type { Command } from 'commander';
import { formatEffectiveConfig } from '../config/effective.js';
import { addConfigFlags, readConfig, reportProblems } from './config-flags.js';

export function addCheck(program: Command): void {
  addConfigFlags(
    program
      .command('check')
      .description('print the effective configuration with the origin of each value, and what is wrong with it'),
  ).action((_options, command: Command) => {
    const { loaded } = readConfig(command);
    console.log(formatEffectiveConfig(loaded));
    if (!reportProblems(loaded)) process.exitCode = 1;
  });
}
