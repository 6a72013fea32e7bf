// A session that ends leaves the host's own sockets alone: descriptor numbers
// are reused at once, and a late word to the kernel about an old one would make
// the new owner deaf.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { test } from 'node:test';
import { createSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';

const echo = () => net.createServer((socket) => socket.pipe(socket).on('error', () => {}));

async function answers(socket) {
  socket.write('x');
  const [data] = await once(socket, 'data', { signal: AbortSignal.timeout(10_000) });
  return String(data);
}

test('sockets opened while sessions end all hear', async () => {
  const server = echo().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  const sockets = [];
  for (let round = 0; round < 3; round++) {
    const sandbox = await createSandbox({ provider: local({ isolation: 'full' }) });
    // Something to remove, so that the end takes a while.
    await sandbox.run('seq 2000 | xargs touch');
    let going = true;
    const ended = sandbox.stop().finally(() => (going = false));
    for (let i = 0; going && i < 60; i++) {
      const socket = net.connect(port, '127.0.0.1');
      sockets.push(socket);
      await once(socket, 'connect');
    }
    await ended;
  }
  assert.deepEqual(new Set(await Promise.all(sockets.map(answers))), new Set(['x']));
  for (const socket of sockets) socket.destroy();
  server.close();
});
