import type { Envelope } from '../../domain/envelope.js';

/** What a path means on the inference listener. */
export type InferenceRoute =
  | { readonly kind: 'ping' }
  | { readonly kind: 'health'; readonly probe: 'live' | 'ready'; readonly key: 'live' | 'ready' | 'status' }
  | PredictRoute
  | { readonly kind: 'invocations' }
  | { readonly kind: 'v1-list' }
  | { readonly kind: 'v1-model'; readonly model: string }
  | { readonly kind: 'v2-model-ready'; readonly model: string; readonly version: string | undefined }
  | { readonly kind: 'workflow'; readonly name: string };

export interface PredictRoute {
  readonly kind: 'predict';
  readonly explain: boolean;
  readonly model: string;
  readonly version: string | undefined;
  readonly urlPath: string;
  /** On the legacy paths the query parameters are part of the input. */
  readonly legacy: boolean;
  /** The protocol that the path belongs to; undefined: TorchServe's own. */
  readonly envelope: Envelope | undefined;
}

/** @param segments decoded; undefined: not a path of this listener */
export function inferenceRoute(segments: readonly string[]): InferenceRoute | undefined {
  const [first = '', second = '', third, fourth] = segments;
  switch (first) {
    case 'predictions':
    case 'explanations': {
      if (second === '') return undefined;
      return {
        kind: 'predict',
        explain: first === 'explanations',
        model: second,
        version: third === '' ? undefined : third,
        urlPath: segments.length > 3 ? segments.slice(3).join('/').replace(/\/+$/, '') : '',
        legacy: false,
        envelope: undefined,
      };
    }
    case 'ping':
      return { kind: 'ping' };
    case 'health':
      return second === 'live' || second === 'ready' ? { kind: 'health', probe: second, key: second } : undefined;
    case 'invocations':
      return { kind: 'invocations' };
    case 'models':
      return second !== '' && third === 'invoke' && segments.length === 3 ? legacy(second, undefined) : undefined;
    case 'v1':
      return second === 'models' ? v1Route(segments) : undefined;
    case 'v2':
      return v2Route(segments);
    default:
      break;
  }
  if (first.toLowerCase() === 'wfpredict') return second === '' ? undefined : { kind: 'workflow', name: second };
  // /{model}/predict and /{model}/{version}/predict
  if (first === '') return undefined;
  if (second === 'predict' && segments.length === 2) return legacy(first, undefined);
  if (third === 'predict' && fourth === undefined && second !== '') return legacy(first, second);
  return undefined;
}

function legacy(model: string, version: string | undefined): PredictRoute {
  return { kind: 'predict', explain: false, model, version, urlPath: '', legacy: true, envelope: undefined };
}

function enveloped(envelope: Envelope, model: string, version: string | undefined, explain: boolean): PredictRoute {
  return { kind: 'predict', explain, model, version, urlPath: '', legacy: false, envelope };
}

function v1Route(segments: readonly string[]): InferenceRoute | undefined {
  const name = segments[2] ?? '';
  if (segments.length > 3) return undefined;
  if (name === '') return { kind: 'v1-list' };
  const colon = name.lastIndexOf(':');
  const verb = colon < 0 ? '' : name.slice(colon + 1);
  if (verb === 'predict' || verb === 'explain') return enveloped('kserve', name.slice(0, colon), undefined, verb === 'explain');
  return { kind: 'v1-model', model: name };
}

function v2Route(segments: readonly string[]): InferenceRoute | undefined {
  const [, second, third, fourth, fifth, sixth] = segments;
  if (second === 'health' && segments.length === 3 && (third === 'live' || third === 'ready')) {
    return { kind: 'health', probe: third, key: third };
  }
  if (second !== 'models' || third === undefined || third === '') return undefined;
  if (fourth === 'ready' && segments.length === 4) return { kind: 'v2-model-ready', model: third, version: undefined };
  if (fourth === 'versions' && fifth !== undefined && sixth === 'ready' && segments.length === 6) {
    return { kind: 'v2-model-ready', model: third, version: fifth };
  }
  if ((fourth === 'infer' || fourth === 'explain') && segments.length === 4) {
    return enveloped('kservev2', third, undefined, fourth === 'explain');
  }
  if (fourth === 'versions' && fifth !== undefined && sixth === 'infer' && segments.length === 6) {
    return enveloped('kservev2', third, fifth, false);
  }
  return undefined;
}
