import { Command } from 'commander';
import { archiveWorkflow, type WorkflowArchiveOptions } from '../workflow/archive-workflow.js';
import { type CommandOutput, runCommand } from './command.js';

const examples = `
Example:
  $ onnxserve-workflow-archiver --workflow-name dog_breed --spec-file workflow.yaml --handler functions.ts --export-path store

The spec file names the models and the graph. A node that is no model is a function that the handler file exports
under the node's name; it and all that it imports are bundled into one file.

Exit status: 0 done, 1 no archive was made, 2 wrong usage.`;

/** The command that makes workflow archives, with every flag of torch-workflow-archiver. */
export function workflowCommand(name: string, output: CommandOutput, progress: boolean): Command {
  return new Command(name)
    .description('Makes a workflow archive (.war) from a spec file and the functions that it names.')
    .requiredOption('--workflow-name <name>', 'name of the workflow and of the archive; .war is added to it')
    .requiredOption('--spec-file <file>', 'YAML file with the models and the graph')
    .option('--handler <file>', 'file with the functions (.ts, .js, .mjs), one export for each node that is no model')
    .option('--export-path <folder>', 'where the archive is written (default: the working directory)')
    .option('-f, --force', 'overwrite an archive of the same name', false)
    .option(
      '--extra-files <list>',
      'comma list of files and folders; a folder\'s contents keep their tree; "path/inside=file" says where a file goes',
    )
    .addHelpText('after', examples)
    .action(async (options: WorkflowArchiveOptions) => {
      const { path } = await archiveWorkflow({ ...options, onProgress: (line) => progress && output.error(line) });
      output.out(path);
    });
}

/**
 * Runs the command.
 * @param name what its help calls it
 * @returns the exit status
 */
export async function runWorkflowCommand(
  args: readonly string[],
  output: CommandOutput,
  progress: boolean,
  name = 'onnxserve-workflow-archiver',
): Promise<number> {
  return await runCommand(workflowCommand(name, output, progress), args, output);
}
