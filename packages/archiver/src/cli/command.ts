import { Command, CommanderError, Option } from 'commander';
import { ArchiveError } from '../archive-error.js';
import { archive, type ArchiveOptions } from '../archive.js';
import { runtimes } from '../manifest.js';
import { archiveFormats } from '../write-archive.js';

/** Where the command writes; the console unless a test says otherwise. */
export interface CommandOutput {
  out(line: string): void;
  error(line: string): void;
}

const examples = `
Examples:
  $ onnxserve archive --model-name digits --version 1.0 --serialized-file digits.onnx --handler handler.ts --export-path store
  $ onnxserve archive --model-name scores --version 1.0 --serialized-file scores.onnx --extra-files labels.json,vocabulary

Without a handler the model is served as it is: tensors in, tensors out. A handler in TypeScript and all that
it imports are bundled into one file. The packages that the server brings stay outside: @onnxserve/handler-kit, sharp,
tokenizers and onnxruntime-node.

Exit status: 0 done, 1 no archive was made, 2 wrong usage.`;

/** The command that makes archives, with every flag of torch-model-archiver. */
export function archiveCommand(name: string, output: CommandOutput, progress: boolean): Command {
  return new Command(name)
    .description('Makes a model archive (.mar) from an ONNX model, a handler and further files.')
    .requiredOption('--model-name <name>', 'name of the model and of the archive; an ending is added to it')
    .requiredOption('-v, --version <version>', 'version of the model')
    .option(
      '--handler <handler>',
      'handler file (.ts, .js, .mjs; "file.ts:name" for a named export) or the name of a bundled handler',
    )
    .option('--serialized-file <file>', 'the model, .onnx or .ort; weights that it keeps in other files are packed too')
    .option('--model-file <file>', 'packed and named in the manifest; an ONNX model needs none')
    .option(
      '--extra-files <list>',
      'comma list of files and folders; a folder\'s contents keep their tree; "path/inside=file" says where a file goes',
    )
    .addOption(new Option('--runtime <runtime>', 'runtime named in the manifest').choices(runtimes).default('node'))
    .option('--export-path <folder>', 'where the archive is written (default: the working directory)')
    .addOption(
      new Option(
        '--archive-format <format>',
        'default: zip (.mar); zip-store: zip without compression; tgz: .tar.gz; no-archive: a folder',
      )
        .choices(archiveFormats)
        .default('default'),
    )
    .option('-f, --force', 'overwrite an archive of the same name', false)
    .option('-r, --requirements-file <file>', 'packed and named in the manifest; the server installs nothing from it')
    .option('-c, --config-file <file>', 'model config (YAML)')
    .option('--no-check-model', 'do not load the models once to see whether they work')
    .addHelpText('after', examples)
    .action(async (options: ArchiveOptions) => {
      const { path } = await archive({
        ...options,
        onProgress: (line) => progress && output.error(line),
        onWarning: (line) => output.error(`Warning: ${line}`),
      });
      output.out(path);
    });
}

/**
 * Runs the command.
 * @param name what its help calls it
 * @returns the exit status
 */
export async function runArchiveCommand(
  args: readonly string[],
  output: CommandOutput,
  progress: boolean,
  name = 'onnxserve-model-archiver',
): Promise<number> {
  return await runCommand(archiveCommand(name, output, progress), args, output);
}

/** @returns the exit status */
export async function runCommand(command: Command, args: readonly string[], output: CommandOutput): Promise<number> {
  command
    .exitOverride()
    .configureOutput({ writeOut: (text) => output.out(text.trimEnd()), writeErr: (text) => output.error(text.trimEnd()) });
  try {
    await command.parseAsync([...args], { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (!(error instanceof ArchiveError)) throw error;
    output.error(`Error: ${error.message}`);
    return 1;
  }
}
