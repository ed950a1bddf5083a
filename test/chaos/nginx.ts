import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { running } from './instance.js';
import { until } from '../helpers/until.js';

/** Ports that nobody listens on now. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

const configuration = (port: number, upstreams: readonly number[], folder: string) => `
daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log ${folder}/error.log warn;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  upstream instances {
    # Nothing is taken out for a failure: with two instances the other may be starting at that moment.
${upstreams.map((upstream) => `    server 127.0.0.1:${upstream} max_fails=0;`).join('\n')}
    keepalive 32;
  }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://instances;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      # A request that was refused while draining, or met a closed connection, goes to the other instance.
      proxy_next_upstream error timeout http_503 non_idempotent;
      proxy_next_upstream_tries 3;
    }
  }
}
`;

/** nginx in front of servers on this machine. */
export async function startNginx(folder: string, port: number, upstreams: readonly number[]): Promise<{ stop(): Promise<void> }> {
  await mkdir(folder, { recursive: true });
  const file = join(folder, 'nginx.conf');
  await writeFile(file, configuration(port, upstreams, folder));
  const child = spawn('nginx', ['-p', folder, '-c', file, '-e', join(folder, 'error.log')], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  running.add(child);
  const exit = once(child, 'exit');
  child.once('exit', () => running.delete(child));
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`nginx ended with ${child.exitCode}`);
    return await fetch(`http://127.0.0.1:${port}/ping`).then(
      () => true,
      () => undefined,
    );
  }, 'nginx listens');
  return {
    async stop() {
      child.kill('SIGTERM');
      await exit;
    },
  };
}
