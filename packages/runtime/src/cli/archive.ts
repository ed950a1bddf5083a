import type { Command } from 'commander';

/** The archiver is loaded only when it is wanted: a server that runs does without it. */
export function addArchive(program: Command): void {
  program
    .command('archive')
    .description('make a model archive; the same flags as onnxserve-model-archiver')
    .allowUnknownOption()
    .passThroughOptions()
    .helpOption(false)
    .argument('[arguments...]')
    .action(async (args: string[]) => {
      const { runArchiveCommand } = await import('@onnxserve/archiver');
      const output = { out: (line: string) => console.log(line), error: (line: string) => console.error(line) };
      process.exitCode = await runArchiveCommand(args, output, process.stderr.isTTY, 'onnxserve archive');
    });
}

/** The archiver of workflows, loaded only when it is wanted. */
export function addArchiveWorkflow(program: Command): void {
  program
    .command('archive-workflow')
    .description('make a workflow archive; the same flags as onnxserve-workflow-archiver')
    .allowUnknownOption()
    .passThroughOptions()
    .helpOption(false)
    .argument('[arguments...]')
    .action(async (args: string[]) => {
      const { runWorkflowCommand } = await import('@onnxserve/archiver');
      const output = { out: (line: string) => console.log(line), error: (line: string) => console.error(line) };
      process.exitCode = await runWorkflowCommand(args, output, process.stderr.isTTY, 'onnxserve archive-workflow');
    });
}
