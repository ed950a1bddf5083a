/** Forms of a body that stand around what a handler is given, by TorchServe's names. */
export const envelopes = ['body', 'json', 'kserve', 'kservev2'] as const;

/**
 * - `body`: the part `data`, else `body`, of a form
 * - `json`: `{"instances": [...]}`, answered by `{"predictions": [...]}`
 * - `kserve`: the same, explained by `{"explanations": [...]}`; what `/v1` speaks
 * - `kservev2`: tensors of the Open Inference Protocol; what `/v2` speaks
 */
export type Envelope = (typeof envelopes)[number];
