import { ServeError } from '../domain/errors.js';

export function modelApiOff(): ServeError {
  return new ServeError(
    'METHOD_NOT_ALLOWED',
    'Registering and unregistering models is off; enable_model_api=true (or --enable-model-api) turns it on.',
  );
}
