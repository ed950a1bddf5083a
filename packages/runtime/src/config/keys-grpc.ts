import { boolean, integer, key, type KeySpec, text } from './key-spec.js';

const port = integer(0, 65_535);
const milliseconds = integer(0, 2_147_483_647);

const age = 'Age at which a connection is closed, give or take a tenth, so that clients spread anew over replicas. 0: never.';
const grace = 'How long the calls of a connection that has reached its age may take to finish. 0: no limit.';

export const grpcKeys: readonly KeySpec[] = [
  key('grpc_inference_address', text, 'Where gRPC predictions are answered: a host or an IP address, or `unix:/path`.', {
    default: '127.0.0.1',
  }),
  key('grpc_inference_port', port, 'Port of gRPC predictions. 0: any free port.', { default: '7070' }),
  key(
    'grpc_management_address',
    text,
    'Where models are managed over gRPC. Equal addresses and ports, or equal `unix:` paths, share one listener.',
    { default: '127.0.0.1' },
  ),
  key('grpc_management_port', port, 'Port of gRPC management. 0: any free port.', { default: '7071' }),
  key('grpc_inference_max_connection_age_ms', milliseconds, age, { default: '0', unit: 'ms' }),
  key('grpc_management_max_connection_age_ms', milliseconds, age, { default: '0', unit: 'ms' }),
  key('grpc_inference_max_connection_age_grace_ms', milliseconds, grace, { default: '0', unit: 'ms' }),
  key('grpc_management_max_connection_age_grace_ms', milliseconds, grace, { default: '0', unit: 'ms' }),
  key('enable_grpc_ssl', boolean, 'TLS on both gRPC listeners, with the certificate of the others.', { default: 'false' }),
];
