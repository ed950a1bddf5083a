import {
  collate,
  type NamedTensors,
  type PadValues,
  PredictionError,
  rowsOf,
  shapeKey,
  split,
  Tensor,
  type TensorSignature,
} from '@onnxserve/handler-kit';
import { checkFeeds } from '@onnxserve/handler-kit/internal';
import { LengthCost } from '../batching/length-cost.js';
import { type ModelAxis, type PlannedRun, planRuns } from '../batching/plan-runs.js';
import { RunCost } from '../batching/run-cost.js';
import { monotonicNow } from '../domain/request.js';
import type { RunTiming, Session } from './engines/session.js';
import type { Item } from './item.js';
import { Ragged } from './ragged.js';

/** How the model takes several requests in one run, read from its signature. */
export function axisOf(session: Session): ModelAxis {
  const leading = [...session.inputs, ...session.outputs].map((it) => it.shape[0]);
  const inputs = session.inputs.map((it) => it.shape[0]);
  if (inputs.length === 0 || leading.some((d) => d === undefined)) return { kind: 'none', rows: 0 };
  const first = inputs[0]!;
  const free = (d: number | string | undefined) => typeof d === 'string' || d === -1;
  if (free(first)) {
    // Outputs of another free dimension (detections, non-zero positions) have no row per request.
    const same = leading.every((d) => free(d) && (d === first || d === -1 || first === -1));
    return same ? { kind: 'dynamic', rows: 0 } : { kind: 'none', rows: 0 };
  }
  return leading.every((d) => d === first) && first > 0 ? { kind: 'fixed', rows: first } : { kind: 'none', rows: 0 };
}

export interface RunListener {
  done(item: Item, outputs: NamedTensors): void;
  failed(item: Item, error: unknown): void;
}

/** The outputs of some of an item's rows, from row `from` on. */
interface Part {
  readonly from: number;
  readonly outputs: NamedTensors;
}

/** Runs handed to the session before the first of them is over, so that it never waits for this thread. */
const RUNS_AHEAD = 2;

/** Runs prepared items: plans, collates, runs, splits; a run that fails is repeated item by item. */
export class RunPlanner {
  readonly #session: Session;
  readonly #maxRows: number;
  readonly #model: string;
  /** What one request must fit: under a fixed batch axis any number of rows, since the plan fills the axis. */
  readonly #wanted: readonly TensorSignature[];
  readonly #cost: RunCost | undefined;
  readonly #lengthCost = new LengthCost();
  readonly #ragged: Ragged | undefined;
  #axis: ModelAxis;

  /**
   * @param adaptive run as many rows at once as pay, up to `maxRows`; false: always as many as there are
   * @param pad inputs that may be filled up so that items of different lengths share a run
   * @throws {Error} when `pad` names what the model does not have
   */
  constructor(session: Session, axis: ModelAxis, maxRows: number, model: string, adaptive: boolean, pad?: PadValues) {
    this.#ragged = pad === undefined ? undefined : new Ragged(session, pad, model);
    this.#cost = adaptive && maxRows > 1 ? new RunCost() : undefined;
    this.#session = session;
    this.#axis = axis;
    this.#maxRows = maxRows;
    this.#model = model;
    this.#wanted =
      axis.kind === 'fixed'
        ? session.inputs.map((input) => ({ ...input, shape: [-1, ...input.shape.slice(1)] }))
        : session.inputs;
  }

  /**
   * Checks what preprocess returned and notes its rows and shape group.
   * @throws when it is not named tensors (the handler's bug) or does not fit the model's inputs (400)
   */
  prepare(item: Item): void {
    const { features } = item;
    if (!isNamedTensors(features)) {
      throw new TypeError(
        `preprocess of model "${this.#model}" must return an object of tensors by input name (${this.#wanted.map((input) => input.name).join(', ')}), got ${describe(features)}`,
      );
    }
    checkFeeds(features, this.#wanted);
    if (this.#axis.kind === 'none') return;
    item.rows = rowsOf(features);
    if (this.#ragged === undefined || this.#axis.kind === 'fixed') item.key = shapeKey(features);
    else Object.assign(item, this.#ragged.describe(features));
  }

  /** Never rejects. Tells the listener of each item as soon as its last run is over. */
  async run(items: readonly Item[], listener: RunListener): Promise<void> {
    const cost = this.#cost;
    const runs = planRuns(items, this.#axis, {
      rows: (key) => (cost === undefined || this.#ragged !== undefined ? this.#maxRows : cost.limit(key, this.#maxRows)),
      ragged: cost === undefined ? 'insist' : this.#lengthCost.get(),
    });
    const parts = new Map<Item, Part[]>();
    const open = new Map<Item, number>();
    for (const { pieces } of runs) for (const { item } of pieces) open.set(items[item]!, (open.get(items[item]!) ?? 0) + 1);
    for (const item of items) {
      // Under a fixed axis nothing would run for it, and nobody would answer.
      if (!open.has(item)) listener.failed(item, new PredictionError('The input has no rows.', 400));
    }
    const execute = async (run: PlannedRun): Promise<void> => {
      const mates = [...new Set(run.pieces.map(({ item }) => items[item]!))].filter((item) => open.has(item));
      if (mates.length === 0) return;
      const timing: RunTiming = { startedAt: monotonicNow(), endedAt: 0, waited: 0 };
      try {
        const outputs = await this.#runOnce(items, run, timing);
        if (timing.endedAt === 0) timing.endedAt = monotonicNow();
        this.#learn(items, run, timing);
        run.pieces.forEach(({ item, from }, index) => {
          const owner = items[item]!;
          const part = { from, outputs: outputs[index]! };
          const before = parts.get(owner);
          if (before === undefined) parts.set(owner, [part]);
          else before.push(part);
        });
        for (const item of mates) {
          // Another run of its failed meanwhile, and it was run again alone.
          if (!open.has(item)) continue;
          item.span('inference', timing.startedAt, timing.endedAt);
          item.batchSize = Math.max(item.batchSize, mates.length);
          const left = (open.get(item) ?? 0) - 1;
          open.set(item, left);
          if (left === 0) this.#finish(item, parts.get(item)!, listener);
        }
      } catch (error) {
        for (const item of mates) {
          if (!open.delete(item)) continue;
          item.lap('inference');
          if (mates.length === 1) listener.failed(item, error);
          else await this.run([item], listener);
        }
      }
    };
    const ahead: Array<Promise<void>> = [];
    for (const run of runs) {
      ahead.push(execute(run));
      if (ahead.length >= RUNS_AHEAD) await ahead.shift();
    }
    await Promise.all(ahead);
  }

  #learn(items: readonly Item[], run: PlannedRun, { startedAt, endedAt, waited }: RunTiming): void {
    if (this.#cost === undefined) return;
    const rows = run.pieces.reduce((sum, { from, to }) => sum + to - from, run.padding);
    const ms = (endedAt - startedAt - waited) / 1e6;
    if (this.#ragged === undefined) this.#cost.observe(items[run.pieces[0]!.item]!.key, rows, ms);
    else this.#lengthCost.observe(rows * Math.max(...run.pieces.map(({ item }) => items[item]!.size ?? 0)), ms);
  }

  #finish(item: Item, parts: readonly Part[], listener: RunListener): void {
    try {
      // Runs may end in another order than they began.
      const ordered = [...parts].sort((a, b) => a.from - b.from).map(({ outputs }) => outputs);
      listener.done(item, collate(ordered));
    } catch (error) {
      listener.failed(item, error);
    }
  }

  /** @returns the outputs of each piece */
  async #runOnce(items: readonly Item[], run: PlannedRun, timing: RunTiming): Promise<NamedTensors[]> {
    const pieces = run.pieces.map(({ item, from, to }) => {
      const features = items[item]!.features as NamedTensors;
      return this.#axis.kind === 'none' || (from === 0 && to === items[item]!.rows) ? features : slice(features, from, to);
    });
    if (pieces.length === 1 && run.padding === 0) {
      const outputs = await this.#session.runRows(pieces, undefined, timing);
      return [outputs];
    }
    const rows = run.pieces.map(({ from, to }) => to - from);
    const ragged = this.#axis.kind === 'dynamic' ? this.#ragged : undefined;
    const filled = ragged?.fill(pieces) ?? pieces;
    const last = pieces.at(-1)!;
    const filler = Array.from({ length: run.padding }, () => slice(last, rows.at(-1)! - 1, rows.at(-1)!));
    const total = rows.reduce((sum, n) => sum + n, run.padding);
    const outputs = await this.#session.runRows([...filled, ...filler], undefined, timing);
    if (Object.values(outputs).some((tensor: Tensor) => tensor.shape[0] !== total)) {
      if (items.length > 1 || run.padding > 0) this.#axis = { kind: 'none', rows: 0 };
      throw new PredictionError(
        `The model returned other than ${total} rows for a batch of ${total}; its requests are run one by one from now on.`,
        500,
      );
    }
    const parts = split(outputs, [...rows, ...filler.map(() => 1)]).slice(0, rows.length);
    return ragged === undefined ? parts : parts.map((part, at) => ragged.cut(part, pieces[at]!, filled[at]!));
  }
}

function isNamedTensors(value: unknown): value is NamedTensors {
  if (typeof value !== 'object' || value === null) return false;
  const values = Object.values(value);
  return (
    values.length > 0 &&
    values.every(
      (it) =>
        it instanceof Tensor || (typeof it === 'object' && it !== null && 'datatype' in it && 'shape' in it && 'data' in it),
    )
  );
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value !== 'object') return typeof value;
  return `an object with ${Object.keys(value).slice(0, 5).join(', ') || 'nothing'}`;
}

/** Rows `from` up to `to` along the leading axis, without a copy. */
function slice(tensors: NamedTensors, from: number, to: number): NamedTensors {
  return split(tensors, [from, to - from, rowsOf(tensors) - to])[1]!;
}
