/** A spec that cannot be used. `dag`: its graph is none that can be run. The message names the key or node. */
export class WorkflowSpecError extends Error {
  override readonly name = 'WorkflowSpecError';
  readonly part: 'file' | 'dag';

  constructor(part: 'file' | 'dag', message: string) {
    super(message);
    this.part = part;
  }
}
