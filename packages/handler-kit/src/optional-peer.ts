/** Loads a package that only some handlers need, on first use. @throws saying what to install */
export async function optionalPeer<T>(name: string, load: () => Promise<unknown>): Promise<T> {
  let module: unknown;
  try {
    module = await load();
  } catch (cause) {
    throw new Error(`this needs the package "${name}", which could not be loaded; install it with: npm install ${name}`, {
      cause,
    });
  }
  const { default: inner } = module as { default?: unknown };
  return (
    typeof inner === 'object' || typeof inner === 'function'
      ? { ...(module as object), ...(inner as object), default: inner }
      : module
  ) as T;
}
