import { boolean, integer, key, type KeyExtras, type KeySpec, path, text } from './key-spec.js';

const pointless: KeyExtras = { status: 'pointless' };
const undocumented: KeyExtras = { status: 'pointless', environment: false };
const threads = integer(0, 1024);

/** Keys of TorchServe that files may hold and this version does not act on. */
export const unusedKeys: readonly KeySpec[] = [
  key('plugins_path', path, 'Folder of Java plugins; they cannot run here.', pointless),
  key('ts_open_inference_protocol', text, 'The paths under `/v2` need no switch here.', pointless),
  key('number_of_netty_threads', threads, 'Threads of the Java front; Node needs none.', pointless),
  key('netty_client_threads', threads, 'Threads of the Java front; Node needs none.', pointless),
  key('async_logging', boolean, 'Logging never blocks here.', pointless),
  key('prefer_direct_buffer', boolean, 'Memory of the Java front.', pointless),
  key('debug', boolean, 'Debugging of the Java front; use `log_level=debug`.', pointless),
  key('vmargs', text, 'Options of the Java machine; use `NODE_OPTIONS`.', pointless),
  key('metrics_format', text, 'The format is always that of Prometheus.', pointless),
  key('model_server_home', path, 'Folder of the Java front.', pointless),
  key('install_py_dep_per_model', boolean, 'There is no Python here; archives bring their JavaScript bundled.', pointless),
  key('decode_input_request', boolean, 'Handlers choose: `request.json()`, `.text()` or `.body()`.', pointless),
  key('python', text, 'There is no Python here.', undocumented),
  key('initial_distribution_port', integer(0, 2_147_483_647), 'Ports of torchrun.', undocumented),
  key('use_native_io', boolean, 'Workers always use Unix sockets here.', undocumented),
  key('io_ratio', integer(0, 100), 'Thread use of the Java front.', undocumented),
  key('ipex_enable', boolean, 'Tuning of PyTorch on Intel processors.', pointless),
  key('ipex_gpu_enable', boolean, 'Tuning of PyTorch on Intel GPUs.', pointless),
  key('cpu_launcher_enable', boolean, 'Pins Python workers to cores.', pointless),
  key('cpu_launcher_args', text, 'Pins Python workers to cores.', pointless),
  key('cpp_log_config', path, 'Logging of the C++ backend.', pointless),
  key('version', text, 'Written by snapshots.', undocumented),
  key('tsConfigFile', path, 'Written by snapshots.', undocumented),
];
