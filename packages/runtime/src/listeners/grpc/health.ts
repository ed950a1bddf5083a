import type { handleServerStreamingCall, UntypedServiceImplementation } from '@grpc/grpc-js';
import { modelChanged, workerChanged } from '../../domain/events.js';
import { ServeError, toServeError } from '../../domain/errors.js';
import type { ManagementService } from '../../serving/management-service.js';
import { type Readiness, servesNow } from '../../serving/readiness.js';
import type { OpenCalls } from './interceptor.js';
import { fail, unary, write } from './methods.js';

type ServingStatus = 'SERVING' | 'NOT_SERVING' | 'SERVICE_UNKNOWN';
interface HealthCheckRequest {
  readonly service: string;
}
interface HealthCheckResponse {
  readonly status: ServingStatus;
}

const LOOK_MS = 1_000;

export interface HealthOptions {
  readonly management: ManagementService;
  readonly readiness: () => Readiness;
  /** Full names of the services that stand for the whole server. */
  readonly services: readonly string[];
}

/** grpc.health.v1.Health: the server under the empty name and those of its services, each model under its own. */
export class Health {
  readonly #options: HealthOptions;
  readonly #watchers = new Set<() => void>();
  readonly #end: ReadonlyArray<() => void>;
  #draining = false;
  #scheduled = false;

  constructor(options: HealthOptions) {
    this.#options = options;
    // A replacement that does not come is no event.
    const clock = setInterval(() => this.changed(), LOOK_MS);
    clock.unref();
    this.#end = [
      modelChanged.subscribe(() => this.changed()),
      workerChanged.subscribe(() => this.changed()),
      () => clearInterval(clock),
    ];
  }

  drain(): void {
    this.#draining = true;
    this.changed();
  }

  close(): void {
    for (const end of this.#end) end();
  }

  /** Lets the watchers look again, once for whatever changes in this turn. */
  changed(): void {
    if (this.#scheduled || this.#watchers.size === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      for (const look of this.#watchers) look();
    });
  }

  implementation(calls: OpenCalls): UntypedServiceImplementation {
    const watch: handleServerStreamingCall<HealthCheckRequest, HealthCheckResponse> = (surface) => {
      const call = calls.of(surface);
      let told: ServingStatus | undefined;
      let looking: Promise<void> = Promise.resolve();
      const tell = async () => {
        const status = this.#statusOf(surface.request.service);
        if (status === told) return;
        told = status;
        await write(surface, call, { status });
      };
      const look = () => {
        looking = looking.then(tell).catch((error: unknown) => fail(surface, call, error));
      };
      this.#watchers.add(look);
      call.onClose(() => this.#watchers.delete(look));
      look();
    };
    return {
      Check: unary<HealthCheckRequest, HealthCheckResponse>(calls, ({ service }) => {
        const status = this.#statusOf(service);
        if (status !== 'SERVICE_UNKNOWN') return Promise.resolve({ status });
        throw new ServeError('RESOURCE_NOT_FOUND', `There is no service and no model "${service.slice(0, 200)}".`);
      }),
      Watch: watch,
    };
  }

  #statusOf(service: string): ServingStatus {
    const { management, readiness, services } = this.#options;
    if (service === '' || services.includes(service)) {
      return readiness().ready && !this.#draining ? 'SERVING' : 'NOT_SERVING';
    }
    try {
      const serving = servesNow(management.readiness(service, undefined).state);
      return serving && !this.#draining ? 'SERVING' : 'NOT_SERVING';
    } catch (error) {
      if (toServeError(error).code === 'MODEL_NOT_FOUND') return 'SERVICE_UNKNOWN';
      throw error;
    }
  }
}
