/** TorchServe's handlers may use any text as a name; Prometheus allows letters, digits, `_` and `:`. */
export function metricName(text: string): string {
  const name = text.replaceAll(/[^A-Za-z0-9_:]/g, '_');
  return /^[0-9]/.test(name) || name === '' ? `_${name}` : name;
}
