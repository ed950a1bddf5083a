import type { WorkflowNode } from '@onnxserve/archiver/workflow-spec';
import { ServeError, toServeError } from '../../domain/errors.js';
import type { PredictReply } from '../../domain/request.js';
import type { ArchiveEnvironment } from '../../registry/archive-environment.js';
import type { ModelArchive } from '../../registry/model-archive.js';
import { openArchive } from '../../registry/open-archive.js';
import { locateWorkflow, openWorkflow, type WorkflowArchive } from '../../registry/open-workflow.js';
import type { OperationStatus } from '../management-service.js';
import type { ModelServer } from '../model-server.js';
import { pageOf } from '../page.js';
import { type ServedModel, within } from '../served-model.js';
import { runWorkflow } from './run-workflow.js';
import type { WorkflowDescription, WorkflowList, WorkflowRequest, WorkflowService } from './workflow-service.js';

export interface WorkflowsOptions {
  readonly models: ModelServer;
  /** For the archives of nodes. */
  readonly archives: ArchiveEnvironment;
  /** Where workflow archives lie. */
  readonly workflowStore: string | undefined;
  /** Bytes that the answer of a node may have. */
  readonly maxResponseSize: number;
  /** Milliseconds that a removed workflow may still run. */
  readonly unregisterTimeout: number;
}

interface Workflow {
  readonly archive: WorkflowArchive;
  readonly nodes: ServedModel[];
  running: number;
  idle: (() => void) | undefined;
}

/** Nodes that are loaded at the same time. */
const nodesAtOnce = 8;

/** All workflows of a server. Their nodes are models, named `WORKFLOW__NODE`. */
export class Workflows implements WorkflowService {
  readonly #options: WorkflowsOptions;
  readonly #table = new Map<string, Workflow>();
  /** Names that are being registered, so that two calls cannot have the same. */
  readonly #arriving = new Set<string>();
  /** Names whose workflow still runs what it had accepted. */
  readonly #leaving = new Set<string>();
  /** Requests that are under way, of removed workflows too. */
  #running = 0;
  #whenIdle: Array<() => void> = [];
  #draining: ServeError | undefined;

  constructor(options: WorkflowsOptions) {
    this.#options = options;
  }

  async register(options: { readonly url: string; readonly workflowName?: string | undefined }): Promise<OperationStatus> {
    if (this.#draining !== undefined) throw this.#draining;
    const archive = await openWorkflow(options, { ...this.#options.archives, modelStore: this.#options.workflowStore });
    const { name } = archive;
    const workflow: Workflow = { archive, nodes: [], running: 0, idle: undefined };
    try {
      if (this.#table.has(name) || this.#arriving.has(name)) {
        throw new ServeError('CONFLICT', `Workflow "${name}" is registered already; unregister it first.`);
      }
      if (this.#leaving.has(name)) {
        throw new ServeError(
          'CONFLICT',
          `Workflow "${name}" is being unregistered and finishes its last requests; try again then.`,
        );
      }
      this.#arriving.add(name);
      try {
        await this.#addNodes(workflow);
        this.#table.set(name, workflow);
      } finally {
        this.#arriving.delete(name);
      }
    } catch (error) {
      await this.#removeNodes(workflow);
      await archive.dispose();
      throw error;
    }
    return { state: 'done', status: `Workflow ${name} has been registered and scaled successfully.` };
  }

  async locate(url: string): Promise<void> {
    await locateWorkflow(url, { ...this.#options.archives, modelStore: this.#options.workflowStore });
  }

  async unregister(name: string): Promise<OperationStatus> {
    const workflow = this.#get(name);
    this.#table.delete(name);
    this.#leaving.add(name);
    const empty = new Promise<void>((resolve) => {
      if (workflow.running === 0) resolve();
      else workflow.idle = resolve;
    });
    await within(empty, this.#options.unregisterTimeout);
    await this.#removeNodes(workflow);
    this.#leaving.delete(name);
    await workflow.archive.dispose();
    return { state: 'done', status: `Workflow "${name}" unregistered` };
  }

  describe(name: string): WorkflowDescription {
    const { archive } = this.#get(name);
    const { settings, dag, nodes } = archive.spec;
    return {
      workflowName: name,
      workflowUrl: archive.url,
      minWorkers: settings.minWorkers,
      maxWorkers: settings.maxWorkers,
      batchSize: settings.batchSize,
      maxBatchDelay: settings.maxBatchDelay,
      workflowDag: `{${[...dag].map(([node, followers]) => `${node}=[${followers.join(', ')}]`).join(', ')}}`,
      retryAttempts: settings.retryAttempts,
      timeoutMs: settings.timeoutMs,
      nodes: Object.fromEntries(nodes.map((node) => [node.name, { kind: node.kind, modelName: modelOf(name, node.name) }])),
    };
  }

  list(limit: number, pageToken: number): WorkflowList {
    const { items, nextPageToken } = pageOf([...this.#table.keys()].sort(), limit, pageToken);
    const workflows = items.map((name) => ({ workflowName: name, workflowUrl: this.#get(name).archive.url }));
    return { ...(nextPageToken === undefined ? {} : { nextPageToken }), workflows };
  }

  async predict(name: string, request: WorkflowRequest): Promise<PredictReply> {
    if (this.#draining !== undefined) throw this.#draining;
    const workflow = this.#get(name);
    workflow.running++;
    this.#running++;
    try {
      return await runWorkflow(
        workflow.archive.spec,
        (node) => modelOf(name, node),
        request,
        (it) => this.#options.models.predict(it),
        this.#options.maxResponseSize,
      );
    } finally {
      if (--workflow.running === 0) workflow.idle?.();
      if (--this.#running === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
    }
  }

  /** Refuses new requests and waits for those under way, for so long. */
  async drain(reason: ServeError, timeoutMs: number): Promise<void> {
    this.#draining = reason;
    if (this.#running > 0) await within(new Promise((resolve) => this.#whenIdle.push(resolve)), timeoutMs);
    await Promise.all([...this.#table.values()].map(({ archive }) => archive.close()));
  }

  #get(name: string): Workflow {
    const workflow = this.#table.get(name);
    if (workflow !== undefined) return workflow;
    throw new ServeError('WORKFLOW_NOT_FOUND', `There is no workflow "${name.slice(0, 200)}".`);
  }

  /** Several at a time, since each may take long to load, and not all, since each starts processes. The first failure ends it. */
  async #addNodes(workflow: Workflow): Promise<void> {
    const waiting = [...workflow.archive.spec.nodes];
    const failures: unknown[] = [];
    const add = async () => {
      for (let node = waiting.shift(); node !== undefined && failures.length === 0; node = waiting.shift())
        await this.#addNode(workflow, node).catch((error: unknown) => failures.push(error));
    };
    await Promise.all(Array.from({ length: nodesAtOnce }, add));
    if (failures.length > 0) throw failures[0];
  }

  async #addNode(workflow: Workflow, node: WorkflowNode): Promise<void> {
    const { name } = workflow.archive;
    try {
      const archive =
        node.kind === 'function'
          ? functionArchive(workflow.archive, node)
          : await openArchive({ url: node.url, modelName: modelOf(name, node.name) }, this.#options.archives);
      workflow.nodes.push(await this.#options.models.registerNode(archive, name, node.settings));
    } catch (thrown) {
      const error = toServeError(thrown);
      throw new ServeError(error.code, `Node ${node.name} of workflow "${name}": ${error.message}`, {
        reason: error.reason,
        cause: error,
      });
    }
  }

  async #removeNodes(workflow: Workflow): Promise<void> {
    await Promise.all(workflow.nodes.map((node) => this.#options.models.unregisterNode(node)));
  }
}

function modelOf(workflow: string, node: string): string {
  return `${workflow}__${node}`;
}

/** A function as a model without a model: the workflow owns its files. */
function functionArchive(workflow: WorkflowArchive, node: WorkflowNode): ModelArchive {
  return {
    name: modelOf(workflow.name, node.name),
    version: '1.0',
    url: undefined,
    // What TorchServe says of every archive that does not name one.
    runtime: 'python',
    directory: workflow.directory,
    handler: { kind: 'function', file: workflow.functions!, exportName: node.name },
    modelFile: undefined,
    sessionFiles: {},
    config: { onnx: {}, free: {} },
    hasConfigFile: false,
    warnings: [],
    dispose: () => Promise.resolve(),
  };
}
