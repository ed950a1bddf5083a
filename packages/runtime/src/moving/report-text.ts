import type { MovingFinding, MovingReport, MovingStatus } from './report.js';

const marks: Readonly<Record<MovingStatus, string>> = { works: '✓', differs: '~', work: '→', error: '✗' };

/** The report for people. Archives are strangers' work, so what could move a terminal's cursor is left out. */
export function formatReport(report: MovingReport): string {
  const lines = [`Moving from TorchServe: ${report.directory}`, ''];
  for (const { title, findings } of report.sections) {
    if (findings.length === 0) continue;
    lines.push(title, ...findings.flatMap(formatFinding), '');
  }
  const { works, differs, work, error } = report.summary;
  lines.push(`✓ ${works} as they are   ~ ${differs} differ   → ${work} to be worked on   ✗ ${error} cannot be read`);
  if (report.serve.length > 0)
    lines.push('', work > 0 ? 'When that is done:' : 'Serve it:', ...report.serve.map((command) => `  $ ${command}`));
  return `${lines.map(printable).join('\n')}\n`;
}

function formatFinding({ status, subject, where, message, notes, steps }: MovingFinding): string[] {
  const at = where === undefined || message.includes(where) ? '' : `  (${where})`;
  return [
    `  ${marks[status]} ${subject}: ${message}${at}`,
    ...notes.map((note) => `      ${note}`),
    ...steps.flatMap(({ what, commands, code }, index) => [
      `      ${index + 1}. ${what}`,
      ...commands.map((command) => `         $ ${command}`),
      ...(code === undefined
        ? []
        : code
            .trimEnd()
            .split('\n')
            .map((line) => `         | ${line}`)),
    ]),
  ];
}

function printable(line: string): string {
  return line.replaceAll(/\p{Cc}/gu, '\uFFFD');
}
