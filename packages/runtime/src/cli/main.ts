#!/usr/bin/env node
import { Command, CommanderError } from 'commander';
import { addArchive, addArchiveWorkflow } from './archive.js';
import { addCheck } from './check.js';
import { addStart } from './start.js';
import { addStatus, addStop } from './stop.js';
import { torchserveArguments, WrongUsage } from './torchserve-flags.js';
import { ownVersion } from './version.js';

const program = new Command('onnxserve')
  .description("A model server for ONNX models with TorchServe's APIs, archives and settings.")
  .version(`onnxserve ${ownVersion()}`, '-v, --version', 'print the version')
  .enablePositionalOptions()
  .showHelpAfterError('(onnxserve --help lists the commands)')
  .exitOverride();

addStart(program);
addStop(program);
addStatus(program);
addCheck(program);
addArchive(program);
addArchiveWorkflow(program);

try {
  await program.parseAsync(['node', 'onnxserve', ...torchserveArguments(process.argv.slice(2))]);
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else {
    console.error(`onnxserve: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = error instanceof WrongUsage ? 2 : 1;
  }
}
