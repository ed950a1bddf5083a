import { runWorkflowCommand } from './workflow-command.js';

process.exitCode = await runWorkflowCommand(
  process.argv.slice(2),
  { out: (line) => console.log(line), error: (line) => console.error(line) },
  process.stderr.isTTY,
);
