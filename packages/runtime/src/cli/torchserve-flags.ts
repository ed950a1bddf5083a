/** Flags that cannot be; the exit code is 2, as that of an unknown one. */
export class WrongUsage extends Error {}

/** `torchserve`'s command line, as the command and flags of this one: `--start --models a.mar` is `start --models a.mar`. */
export function torchserveArguments(args: readonly string[]): string[] {
  const spelled = args.map((arg) => aliases[arg] ?? arg);
  const at = spelled.findIndex((arg) => arg === '--start' || arg === '--stop');
  if (at < 0) return spelled;
  const both = spelled.includes('--start') && spelled.includes('--stop');
  if (both) throw new WrongUsage('--start and --stop exclude each other');
  const rest = [...spelled.slice(0, at), ...spelled.slice(at + 1)];
  if (spelled[at] === '--stop') return ['stop', ...rest];
  // As with TorchServe, whoever does not ask for the foreground gets the prompt back.
  return rest.includes('--foreground') || rest.includes('--daemon') ? ['start', ...rest] : ['start', '--daemon', ...rest];
}

/** Flags of one dash pair that commander takes for the long form already, and TorchServe's abbreviations. */
const aliases: Readonly<Record<string, string>> = {
  '--ncs': '--no-config-snapshots',
  '--dt': '--disable-token-auth',
  '--ppath': '--plugins-path',
};
