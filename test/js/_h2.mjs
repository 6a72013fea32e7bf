import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { startFake } from '../fakes/e2b.js';
import { createServer } from 'node:net';
const fake = await startFake();
const P = o => e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: raw.url, requestTimeout: 5000, ...o });
const show = e => e.code ? `${e.code} r=${e.retryable} ${JSON.stringify(e.message)}` : String(e.stack);
const env = (flags, body, len) => { body = Buffer.from(body); const h = Buffer.alloc(5); h[0] = flags; h.writeUInt32BE(len ?? body.length, 1); return Buffer.concat([h, body]); };
const b64 = t => Buffer.from(t).toString('base64');
const ev = o => env(0, JSON.stringify({ event: o }));
const start = pid => ev({ start: { pid } });
const out = t => ev({ data: { stdout: b64(t) } });
const end = (o) => ev({ end: { exited: true, status: 'exit status 0', ...o } });
const trailer = env(2, '{}');
// raw server: proxies to fake unless `script` set for a Start whose body has 'MARK'
let script; let starts = 0, others = [];
const { request: httpRequest } = await import('node:http');
const { createServer: hs } = await import('node:http');
const raw = { url: '' };
const server = hs((req, res) => {
  const parts = []; req.on('data', d => parts.push(d)); req.on('end', () => {
    const body = Buffer.concat(parts);
    if (script && /Start$/.test(req.url) && body.includes('HOSTILE')) { starts++; return script(req, res, body); }
    if (script) others.push(req.url);
    const up = httpRequest(fake.url + req.url, { method: req.method, headers: req.headers }, r => { res.writeHead(r.statusCode, r.headers); r.pipe(res); r.on('error', () => res.destroy()); });
    up.on('error', () => res.destroy()); res.on('close', () => up.destroy()); up.end(body);
  });
});
await new Promise(r => server.listen(0, '127.0.0.1', r));
raw.url = `http://127.0.0.1:${server.address().port}`;
const s = await createSandbox({ provider: P() });
const body = (...parts) => (req, res) => { res.writeHead(200, { 'content-type': 'application/connect+json' }); res.end(Buffer.concat(parts)); };
const hold = (...parts) => (req, res) => { res.writeHead(200, { 'content-type': 'application/connect+json' }); res.write(Buffer.concat(parts)); };
const rawText = text => (req, res) => { res.socket.write(text); };
const rawEnd = text => (req, res) => { res.socket.end(text); };
const cases = {
  '2^32-1 envelope': hold(start(77777), env(0, '', 0xffffffff)),
  'zero length': body(start(77777), env(0, ''), out('x'), end(), trailer),
  'compressed': body(start(77777), env(1, 'xx'), end(), trailer),
  'unknown flags': body(start(77777), env(0x40, '{}'), end(), trailer),
  'after end': body(start(77777), out('x'), end(), out('late'), trailer, out('more')),
  'unknown events': body(start(77777), ev({ foo: 1 }), env(0, '{"x":1}'), env(0, '{}'), out('x'), end(), trailer),
  'two starts': body(start(77777), start(5), out('x'), end(), trailer),
  'two ends': body(start(77777), out('x'), end({ exitCode: 3 }), end({ exitCode: 4 }), trailer),
  'no start': body(out('x'), end(), trailer),
  'end only': body(end(), trailer),
  'trailer only': body(trailer),
  'empty': body(),
  'neg pid': body(start(-1), out('x'), end(), trailer),
  'pid 0': body(start(0), out('x'), end(), trailer),
  'pid 1': body(start(1), out('x'), end(), trailer),
  'pid 2^31': body(start(2 ** 31), out('x'), end(), trailer),
  'pid 1e300': body(start(1e300), out('x'), end(), trailer),
  'pid str': body(start('77'), out('x'), end(), trailer),
  'pid null': body(start(null), out('x'), end(), trailer),
  'exit -1': body(start(77777), out('x'), end({ exitCode: -1 }), trailer),
  'exit 2^40': body(start(77777), out('x'), end({ exitCode: 2 ** 40 }), trailer),
  'exit 1000': body(start(77777), out('x'), end({ exitCode: 1000 }), trailer),
  'exit str': body(start(77777), out('x'), end({ exitCode: 'x' }), trailer),
  'signal huge': body(start(77777), out('x'), end({ status: 'signal: signal 99999999999999999999' }), trailer),
  'status ESC': body(start(77777), out('x'), end({ exitCode: 1, status: '\x1b[31m', error: 'a\nb\0' }), trailer),
  'b64 garbage': body(start(77777), ev({ data: { stdout: '!!!!' } }), end(), trailer),
  'b64 obj': body(start(77777), ev({ data: { stdout: {} } }), end(), trailer),
  'b64 NUL': body(start(77777), ev({ data: { stdout: 'eA==\0' } }), end(), trailer),
  'json garbage': body(start(77777), env(0, '{"event":'), end(), trailer),
  'json array': body(start(77777), env(0, '[]'), end(), trailer),
  'json deep': body(start(77777), env(0, '['.repeat(100000)), end(), trailer),
  'NULs': body(start(77777), env(0, '\0\0\0\0'), end(), trailer),
  '20 MB envelope': body(start(77777), ev({ data: { stdout: b64('x'.repeat(15e6)) } }), end(), trailer),
  '50 MB envelope': body(start(77777), ev({ data: { stdout: b64('x'.repeat(50e6)) } }), end(), trailer),
  'error trailer': body(start(77777), out('x'), env(2, '{"error":{"code":"unavailable","message":"a\\u001b[31m \\u0000"}}')),
  'error trailer odd': body(start(77777), out('x'), env(2, '{"error":"x"}')),
  'error trailer odd2': body(start(77777), out('x'), env(2, '{"error":{"code":5,"message":[]}}')),
  'error not started unavailable': body(env(2, '{"error":{"code":"unavailable","message":"m"}}')),
  'error not_found': body(env(2, '{"error":{"code":"not_found","message":"m"}}')),
  'not_found after start': body(start(77777), env(2, '{"error":{"code":"not_found","message":"m"}}')),
  'wrong type': (q, r) => { r.writeHead(200, { 'content-type': 'text/plain' }); r.end('hi'); },
  '204': (q, r) => { r.writeHead(204); r.end(); },
  '304': (q, r) => { r.writeHead(304); r.end(); },
  '206': (q, r) => { r.writeHead(206, { 'content-type': 'application/connect+json' }); r.end(Buffer.concat([start(77777), out('x'), end(), trailer])); },
  '100s': rawText('HTTP/1.1 100 Continue\r\n\r\n'.repeat(50) + 'HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\nconnection: close\r\n\r\n'),
  '103 endless': (q, r) => { const t = setInterval(() => r.socket.write('HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n'.repeat(200)), 1); r.socket.on('close', () => clearInterval(t)); r.socket.on('error', () => {}); },
  '101': rawText('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nxxxx'),
  '999': rawEnd('HTTP/1.1 999 x\r\ncontent-length: 0\r\n\r\n'),
  '000': rawEnd('HTTP/1.1 000 x\r\ncontent-length: 0\r\n\r\n'),
  'http/0.9': rawEnd('hello\r\n'),
  'neg length': rawEnd('HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\ncontent-length: -5\r\n\r\n'),
  'two lengths': rawEnd('HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\ncontent-length: 5\r\ncontent-length: 7\r\n\r\nabcdefg'),
  'bad chunk': rawEnd('HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n'),
  'huge chunk': rawText('HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n'),
  'redirect': (q, r) => { r.writeHead(307, { location: 'http://169.254.169.254/' }); r.end(); },
  'gzip unasked': (q, r) => { r.writeHead(200, { 'content-type': 'application/connect+json', 'content-encoding': 'gzip' }); r.end('xxxx'); },
};
const only = process.argv[2];
for (const [name, how] of Object.entries(cases)) {
  if (only && !name.includes(only)) continue;
  script = how; starts = 0; others = [];
  const t = Date.now(); let text;
  const rss = process.memoryUsage().rss;
  try { const r = await Promise.race([s.run('echo HOSTILE', { timeout: 8000 }), new Promise((_, j) => setTimeout(() => j(new Error('HANG')), 25000).unref())]); text = 'OK ' + JSON.stringify({ ...r, stdout: r.stdout.length > 50 ? r.stdout.length : r.stdout }); } catch (e) { text = show(e).slice(0, 300); }
  script = undefined;
  console.log(`${name.padEnd(22)} ${String(Date.now() - t).padStart(6)}ms starts=${starts} +${((process.memoryUsage().rss - rss) / 1e6).toFixed(0)}MB ${[...new Set(others.map(o => o.split('/').pop()))]} ${text}`);
  if (s.status !== 'running') console.log('   STATUS', s.status);
}
console.log('creates', fake.count(0, { method: 'POST', path: '/v2/sandboxes' }));
await s.destroy(); server.closeAllConnections(); server.close(); await fake.close();
