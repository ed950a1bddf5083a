import { runArchiveCommand } from './command.js';

process.exitCode = await runArchiveCommand(
  process.argv.slice(2),
  { out: (line) => console.log(line), error: (line) => console.error(line) },
  process.stderr.isTTY,
);
