import { ServeError } from '../domain/errors.js';
import type { EndedBy } from './ended-sequences.js';
import type { SequenceSettings } from './sequence.js';

export interface SequenceModel extends SequenceSettings {
  readonly model: string;
  readonly version: string;
}

export function tooMany({ model, version, maxNumSequence }: SequenceModel): ServeError {
  return new ServeError(
    'QUEUE_FULL',
    `Model "${model}" version ${version} serves ${maxNumSequence} sequences and takes no further one until one of them ends (maxNumSequence in model-config.yaml). Sequences end by their end mark, or by sequenceMaxIdleMSec and sequenceTimeoutMSec.`,
    { reason: 'too-many-sequences', retryAfter: 1 },
  );
}

export function queueFull({ model, maxSequenceJobQueueSize }: SequenceModel, id: string): ServeError {
  return new ServeError(
    'QUEUE_FULL',
    `Sequence ${shown(id)} of model "${model}" has ${maxSequenceJobQueueSize} requests waiting, which is the limit (maxSequenceJobQueueSize in model-config.yaml).`,
    { reason: 'sequence-queue-full', retryAfter: 1 },
  );
}

/** What members of a sequence are told that has ended without them. */
export function ended(settings: SequenceModel, id: string, by: EndedBy): ServeError {
  const { model, sequenceMaxIdleMSec, sequenceTimeoutMSec } = settings;
  const anew = 'Begin it anew, with the start mark.';
  switch (by) {
    case 'idle':
      return new ServeError(
        'SEQUENCE_ENDED',
        `Sequence ${shown(id)} of model "${model}" ended after ${sequenceMaxIdleMSec} ms without a request (sequenceMaxIdleMSec in model-config.yaml). ${anew}`,
        { reason: 'sequence-expired' },
      );
    case 'timeout':
      return new ServeError(
        'SEQUENCE_ENDED',
        `Sequence ${shown(id)} of model "${model}" ended after ${sequenceTimeoutMSec} ms in total (sequenceTimeoutMSec in model-config.yaml). ${anew}`,
        { reason: 'sequence-expired' },
      );
    case 'lost':
      return new ServeError(
        'SEQUENCE_ENDED',
        `The worker that kept the state of sequence ${shown(id)} of model "${model}" has ended. ${anew}`,
        { reason: 'sequence-lost' },
      );
  }
}

/** Ids come from clients and may be of any length. */
function shown(id: string): string {
  return JSON.stringify(id.length > 80 ? `${id.slice(0, 80)}…` : id);
}
