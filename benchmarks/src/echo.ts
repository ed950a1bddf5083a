import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => void chunks.push(chunk));
  request.on('end', () => {
    const body = Buffer.concat(chunks);
    response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': body.length });
    response.end(body);
  });
});
server.listen(0, '127.0.0.1', 4096, () => console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`));
process.on('SIGTERM', () => process.exit(0));
