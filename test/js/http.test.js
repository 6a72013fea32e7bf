// The HTTP engine under Node, over both transports: TLS with certificates made
// here, HTTP/2, proxies, compression, back-pressure, WebSockets, workers.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { inspect } from 'node:util';
import { Worker } from 'node:worker_threads';
import zlib from 'node:zlib';
import { native } from '../../js/native.js';
import { startSocksProxy } from '../fakes/proxy.js';
import { until } from '../helpers/workspace.js';

const IDEMPOTENT = 1;
const STREAM = 2;
const proxyNames = ['http_proxy', 'https_proxy', 'all_proxy', 'no_proxy'].flatMap((n) => [n, n.toUpperCase()]);
let folder;
let cert;

before(() => {
  for (const name of [...proxyNames, 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE']) delete process.env[name];
  folder = mkdtempSync(path.join(os.tmpdir(), 'sbx-http-'));
  const key = path.join(folder, 'key.pem');
  const file = path.join(folder, 'cert.pem');
  execFileSync('openssl', [
    ...'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost'.split(' '),
    ...['-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', key, '-out', file],
  ], { stdio: 'ignore' });
  cert = { key: readFileSync(key), cert: readFileSync(file), file };
});
after(() => rmSync(folder, { recursive: true, force: true }));

async function listen(t, server) {
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  server.url = (scheme) => `${scheme}://localhost:${server.address().port}`;
  t.after(
    () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections?.();
        for (const socket of server.open ?? []) socket.destroy();
      }),
  );
  return server;
}

function client(t, settings = {}) {
  const made = new (native().Http)({ proxy: '', ...settings });
  t.after(() => made.close());
  return made;
}

/** One exchange to its end. */
function call(on, request, act = {}) {
  return new Promise((resolve, reject) => {
    const seen = { bytes: [], messages: [], drains: 0 };
    const id = on.open({ method: 'GET', ...request }, (event, value) => {
      if (event === 'head') Object.assign(seen, value);
      if (event === 'bytes') seen.bytes.push(value);
      if (event === 'message') seen.messages.push(Buffer.concat(seen.bytes.splice(0)).toString());
      if (event === 'drain') seen.drains += 1;
      act[event]?.(id, value, seen);
      if (event !== 'end') return;
      on.end(id);
      seen.body = Buffer.concat(seen.bytes);
      seen.text = seen.body.length < 1e6 ? seen.body.toString() : '';
      if (value) reject(Object.assign(value, { seen }));
      else resolve(seen);
    });
    act.open?.(id);
  });
}

const hello = (request, response) => response.end(`hello ${request.httpVersion} ${request.url}`);

for (const transport of ['libcurl', 'host']) {
  describe(transport, () => {
    before(() => {
      process.env.SBX_HTTP_TRANSPORT = transport;
    });
    after(() => {
      delete process.env.SBX_HTTP_TRANSPORT;
    });

    test('GET, POST, kept connections', async (t) => {
      let connections = 0;
      const server = await listen(t, http.createServer(async (request, response) => {
          const chunks = [];
          for await (const chunk of request) chunks.push(chunk);
          response.setHeader('X-Seen', JSON.stringify([request.method, request.headers]));
          response.end(Buffer.concat(chunks));
        }),
      );
      server.on('connection', () => (connections += 1));
      const on = client(t);
      for (let i = 0; i < 3; i += 1) {
        const got = await call(on, { method: 'POST', url: `${server.url('http')}/a?b`, body: Buffer.from('body'), headers: ['X-Key: k v', 'X-Empty:'] });
        const [method, headers] = JSON.parse(got.headers['x-seen']);
        assert.equal(method, 'POST');
        assert.equal(headers['x-key'], 'k v');
        assert.equal(headers['x-empty'], '');
        assert.equal(headers['content-length'], '4');
        assert.equal(headers['content-type'], undefined);
        assert.equal(got.text, 'body');
      }
      assert.equal(connections, 1);
      const got = await call(on, { method: 'DELETE', url: server.url('http') });
      assert.equal(JSON.parse(got.headers['x-seen'])[1]['content-length'], undefined);
    });

    test('TLS: refused without the CA, accepted with it', async (t) => {
      const server = await listen(t, https.createServer(cert, hello));
      const stranger = client(t);
      await assert.rejects(call(stranger, { url: `${server.url('https')}/?secret=1` }), (error) => {
        assert.equal(error.code, 'unavailable');
        assert.equal(error.retryable, false);
        assert.match(error.message, /localhost.*self.signed.*NODE_EXTRA_CA_CERTS/);
        assert.doesNotMatch(error.message, /secret/);
        return true;
      });
      const on = client(t, { caFile: cert.file });
      assert.equal((await call(on, { url: server.url('https') })).text, 'hello 1.1 /');
      for (const name of ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE']) {
        process.env[name] = cert.file;
        const extra = client(t);
        assert.equal((await call(extra, { url: server.url('https') })).status, 200);
        delete process.env[name];
      }
    });

    test('a certificate of another name is refused', async (t) => {
      const server = await listen(t, https.createServer(cert, hello));
      const on = client(t, { caFile: cert.file });
      await assert.rejects(call(on, { url: server.url('https').replace('localhost', 'localhost.localdomain') }), {
        code: 'unavailable',
      });
    });

    test('a body that is streamed up, with drains', async (t) => {
      const server = await listen(t, http.createServer(async (request, response) => {
          const hash = createHash('sha256');
          for await (const chunk of request) hash.update(chunk);
          response.end(hash.digest('hex'));
        }),
      );
      const on = client(t);
      const part = Buffer.alloc(300_000, 'x');
      let left = 10;
      const more = (id) => (left-- > 0 ? on.send(id, part) : on.finish(id));
      const got = await call(on, { method: 'POST', url: server.url('http'), flags: STREAM }, { open: more, drain: more });
      assert.equal(got.text, createHash('sha256').update(Buffer.alloc(3_000_000, 'x')).digest('hex'));
    });

    test('back-pressure: a paused answer stays where it is', async (t) => {
      const size = 32 << 20;
      let left = size;
      const server = await listen(t, http.createServer((request, response) => {
          const write = () => {
            while (left > 0) {
              left -= 65536;
              if (!response.write(Buffer.alloc(65536))) return;
            }
            response.end();
          };
          response.on('drain', write);
          write();
        }),
      );
      const on = client(t);
      let paused = false;
      let total = 0;
      let leftThen;
      await call(on, { url: server.url('http') }, {
        async bytes(id, bytes, seen) {
          seen.bytes.length = 0;
          total += bytes.length;
          if (paused) return;
          paused = true;
          on.pause(id, true);
          const then = total;
          for (let same = 0, last = -1; same < 20; same = left === last ? same + 1 : 0) {
            last = left;
            await new Promise((resolve) => setTimeout(resolve, 10));
          }
          assert.equal(total, then);
          leftThen = left;
          on.pause(id, false);
        },
      });
      assert.ok(leftThen > 0, 'everything was read while paused');
      assert.equal(total, size);
    });

    test('gzip: decoded, and a bomb is cut', async (t) => {
      const bomb = zlib.gzipSync(Buffer.alloc(64 << 20));
      const server = await listen(t, http.createServer((request, response) => {
          response.setHeader('Content-Encoding', 'gzip');
          response.end(request.url === '/bomb' ? bomb : request.url === '/bad' ? 'no gzip at all, really' : zlib.gzipSync('plain'));
        }),
      );
      const on = client(t);
      assert.equal((await call(on, { url: server.url('http'), maxBody: 100 })).text, 'plain');
      await assert.rejects(call(on, { url: `${server.url('http')}/bomb`, maxBody: 1 << 20 }), (error) => {
        assert.equal(error.code, 'provider_error');
        assert.ok(error.seen.body.length <= 1 << 20);
        return true;
      });
      await assert.rejects(call(on, { url: `${server.url('http')}/bad`, maxBody: 1 << 20 }), { code: 'provider_error' });
      const raw = await call(on, { url: server.url('http') });
      assert.equal(zlib.gunzipSync(raw.body).toString(), 'plain');
    });

    test('failures: refused, no such name, cut, reset, silent', async (t) => {
      const server = await listen(t, http.createServer((request, response) => {
          if (request.url === '/cut') response.writeHead(200, { 'Content-Length': 100 }).write('abc', () => response.destroy());
          if (request.url === '/reset') request.socket.resetAndDestroy();
        }),
      );
      const on = client(t);
      const url = server.url('http');
      await assert.rejects(call(on, { url: 'http://127.0.0.1:1/' }), { code: 'unavailable', retryable: true, errno: 'ECONNREFUSED' });
      await assert.rejects(call(on, { url: 'http://no-such-name.invalid/', headMs: 1000 }), { code: 'unavailable', retryable: true });
      await assert.rejects(call(on, { url: `${url}/cut` }), (error) => {
        assert.equal(error.seen.text, 'abc');
        assert.deepEqual([error.code, error.retryable], ['unavailable', true]);
        return true;
      });
      await assert.rejects(call(on, { url: `${url}/reset`, method: 'POST' }), { code: 'unavailable', retryable: true });
      await assert.rejects(call(on, { url: `${url}/silent`, headMs: 50 }), { code: 'timeout', retryable: true });
    });

    test('retries: 503 and a reset for what may run twice, never a POST', async (t) => {
      let requests = 0;
      const server = await listen(t, http.createServer((request, response) => {
          requests += 1;
          if (request.url === '/post') request.socket.resetAndDestroy();
          else if (requests === 1) response.writeHead(503).end('<html>');
          else if (requests === 2) request.socket.resetAndDestroy();
          else if (requests === 3) response.writeHead(429, { 'Retry-After': '0' }).end();
          else response.end('done');
        }),
      );
      const on = client(t);
      const got = await call(on, { url: server.url('http'), flags: IDEMPOTENT });
      assert.deepEqual([got.text, requests], ['done', 4]);
      requests = 0;
      await assert.rejects(call(on, { url: `${server.url('http')}/post`, method: 'POST', body: Buffer.from('x') }));
      assert.equal(requests, 1);
    });

    test('an exchange that is given up leaves the server at once', async (t) => {
      const gone = Promise.withResolvers?.() ?? {};
      gone.promise ??= new Promise((resolve) => (gone.resolve = resolve));
      const server = await listen(t, http.createServer((request, response) => {
          response.write('first');
          response.on('close', () => gone.resolve());
        }),
      );
      const on = client(t);
      const id = on.open({ method: 'GET', url: server.url('http') }, (event) => {
        if (event === 'bytes') on.end(id);
        assert.notEqual(event, 'end');
      });
      await gone.promise;
    });

    test('proxies: CONNECT with credentials, NO_PROXY, 407', async (t) => {
      const tunnels = [];
      const target = await listen(t, https.createServer(cert, hello));
      const plain = await listen(t, http.createServer(hello));
      const proxy = http.createServer((request, response) => {
        tunnels.push(`${request.method} ${request.url} ${request.headers['proxy-authorization']}`);
        response.writeHead(407).end();
      });
      proxy.open = new Set();
      proxy.on('connect', (request, socket) => {
        proxy.open.add(socket);
        tunnels.push(`CONNECT ${request.headers['proxy-authorization']}`);
        if (request.headers['proxy-authorization'] !== `Basic ${btoa('user:pw')}`) {
          socket.end('HTTP/1.1 407 Auth\r\nContent-Length: 0\r\n\r\n');
          return;
        }
        const through = net.connect(request.url.split(':')[1], '127.0.0.1', () => {
          socket.write('HTTP/1.1 200 ok\r\n\r\n');
          socket.pipe(through).pipe(socket);
        });
        through.on('error', () => socket.destroy());
        socket.on('error', () => through.destroy());
      });
      await listen(t, proxy);
      const at = `127.0.0.1:${proxy.address().port}`;
      process.env.HTTPS_PROXY = `http://user:pw@${at}`;
      process.env.HTTP_PROXY = `http://user:bad@${at}`;
      try {
        const on = client(t, { proxy: undefined, caFile: cert.file });
        assert.equal((await call(on, { url: target.url('https') })).status, 200);
        assert.deepEqual(tunnels, [`CONNECT Basic ${btoa('user:pw')}`]);
        await assert.rejects(call(on, { url: plain.url('http') }), (error) => {
          assert.equal(error.code, 'authentication');
          assert.match(error.message, /HTTP_PROXY.*407/);
          assert.doesNotMatch(error.message, /user:bad|bad/);
          return true;
        });
        assert.match(tunnels[1], /^GET http:\/\/localhost:\d+\/ Basic/);
        process.env.https_proxy = `http://user:no@${at}`;
        const wrong = client(t, { proxy: undefined, caFile: cert.file });
        await assert.rejects(call(wrong, { url: target.url('https') }), { code: 'authentication' });
        for (const list of ['*', 'other, localhost', `.localhost,localhost:${target.address().port}`]) {
          process.env.NO_PROXY = list;
          const direct = client(t, { proxy: undefined, caFile: cert.file });
          tunnels.length = 0;
          assert.equal((await call(direct, { url: target.url('https') })).status, 200, list);
          assert.deepEqual(tunnels, [], list);
        }
        process.env.NO_PROXY = 'localhost:1,ocalhost';
        const still = client(t, { proxy: undefined, caFile: cert.file });
        await assert.rejects(call(still, { url: target.url('https') }), { code: 'authentication' });
        const dead = client(t, { proxy: 'http://127.0.0.1:1', caFile: cert.file });
        await assert.rejects(call(dead, { url: target.url('https') }), (error) => {
          assert.match(error.message, /through the proxy of the proxy option/);
          return error.code === 'unavailable';
        });
      } finally {
        for (const name of proxyNames) delete process.env[name];
      }
    });

    test('WebSocket over TLS and a proxy: messages both ways', async (t) => {
      const server = https.createServer(cert);
      server.open = new Set();
      server.on('connection', (socket) => server.open.add(socket));
      server.on('upgrade', (request, socket) => {
        const accept = createHash('sha1')
          .update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
          .digest('base64');
        socket.write(
          `HTTP/1.1 101 ok\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
        );
        socket.write(Buffer.concat([Buffer.from([0x81, request.headers['x-key'].length]), Buffer.from(request.headers['x-key'])]));
        socket.on('data', (frame) => {
          if ((frame[0] & 15) === 8) {
            socket.end(Buffer.from([0x88, 2, 3, 232]));
            return;
          }
          const payload = Buffer.from(frame.subarray(6).map((byte, i) => byte ^ frame[2 + (i % 4)]));
          socket.write(Buffer.concat([Buffer.from([0x82, payload.length]), payload]));
        });
      });
      await listen(t, server);
      const proxy = http.createServer();
      proxy.open = new Set();
      proxy.on('connect', (request, socket) => {
        proxy.open.add(socket);
        const through = net.connect(server.address().port, '127.0.0.1', () => {
          socket.write('HTTP/1.1 200 ok\r\n\r\n');
          socket.pipe(through).pipe(socket);
        });
        socket.on('error', () => through.destroy());
        through.on('error', () => socket.destroy());
      });
      await listen(t, proxy);
      for (const by of ['', `http://127.0.0.1:${proxy.address().port}`]) {
        const on = client(t, { caFile: cert.file, proxy: by });
        const got = await call(on, { url: `${server.url('wss')}/path`, headers: ['X-Key: k'] }, {
          open: (id) => on.send(id, Buffer.from('early'), true),
          message: (id, text, seen) => seen.messages.length === 2 && on.finish(id),
        });
        assert.equal(got.status, 101);
        assert.deepEqual(got.messages, ['k', 'early']);
      }
    });

    test('32 at once, 2,000 requests: no growth of descriptors', async (t) => {
      const server = await listen(t, http.createServer(hello));
      const on = client(t);
      const url = server.url('http');
      const round = async (n) => {
        for (let i = 0; i < n; i += 1) assert.equal((await call(on, { url })).status, 200);
      };
      const many = (n) => Promise.all(Array.from({ length: 32 }, () => round(n)));
      await many(2);
      const before = readdirSync('/proc/self/fd').length;
      await many(62);
      await until(() => readdirSync('/proc/self/fd').length <= before + 8);
    });

    test('workers: several loops, ended with requests in flight', async (t) => {
      const server = await listen(t, http.createServer((request, response) => {
          if (request.url === '/hang') response.write('x');
          else hello(request, response);
        }),
      );
      const code = `
        const { parentPort, workerData } = require('node:worker_threads');
        import(workerData.load).then(({ native }) => {
          const on = new (native().Http)({ proxy: '' });
          const id = on.open({ method: 'GET', url: workerData.url }, (event) => {
            if (event === 'end') parentPort.postMessage('done');
          });
          on.open({ method: 'GET', url: workerData.url + '/hang' }, () => {});
        });`;
      const workerData = { load: new URL('../../js/native.js', import.meta.url).href, url: server.url('http') };
      await Promise.all(
        Array.from({ length: 4 }, async () => {
          const worker = new Worker(code, { eval: true, workerData });
          await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
          await worker.terminate();
        }),
      );
    });
  });
}

test('libcurl: HTTP/2 where it is offered, on one connection', async (t) => {
  process.env.SBX_HTTP_TRANSPORT = 'libcurl';
  const sessions = new Set();
  const server = http2.createSecureServer(cert, hello);
  server.open = sessions;
  server.on('session', (session) => {
    sessions.add(session);
  });
  await listen(t, server);
  {
    const on = client(t, { caFile: cert.file });
    const got = await Promise.all(Array.from({ length: 20 }, () => call(on, { url: server.url('https') })));
    for (const one of got) assert.equal(one.text, 'hello 2.0 /');
    assert.equal(sessions.size, 1);
  }
  delete process.env.SBX_HTTP_TRANSPORT;
});

// What an HTTP/2 server does with the first request on /x, once it has come.
const goaways = {
  'tells that it closes, and answers': ({ stream }) => {
    stream.session.goaway(0);
    return false;
  },
  'refuses the stream': ({ stream }) => stream.close(http2.constants.NGHTTP2_REFUSED_STREAM),
  'closes before it': ({ stream }) => {
    stream.session.goaway(0, 0);
    setTimeout(() => stream.session.destroy(), 20);
  },
  'dies with it': ({ stream }) => stream.session.destroy(),
  'tells that it closes, and dies': ({ stream }) => {
    stream.session.goaway(0);
    setTimeout(() => stream.session.destroy(), 20);
  },
};

for (const [what, act] of Object.entries(goaways)) {
  test(`libcurl: an HTTP/2 server that ${what}: nothing that may have run is sent again`, async (t) => {
    process.env.SBX_HTTP_TRANSPORT = 'libcurl';
    t.after(() => delete process.env.SBX_HTTP_TRANSPORT);
    const seen = { GET: 0, POST: 0 };
    const server = http2.createSecureServer(cert, (request, response) => {
      request.on('error', () => {});
      response.on('error', () => {});
      if (request.url === '/x' && ++seen[request.method] === 1 && act(request) !== false) return;
      request.resume().on('end', () => response.end(`${request.method} ${request.url}`));
    });
    server.open = new Set();
    server.on('session', (session) => server.open.add(session.on('error', () => {})));
    await listen(t, server);
    const on = client(t, { caFile: cert.file });
    const ask = (method, where, flags) =>
      call(on, { url: server.url('https') + where, method, flags, body: method === 'POST' ? Buffer.from('b') : undefined });
    // On a connection that is used again, as most are.
    assert.equal((await ask('GET', '/warm', IDEMPOTENT)).text, 'GET /warm');
    assert.equal((await ask('GET', '/x', IDEMPOTENT)).text, 'GET /x');
    assert.equal((await ask('GET', '/warm', IDEMPOTENT)).text, 'GET /warm');
    const answered = what.endsWith('answers');
    assert.equal(seen.GET, answered ? 1 : 2);
    const post = await ask('POST', '/x', 0).then((one) => one.text, (error) => error);
    if (answered) assert.equal(post, 'POST /x');
    else assert.equal(post.code, 'unavailable');
    assert.equal(seen.POST, 1);
    assert.equal((await ask('POST', '/after', 0)).text, 'POST /after');
  });
}

test('libcurl: a SOCKS proxy that refuses the password, or wants one', async (t) => {
  process.env.SBX_HTTP_TRANSPORT = 'libcurl';
  t.after(() => delete process.env.SBX_HTTP_TRANSPORT);
  const server = await listen(t, http.createServer((request, response) => response.end('here')));
  const to = { host: '127.0.0.1', port: server.address().port };
  const proxy = await startSocksProxy({ to, user: 'mole', password: 'right' });
  t.after(() => proxy.close());
  const place = `127.0.0.1:${proxy.port}`;
  const url = server.url('http');
  const checked = (error, name) => {
    assert.equal(error.code, 'authentication', error.message);
    assert.equal(error.retryable, false);
    assert.match(error.message, new RegExp(`${name}.*user:password@`));
    assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }), /hunter2|mole/);
    return true;
  };
  for (const login of ['mole:hunter2@', 'mole@', '']) {
    const refused = proxy.refused;
    const given = `socks5h://${login}${place}`;
    await assert.rejects(call(client(t, { proxy: given }), { url, flags: IDEMPOTENT }), (error) => checked(error, 'the proxy option'));
    assert.equal(proxy.refused, refused + 1, `${login} is not tried again`);
    process.env.ALL_PROXY = given;
    try {
      await assert.rejects(call(client(t, { proxy: undefined }), { url }), (error) => checked(error, 'ALL_PROXY'));
    } finally {
      delete process.env.ALL_PROXY;
    }
  }
  assert.equal(proxy.tunnels.length, 0);
  assert.equal((await call(client(t, { proxy: proxy.url }), { url })).text, 'here');
});

test('host: a SOCKS proxy is refused with the remedy', async (t) => {
  process.env.SBX_HTTP_TRANSPORT = 'host';
  const on = client(t, { proxy: 'socks5h://mole:hunter2@127.0.0.1:1' });
  await assert.rejects(call(on, { url: 'http://localhost/' }), (error) => {
    assert.equal(error.code, 'unsupported');
    assert.match(error.message, /libcurl4/);
    assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }), /hunter2|mole/);
    return true;
  });
  delete process.env.SBX_HTTP_TRANSPORT;
});
