// Proxies on loopback: CONNECT (and absolute-form requests), and SOCKS5. Both
// count what went through them and can send every host to one fake.
import { once } from 'node:events';
import { createServer as createHttp, request as httpRequest } from 'node:http';
import { connect, createServer } from 'node:net';

function forget(socket, sockets) {
  sockets.add(socket);
  socket.on('error', () => {});
  socket.on('close', () => sockets.delete(socket));
  return socket;
}

// Ends when its server is closed and every connection is gone.
async function closeAll(server, sockets) {
  const closed = once(server, 'close');
  server.close();
  for (const socket of sockets) socket.destroy();
  await closed;
}

function join(a, b) {
  a.pipe(b);
  b.pipe(a);
  a.on('close', () => b.destroy());
  b.on('close', () => a.destroy());
}

/**
 * An HTTP proxy. `to`: { host, port } for whatever host was asked, or a function
 * of (host, port); `user`, `password`: it answers 407 without them.
 * -> { url, port, tunnels: [{ host, port }], requests, refused, close() }
 */
export async function startHttpProxy({ to, user, password } = {}) {
  const sockets = new Set();
  const proxy = { tunnels: [], requests: [], refused: 0 };
  const wanted = user === undefined ? undefined : `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
  const place = (host, port) => (typeof to === 'function' ? to(host, port) : (to ?? { host, port }));
  const denied = (request) => wanted !== undefined && request.headers['proxy-authorization'] !== wanted && ++proxy.refused;

  const server = createHttp((request, response) => {
    if (denied(request)) return response.writeHead(407, { 'proxy-authenticate': 'Basic realm="proxy"' }).end();
    const url = new URL(request.url);
    proxy.requests.push({ host: url.hostname, port: Number(url.port || 80), path: url.pathname });
    const { 'proxy-authorization': _, 'proxy-connection': __, ...headers } = request.headers;
    const { host, port } = place(url.hostname, Number(url.port || 80));
    const onward = httpRequest({ host, port, method: request.method, path: url.pathname + url.search, headers });
    onward.on('response', (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  });
  server.on('connection', (socket) => forget(socket, sockets));
  server.on('connect', (request, socket, head) => {
    if (denied(request))
      return socket.end('HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="proxy"\r\nContent-Length: 0\r\n\r\n');
    const [, host, port] = /^\[?(.*?)\]?:(\d+)$/.exec(request.url);
    proxy.tunnels.push({ host, port: Number(port) });
    const inner = forget(connect(place(host, Number(port))), sockets);
    inner.on('connect', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      inner.write(head);
      join(socket, inner);
    });
    inner.on('error', () => socket.end('HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n'));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  proxy.port = server.address().port;
  const login = user === undefined ? '' : `${encodeURIComponent(user)}:${encodeURIComponent(password)}@`;
  proxy.url = `http://${login}127.0.0.1:${proxy.port}`;
  proxy.close = () => closeAll(server, sockets);
  return proxy;
}

// Reads exact numbers of bytes from a socket, one after the other.
async function* reader(socket) {
  let kept = Buffer.alloc(0);
  let want = yield;
  for (;;) {
    while (kept.length < want) {
      const data = socket.read();
      if (data) kept = Buffer.concat([kept, data]);
      else if (socket.destroyed || socket.readableEnded) return;
      else await Promise.race([once(socket, 'readable'), once(socket, 'close')]);
    }
    const part = kept.subarray(0, want);
    kept = kept.subarray(want);
    want = yield part;
  }
}

async function readAddress(take, kind) {
  if (kind === 1) return [...(await take(4))].join('.');
  if (kind === 3) return (await take((await take(1))[0])).toString();
  const bytes = await take(16);
  return Array.from({ length: 8 }, (_, i) => bytes.readUInt16BE(i * 2).toString(16)).join(':');
}

async function checkLogin(take, socket, user, password) {
  const [, nameLength] = await take(2);
  const name = (await take(nameLength)).toString();
  const secret = (await take((await take(1))[0])).toString();
  const right = name === user && secret === password;
  socket.write(Buffer.from([1, right ? 0 : 1]));
  return right;
}

async function serveSocks(socket, proxy, { to, user, password }) {
  const parts = reader(socket);
  await parts.next();
  const take = async (count) => {
    const { value, done } = await parts.next(count);
    if (done) throw new Error('the client is gone');
    return value;
  };
  const [, methodCount] = await take(2);
  const methods = [...(await take(methodCount))];
  const method = user === undefined ? 0 : 2;
  if (!methods.includes(method)) return socket.end(Buffer.from([5, 0xff]), () => proxy.refused++);
  socket.write(Buffer.from([5, method]));
  if (method === 2 && !(await checkLogin(take, socket, user, password))) return socket.end(() => proxy.refused++);
  const [, command, , kind] = await take(4);
  const host = await readAddress(take, kind);
  const port = (await take(2)).readUInt16BE(0);
  if (command !== 1) return socket.end(Buffer.from([5, 7, 0, 1, 0, 0, 0, 0, 0, 0]));
  proxy.tunnels.push({ host, port, named: kind === 3 });
  const inner = connect(typeof to === 'function' ? to(host, port) : (to ?? { host, port }));
  inner.on('error', () => socket.end(Buffer.from([5, 5, 0, 1, 0, 0, 0, 0, 0, 0])));
  await once(inner, 'connect');
  socket.write(Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]));
  join(socket, inner);
}

/**
 * A SOCKS5 proxy; `named` of a tunnel: the client left the name to the proxy.
 * -> { port, url: 'socks5h://…', tunnels, refused, close() }
 */
export async function startSocksProxy(options = {}) {
  const sockets = new Set();
  const proxy = { tunnels: [], refused: 0 };
  const server = createServer((socket) => {
    forget(socket, sockets);
    serveSocks(socket, proxy, options).catch(() => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  proxy.port = server.address().port;
  const login = options.user === undefined ? '' : `${options.user}:${options.password}@`;
  proxy.url = `socks5h://${login}127.0.0.1:${proxy.port}`;
  proxy.close = () => closeAll(server, sockets);
  return proxy;
}
