import type { ServerConfig, StartupModelSettings } from '../config/server-config.js';
import { modelNameForArchive } from '../config/startup-models.js';
import { listStore } from '../registry/list-store.js';
import { ServeError, toServeError } from '../domain/errors.js';
import type { ModelServer, StartupModel } from './model-server.js';

export interface StartupProgress {
  readonly model: string;
  readonly state: 'loading' | 'ready' | 'failed';
  readonly message: string;
}

/**
 * Loads what `load_models` lists, all at once.
 * @param workers for models that do not say how many they want
 * @returns a sentence for each model that could not be loaded
 */
export async function loadStartupModels(
  server: ModelServer,
  config: ServerConfig,
  workers: number,
  progress: (event: StartupProgress) => void = () => undefined,
): Promise<readonly string[]> {
  let startups: readonly StartupModel[];
  try {
    startups = await startupModels(config, workers);
  } catch (error) {
    const { message } = toServeError(error);
    progress({ model: config.modelStore ?? '', state: 'failed', message });
    return [message];
  }
  const results = await Promise.all(
    startups.map(async (startup): Promise<string[]> => {
      const shown = startup.modelName ?? startup.url;
      progress({ model: shown, state: 'loading', message: `loading ${startup.url}` });
      const started = performance.now();
      try {
        const model = await server.registerAtStartup(startup);
        await model.pool.started();
        server.announceReady(model);
        const seconds = ((performance.now() - started) / 1000).toFixed(2);
        const message = `${model.name} ${model.version} is ready after ${seconds} s with ${model.pool.ready} worker(s)`;
        progress({ model: model.name, state: 'ready', message });
        return [];
      } catch (error) {
        const { message } = error instanceof ServeError ? error : toServeError(error);
        progress({ model: shown, state: 'failed', message: `${startup.url}: ${message}` });
        return [`${startup.url}: ${message}`];
      }
    }),
  );
  return results.flat();
}

/** What `load_models` and `models` ask for. @throws {ServeError} when the store cannot be read */
export async function startupModels(config: ServerConfig, workers: number): Promise<StartupModel[]> {
  if (config.loadModels !== 'all') {
    return config.loadModels.map(({ name, url }) => ({
      url,
      modelName: name,
      settings: settingsFor(config, name, url),
      workers,
    }));
  }
  if (config.modelStore === undefined) {
    throw new ServeError(
      'BAD_REQUEST',
      'load_models=all needs a model store: set model_store in config.properties, or --model-store.',
    );
  }
  const urls = await listStore(config.modelStore);
  return urls.map((url) => {
    const modelName = modelNameForArchive(config.models, url);
    return { url, modelName, settings: settingsFor(config, modelName, url), workers };
  });
}

/** What `models` says of an archive: by its file, else by the model's name when that has one version only. */
function settingsFor(config: ServerConfig, name: string | undefined, url: string): StartupModelSettings | undefined {
  const all = Object.entries(config.models).flatMap(([model, versions]) =>
    Object.values(versions).map((settings) => ({ model, settings })),
  );
  const byFile = all.filter(
    ({ model, settings }) => (settings.marName ?? `${model}.mar`) === url && (name === undefined || name === model),
  );
  if (byFile.length > 0) return byFile[0]!.settings;
  const byName = all.filter(({ model, settings }) => model === name && settings.marName === undefined);
  return byName.length === 1 ? byName[0]!.settings : undefined;
}
