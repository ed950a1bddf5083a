import { fileURLToPath } from 'node:url';
import type { ServiceDefinition } from '@grpc/grpc-js';
import { loadSync, type PackageDefinition } from '@grpc/proto-loader';

const folder = fileURLToPath(new URL('../../../proto/', import.meta.url));

const files = [
  'inference.proto',
  'management.proto',
  'open_inference_grpc.proto',
  'grpc/health/v1/health.proto',
  // Nothing refers to it, and clients that ask by reflection want to read it.
  'google/rpc/error_details.proto',
];

let loaded: PackageDefinition | undefined;

/** Every message and service that this server speaks. Read once: it takes a tenth of a second. */
export function definitions(): PackageDefinition {
  loaded ??= loadSync(files, {
    includeDirs: [folder],
    keepCase: true,
    longs: String,
    enums: String,
    defaults: true,
    oneofs: true,
  });
  return loaded;
}

export const serviceNames = {
  inference: 'org.pytorch.serve.grpc.inference.InferenceAPIsService',
  management: 'org.pytorch.serve.grpc.management.ManagementAPIsService',
  openInference: 'org.pytorch.serve.grpc.openinference.GRPCInferenceService',
  health: 'grpc.health.v1.Health',
} as const;

export function serviceDefinition(name: keyof typeof serviceNames): ServiceDefinition {
  return definitions()[serviceNames[name]] as ServiceDefinition;
}
