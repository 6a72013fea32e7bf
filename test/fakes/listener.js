// Listens on loopback: plain or TLS, HTTP/1.1 or both versions.
import { once } from 'node:events';
import { createServer as createHttp } from 'node:http';
import { createSecureServer } from 'node:http2';
import { createServer as createHttps } from 'node:https';

function makeServer({ certificate, http2 }) {
  const limits = { maxHeaderSize: 1 << 20, highWaterMark: 1 << 20 };
  if (!certificate) return createHttp(limits);
  const { key, cert } = certificate;
  if (http2) return createSecureServer({ key, cert, allowHTTP1: true });
  return createHttps({ ...limits, key, cert });
}

/** -> { server, port, close() }; `close` also ends open connections. */
export async function listen(options, onRequest, onUpgrade) {
  const server = makeServer(options);
  const sockets = new Set();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
    socket.setNoDelay(true);
  });
  server.on('request', onRequest);
  server.on('sessionError', () => {});
  server.on('clientError', (_, socket) => socket.destroy());
  if (onUpgrade) server.on('upgrade', onUpgrade);
  server.requestTimeout = 0;
  server.keepAliveTimeout = 60_000;
  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');
  const close = async () => {
    const closed = once(server, 'close');
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  return { server, port: server.address().port, close };
}
