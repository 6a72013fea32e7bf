// What the fake does wrong on request, seen by raw clients; and that it leaves
// nothing behind.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { connect as connectTwo } from 'node:http2';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { Sandbox } from 'e2b';
import { readEnvelopes } from '../fakes/e2b/connect.js';
import { sign } from '../fakes/e2b/files.js';
import { startFake } from '../fakes/e2b.js';
import { startHttpProxy, startSocksProxy } from '../fakes/proxy.js';

async function started(t, options) {
  const fake = await startFake(options);
  t.after(() => fake.close());
  return fake;
}

/** One request -> { status, headers, body, error }. */
function ask(url, { method = 'GET', headers = {}, body, ca } = {}) {
  return new Promise((resolve) => {
    const make = url.startsWith('https:') ? httpsRequest : httpRequest;
    const request = make(url, { method, headers, agent: false, ca });
    let answered = false;
    request.on('error', (error) => answered || resolve({ error: error.code }));
    request.on('response', (response) => {
      answered = true;
      const parts = [];
      const done = (error) =>
        resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(parts), error });
      response.on('data', (part) => parts.push(part));
      response.on('error', (error) => done(error.code));
      response.on('end', () => done());
    });
    request.end(body);
  });
}

async function created(fake, body = {}) {
  const answer = await ask(`${fake.url}/v2/sandboxes`, {
    method: 'POST',
    headers: { 'x-api-key': fake.apiKey, 'content-type': 'application/json' },
    body: JSON.stringify({ templateID: 'base', ...body }),
  });
  assert.equal(answer.status, 201, answer.body?.toString());
  return JSON.parse(answer.body);
}

function toEnvd(sandbox, more = {}) {
  return {
    'e2b-sandbox-id': sandbox.sandboxID,
    'e2b-sandbox-port': '49983',
    'x-access-token': sandbox.envdAccessToken,
    ...more,
  };
}

function call(fake, sandbox, rpc, message, headers = {}) {
  return ask(`${fake.url}/${rpc}`, {
    method: 'POST',
    headers: toEnvd(sandbox, { 'content-type': 'application/json', ...headers }),
    body: JSON.stringify(message),
  });
}

function frame(message) {
  const payload = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(payload.length, 1);
  return Buffer.concat([head, payload]);
}

/** Start -> { status, events, last, raw, error }. */
async function start(fake, sandbox, command, headers = {}) {
  const answer = await ask(`${fake.url}/process.Process/Start`, {
    method: 'POST',
    headers: toEnvd(sandbox, { 'content-type': 'application/connect+json', ...headers }),
    body: frame({ process: { cmd: '/bin/sh', args: ['-c', command] }, stdin: false }),
  });
  if (!answer.body) return answer;
  const frames = readEnvelopes(answer.body);
  const parsed = frames.map(({ flags, payload }) => ({
    flags,
    value: JSON.parse(flags & 1 ? gunzipSync(payload) : payload),
  }));
  return {
    ...answer,
    frames: parsed,
    events: parsed.filter((one) => !(one.flags & 2)).map((one) => one.value.event ?? one.value),
    last: parsed.find((one) => one.flags & 2)?.value,
  };
}

function text(events, stream) {
  const parts = events.map((event) => event.data?.[stream]).filter(Boolean);
  return Buffer.concat(parts.map((part) => Buffer.from(part, 'base64'))).toString();
}

const ends = (events) => events.map((event) => event.end).filter(Boolean);

test('exits and signals in the words of the service', async (t) => {
  const fake = await started(t);
  const sandbox = await created(fake);
  const end = async (command) => ends((await start(fake, sandbox, command)).events)[0];
  assert.deepEqual(await end('true'), { exited: true, status: 'exit status 0' });
  assert.deepEqual(await end('exit 7'), { exitCode: 7, exited: true, status: 'exit status 7', error: 'exit status 7' });
  assert.deepEqual(await end('kill -9 $$'), { exitCode: -1, status: 'signal: killed', error: 'signal: killed' });
  assert.equal((await end('kill -TERM $$')).status, 'signal: terminated');
  assert.match((await end('kill -SEGV $$')).status, /^signal: segmentation fault/);
});

test('only the leader dies at the time limit', async (t) => {
  const fake = await started(t);
  const sandbox = await created(fake);
  const command = 'sleep 4321 & echo child $!; wait';
  let child;
  for (let limit = 400; !child && limit < 100_000; limit *= 4) {
    const { events, last } = await start(fake, sandbox, command, { 'connect-timeout-ms': String(limit) });
    assert.equal(last.error.code, 'deadline_exceeded');
    child = /child (\d+)/.exec(text(events, 'stdout'))?.[1];
  }
  const looked = await start(fake, sandbox, `until grep -q sleep /proc/${child}/cmdline || [ ! -e /proc/${child} ]; do sleep 0.02; done; tr '\\0' ' ' </proc/${child}/cmdline`);
  assert.match(text(looked.events, 'stdout'), /sleep 4321/);
  const odd = await start(fake, sandbox, 'true', { 'connect-timeout-ms': '10.5' });
  assert.equal(odd.last.error.code, 'invalid_argument');
});

test('the end waits for the pipes, except after a signal', async (t) => {
  const fake = await started(t);
  const sandbox = await created(fake);
  const held = await start(fake, sandbox, '(sleep 0.3; echo late) & exit 0');
  assert.equal(text(held.events, 'stdout'), 'late\n');
  const work = start(fake, sandbox, 'sleep 600 & wait');
  let pid;
  while (pid === undefined) {
    const { processes = [] } = JSON.parse((await call(fake, sandbox, 'process.Process/List', {})).body);
    pid = processes[0]?.pid;
  }
  await call(fake, sandbox, 'process.Process/SendSignal', { process: { pid }, signal: 'SIGNAL_SIGKILL' });
  assert.equal(ends((await work).events)[0].status, 'signal: killed');
});

test('transport faults', async (t) => {
  const fake = await started(t);
  const sandbox = await created(fake);
  const rpc = { match: { rpc: 'Start' } };
  const run = () => start(fake, sandbox, 'echo one; echo two >&2');

  fake.fault({ ...rpc, reset: true });
  assert.equal((await run()).error, 'ECONNRESET');

  fake.fault({ ...rpc, cutAfter: 60 });
  const cut = await run();
  assert.equal(cut.error, 'ECONNRESET');
  assert.equal(cut.body.length, 60);

  for (const afterEnd of ['reset', 'fin']) {
    fake.fault({ ...rpc, afterEnd });
    const broken = await run();
    assert.equal(broken.error, 'ECONNRESET');
    assert.equal(broken.last, undefined);
  }

  fake.fault({ match: { path: '/v2/sandboxes' }, loseAnswer: true });
  const before = fake.sandboxes.size;
  const lost = await ask(`${fake.url}/v2/sandboxes`, {
    method: 'POST',
    headers: { 'x-api-key': fake.apiKey, 'content-type': 'application/json' },
    body: '{"templateID":"base"}',
  });
  assert.equal(lost.error, 'ECONNRESET');
  assert.equal(fake.sandboxes.size, before + 1);

  const fault = fake.fault({ match: { path: '/health' }, hang: true });
  const socket = connectTcp(fake.port, '127.0.0.1');
  socket.write(`GET /health HTTP/1.1\r\nhost: 49983-${sandbox.sandboxID}.e2b.fake\r\n\r\n`);
  while (!fault.used) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(socket.read(), null);
  socket.destroy();
});

test('answers that a fault gives instead', async (t) => {
  const fake = await started(t);
  const headers = { 'x-api-key': fake.apiKey };
  const once_ = (fault) => {
    fake.fault({ match: { path: '/v2/sandboxes' }, ...fault });
    return ask(`${fake.url}/v2/sandboxes`, { headers });
  };
  const page = await once_({ html502: true });
  assert.deepEqual([page.status, page.headers['content-type']], [502, 'text/html']);
  assert.equal((await once_({ rateLimit: {} })).headers['retry-after'], undefined);
  assert.equal((await once_({ rateLimit: { retryAfter: 'soon' } })).headers['retry-after'], 'soon');
  const empty = await once_({ empty404: true });
  assert.deepEqual([empty.status, empty.body.length], [404, 0]);
  const redirect = await once_({ redirect: 'http://169.254.169.254/latest/meta-data/' });
  assert.deepEqual([redirect.status, redirect.headers.location], [302, 'http://169.254.169.254/latest/meta-data/']);
  assert.match((await once_({ endlessHeaders: true })).error, /HPE_HEADER_OVERFLOW/);
  const bomb = await once_({ gzipBomb: 20 << 20 });
  assert.ok(bomb.body.length < 1 << 20);
  assert.equal(gunzipSync(bomb.body).length, 20 << 20);
  const short = await once_({ truncate: 1 });
  assert.equal(short.error, 'ECONNRESET');
  assert.equal((await once_({})).status, 200);
});

test('an answer can name a foreign host', async (t) => {
  const fake = await started(t);
  fake.fault({ match: { path: '/v2/sandboxes' }, patch: (json) => ({ ...json, domain: 'evil.example' }) });
  assert.equal((await created(fake)).domain, 'evil.example');
});

test('streams in odd shapes carry the same events', async (t) => {
  const fake = await started(t);
  const sandbox = await created(fake);
  const command = 'printf "é漢😀"; echo err >&2; exit 3';
  const shapes = [{ oneByte: true }, { splits: 7 }, { splits: 12345 }, { drip: { bytes: 40, ms: 1 } }, { reorder: true },
    { unknown: true }, { keepalives: 3 }, { compressedFrame: true }];
  for (const shape of shapes) {
    fake.fault({ match: { rpc: 'Start' }, ...shape });
    const { events, last, frames } = await start(fake, sandbox, command);
    assert.equal(text(events, 'stdout'), 'é漢😀', JSON.stringify(shape));
    assert.equal(text(events, 'stderr'), 'err\n');
    assert.equal(ends(events)[0].exitCode, 3);
    assert.deepEqual(last, {});
    if (shape.compressedFrame) assert.ok(frames.some((one) => one.flags === 1));
    if (shape.keepalives) assert.equal(events.filter((event) => event.keepalive).length, 3);
    if (shape.unknown) assert.ok(events.some((event) => event.telemetry));
    if (shape.reorder) {
      const order = events.map((event) => Object.keys(event.data ?? {})[0]).filter(Boolean);
      assert.deepEqual(order, ['stderr', 'stdout']);
    }
  }
  fake.fault({ match: { rpc: 'Start' }, hugeEnvelope: true });
  const huge = await start(fake, sandbox, 'true');
  assert.ok(huge.body.includes(Buffer.from([0, 0xff, 0xff, 0xff, 0xff])));
});

test('faults choose their request', async (t) => {
  const fake = await started(t);
  const headers = { 'x-api-key': fake.apiKey };
  const list = async () => (await ask(`${fake.url}/v2/sandboxes`, { headers })).status;
  const fault = fake.fault({ match: { method: 'GET', path: /^\/v2/ }, skip: 1, times: 2, html502: true });
  const mark = fake.mark();
  assert.deepEqual([await list(), await list(), await list(), await list()], [200, 502, 502, 200]);
  assert.equal(fault.used, 2);
  assert.equal(fake.count(mark), 4);
  assert.equal(fake.since(mark)[0].headers['x-api-key'], fake.apiKey);
});

test('the official package meets cut streams as it does the service\'s', async (t) => {
  const fake = await started(t);
  const sandbox = await Sandbox.create({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url });
  fake.fault({ match: { rpc: 'Start' }, oneByte: true });
  assert.equal((await sandbox.commands.run('echo hi')).stdout, 'hi\n');
  fake.fault({ match: { rpc: 'Start' }, afterEnd: 'fin' });
  await assert.rejects(sandbox.commands.run('echo hi'));
  fake.fault({ match: { rpc: 'Start' }, compressedFrame: true });
  await assert.rejects(sandbox.commands.run('echo hi'));
});

test('time: create, connect, pause, expiry', async (t) => {
  const now = Date.parse('2026-01-01T00:00:00.000Z');
  const fake = await started(t, { now: () => now });
  const json = { 'x-api-key': fake.apiKey, 'content-type': 'application/json' };
  const post = (name, body) => ask(`${fake.url}${name}`, { method: 'POST', headers: json, body: JSON.stringify(body) });
  const info = async (id) => JSON.parse((await ask(`${fake.url}/sandboxes/${id}`, { headers: json })).body);
  const { sandboxID: id } = await created(fake, { timeout: 600 });
  assert.equal((await info(id)).endAt, '2026-01-01T00:10:00Z');
  assert.equal((await post(`/v2/sandboxes/${id}/connect`, {})).status, 200);
  assert.equal((await info(id)).endAt, '2026-01-01T00:10:00Z'); // only ever later
  await fake.advance(60_000);
  assert.equal((await post(`/sandboxes/${id}/pause`, {})).status, 204);
  assert.equal((await post(`/sandboxes/${id}/pause`, {})).status, 409);
  assert.equal((await info(id)).endAt, '2026-01-01T00:01:00Z');
  const resumed = await post(`/v2/sandboxes/${id}/connect`, {});
  assert.equal(resumed.status, 201);
  const after = await info(id);
  assert.deepEqual([after.startedAt, after.endAt], ['2026-01-01T00:01:00Z', '2026-01-01T00:06:00Z']);
  await fake.advance(5 * 60_000);
  assert.equal((await info(id)).message, `Sandbox "${id}" doesn't exist or you don't have access to it`);
  const gone = await call(fake, { sandboxID: id, envdAccessToken: 'x' }, 'process.Process/List', {});
  assert.deepEqual([gone.status, JSON.parse(gone.body).message], [502, 'The sandbox was not found']);
  assert.equal((await post('/v2/sandboxes', { templateID: 'base', timeout: 0 })).status, 400);
  assert.equal((await post('/v2/sandboxes', { templateID: 'none' })).status, 404);
});

test('auto-pause and auto-resume', async (t) => {
  const fake = await started(t);
  const sandbox = await created(fake, { timeout: 60, autoPause: true, autoResume: { enabled: true } });
  await fake.advance(61_000);
  assert.equal(fake.sandboxes.get(sandbox.sandboxID).state, 'paused');
  assert.equal(text((await start(fake, sandbox, 'echo woken')).events, 'stdout'), 'woken\n');
});

test('a stream ends with the sandbox', async (t) => {
  for (const cut of ['trailer', 'reset']) {
    const fake = await started(t, { cut });
    const sandbox = await created(fake);
    const work = start(fake, sandbox, 'echo up; sleep 600');
    while (!fake.sandboxes.get(sandbox.sandboxID).processes.running.size) await new Promise((done) => setTimeout(done, 5));
    await fake.expire(sandbox.sandboxID);
    const { last, error } = await work;
    if (cut === 'reset') assert.equal(error, 'ECONNRESET');
    else assert.equal(last.error.code, 'unavailable');
  }
});

test('pages and a filter that was encoded three times', async (t) => {
  const fake = await started(t, { pageLimit: 2 });
  for (let i = 0; i < 5; i++) await created(fake, { metadata: { n: String(i), 'k &': 'a b&c=ü' } });
  const key = { apiKey: fake.apiKey, apiUrl: fake.url };
  const paginator = Sandbox.list({ ...key, query: { metadata: { 'k &': 'a b&c=ü' } }, order: 'asc' });
  const found = [];
  let pages = 0;
  while (paginator.hasNext) {
    found.push(...(await paginator.nextItems()).map((one) => one.metadata.n));
    pages++;
  }
  assert.deepEqual([found, pages], [['0', '1', '2', '3', '4'], 3]);
});

test('an old server has only version 1', async (t) => {
  const fake = await started(t, { api: 'v1' });
  const json = { 'x-api-key': fake.apiKey, 'content-type': 'application/json' };
  const post = (name, body) => ask(`${fake.url}${name}`, { method: 'POST', headers: json, body: JSON.stringify(body) });
  assert.equal((await post('/v2/sandboxes', { templateID: 'base' })).status, 405);
  const open = JSON.parse((await post('/sandboxes', { templateID: 'base' })).body);
  assert.equal(open.envdAccessToken, undefined);
  const { endAt, startedAt } = fake.sandboxes.get(open.sandboxID);
  assert.equal(endAt - startedAt, 15_000);
  const secure = JSON.parse((await post('/sandboxes', { templateID: 'base', secure: true, timeout: 60 })).body);
  assert.match(secure.envdAccessToken, /^[0-9a-f]{64}$/);
  const missing = await post(`/v2/sandboxes/${open.sandboxID}/connect`, {});
  assert.match(JSON.parse(missing.body).message, /no matching operation/);
  assert.equal((await post(`/sandboxes/${open.sandboxID}/connect`, {})).status, 400);
  assert.equal((await post(`/sandboxes/${open.sandboxID}/connect`, { timeout: 60 })).status, 200);
});

test('who may call envd', async (t) => {
  const fake = await started(t);
  const sandbox = await created(fake);
  const wrong = await call(fake, { ...sandbox, envdAccessToken: 'wrong' }, 'process.Process/List', {});
  assert.deepEqual([wrong.status, JSON.parse(wrong.body).code], [401, 401]);
  const unknown = await call(fake, sandbox, 'filesystem.Filesystem/Stat', { path: '/' }, { authorization: `Basic ${btoa('x:')}` });
  assert.deepEqual(JSON.parse(unknown.body), { code: 'unauthenticated', message: "invalid username: 'x'" });
  const streamed = await start(fake, sandbox, 'true', { authorization: `Basic ${btoa('x:')}` });
  assert.deepEqual([streamed.status, streamed.last.error.code], [200, 'unauthenticated']);
  const asRoot = await start(fake, sandbox, 'id -u; echo $HOME', { authorization: `Basic ${btoa('root:')}` });
  assert.equal(text(asRoot.events, 'stdout'), '0\n/root\n');
  assert.equal(sign({ path: '/home/user/a.txt', operation: 'read', user: '', token: 'tok-envd-1' }),
    'v1_sISD1hcOA9XIUWnVfmvdZ02vthhd5A5SaJSkHYfdEdY');
  assert.equal(sign({ path: 'a.txt', operation: 'write', user: 'root', token: 'tok-envd-1', expiration: 1795967948 }),
    'v1_z4Y4KYX32FO0RX3nBoD0Lglw5Pa/P748jyUDqsJj5Hk');
});

test('files: ranges, gzip, raw uploads, compose', async (t) => {
  const fake = await started(t);
  const sandbox = await created(fake);
  const files = `${fake.url}/files`;
  const put = (name, body, more) => ask(`${files}?path=${encodeURIComponent(name)}`, {
    method: 'POST', headers: toEnvd(sandbox, { 'content-type': 'application/octet-stream', ...more }), body });
  const get = (name, more) => ask(`${files}?path=${encodeURIComponent(name)}`, { headers: toEnvd(sandbox, more) });
  const up = await put('a/b.txt', 'hello world', { 'x-metadata-colour': 'blue' });
  assert.deepEqual(JSON.parse(up.body), [{ name: 'b.txt', path: '/home/user/a/b.txt', type: 'file', metadata: { colour: 'blue' } }]);
  assert.match(up.headers['content-type'], /text\/plain/);
  const range = await get('a/b.txt', { range: 'bytes=6-' });
  assert.deepEqual([range.status, range.body.toString(), range.headers['content-range']], [206, 'world', 'bytes 6-10/11']);
  assert.equal((await get('a/b.txt', { range: 'bytes=50-' })).status, 416);
  const zipped = await get('a/b.txt', { 'accept-encoding': 'gzip' });
  assert.equal(zipped.headers['content-length'], undefined);
  assert.equal(gunzipSync(zipped.body).toString(), 'hello world');
  const none = await get('nowhere');
  assert.deepEqual(JSON.parse(none.body), { code: 404, message: "path '/home/user/nowhere' does not exist" });
  await put('a/c.txt', '!');
  const composed = await ask(`${fake.url}/files/compose`, {
    method: 'POST', headers: toEnvd(sandbox, { 'content-type': 'application/json' }),
    body: JSON.stringify({ source_paths: ['a/b.txt', 'a/c.txt'], destination: 'all.txt' }) });
  assert.equal(composed.status, 200);
  assert.equal((await get('all.txt')).body.toString(), 'hello world!');
  assert.equal((await get('a/b.txt')).status, 404);
  fake.sandboxes.get(sandbox.sandboxID).full = true;
  assert.equal((await put('x', 'y')).status, 507);
});

test('links and folders of the machine\'s root', async (t) => {
  const fake = await started(t);
  const sandbox = await created(fake);
  const stat = async (name) => JSON.parse((await call(fake, sandbox, 'filesystem.Filesystem/Stat', { path: name })).body);
  assert.equal((await stat('/workspace')).message, 'file not found: lstat /workspace: no such file or directory');
  await call(fake, sandbox, 'filesystem.Filesystem/MakeDir', { path: '/workspace' });
  assert.deepEqual([(await stat('/workspace')).entry.owner, (await stat('/workspace')).entry.permissions], ['user', 'drwxr-xr-x']);
  await start(fake, sandbox, 'cd /workspace; echo x >f; ln -s /workspace/f abs; ln -s nowhere broken; ln -s loop loop; echo y >/tmp/t');
  const link = (await stat('/workspace/abs')).entry;
  assert.deepEqual([link.type, link.symlinkTarget, link.permissions], ['FILE_TYPE_FILE', '/workspace/f', 'Lrwxrwxrwx']);
  const broken = (await stat('/workspace/broken')).entry;
  assert.deepEqual([broken.type, broken.symlinkTarget], [undefined, '/workspace/broken']);
  const read = await ask(`${fake.url}/files?path=/workspace/abs`, { headers: toEnvd(sandbox) });
  assert.equal(read.body.toString(), 'x\n');
  const loop = await call(fake, sandbox, 'filesystem.Filesystem/ListDir', { path: '/workspace/loop' });
  assert.equal(JSON.parse(loop.body).code, 'failed_precondition');
  const hosts = text((await start(fake, sandbox, 'cat /etc/hostname; touch /usr/x 2>&1; ls /')).events, 'stdout');
  assert.match(hosts, /^e2b\n.*Read-only file system/);
});

test('private ports want the traffic token', async (t) => {
  const fake = await started(t);
  const sandbox = await created(fake, { network: { allowPublicTraffic: false } });
  const port = { 'e2b-sandbox-id': sandbox.sandboxID, 'e2b-sandbox-port': '8000' };
  const bare = await ask(fake.url, { headers: port });
  assert.deepEqual([bare.status, JSON.parse(bare.body).message],
    [403, "Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing"]);
  const right = await ask(fake.url, { headers: { ...port, 'e2b-traffic-access-token': sandbox.trafficAccessToken } });
  assert.deepEqual([right.status, JSON.parse(right.body).port], [502, 8000]);
});

test('an old envd', async (t) => {
  const fake = await started(t, { envdVersion: '0.3.9' });
  const sandbox = await created(fake);
  const bare = await call(fake, sandbox, 'filesystem.Filesystem/ListDir', { path: '/' });
  assert.equal(bare.status, 401);
  const basic = { authorization: `Basic ${btoa('user:')}` };
  assert.equal((await call(fake, sandbox, 'filesystem.Filesystem/ListDir', { path: '/' }, basic)).status, 200);
  const raw = { method: 'POST', headers: toEnvd(sandbox, { 'content-type': 'application/octet-stream' }), body: 'x' };
  assert.equal((await ask(`${fake.url}/files?path=x&username=user`, raw)).status, 400);
  assert.equal((await call(fake, sandbox, 'process.Process/CloseStdin', { process: { pid: 1 } })).status, 404);
});

test('TLS, HTTP/2 and proxies', async (t) => {
  const fake = await started(t, { http2: true });
  const ca = readFileSync(fake.ca);
  const one = await ask(`${fake.url}/v2/sandboxes`, { headers: { 'x-api-key': fake.apiKey }, ca });
  assert.equal(one.status, 200);
  assert.match((await ask(`${fake.url}/v2/sandboxes`)).error, /SELF_SIGNED|UNABLE_TO_VERIFY/);
  const session = connectTwo(fake.url, { ca });
  const stream = session.request({ ':path': '/v2/sandboxes', 'x-api-key': fake.apiKey });
  const [head] = await once(stream, 'response');
  assert.equal(head[':status'], 200);
  stream.resume();
  await once(stream, 'close');
  session.close();

  const to = { host: '127.0.0.1', port: fake.port };
  const proxy = await startHttpProxy({ to, user: 'u', password: 'p w' });
  const socks = await startSocksProxy({ to });
  t.after(() => Promise.all([proxy.close(), socks.close()]));
  const tunnel = (headers) =>
    new Promise((resolve) => {
      const request = httpRequest({ port: proxy.port, method: 'CONNECT', path: 'api.e2b.fake:443', headers });
      request.on('connect', (response, socket) => resolve(socket.destroy() && response.statusCode));
      request.on('error', (error) => resolve(error.code));
      request.end();
    });
  assert.equal(await tunnel({}), 407);
  assert.equal(await tunnel({ 'proxy-authorization': `Basic ${btoa('u:p w')}` }), 200);
  assert.deepEqual(proxy.tunnels, [{ host: 'api.e2b.fake', port: 443 }]);

  const client = connectTcp(socks.port, '127.0.0.1');
  client.write(Buffer.from([5, 1, 0]));
  assert.deepEqual([...(await once(client, 'data'))[0]], [5, 0]);
  client.write(Buffer.concat([Buffer.from([5, 1, 0, 3, 12]), Buffer.from('api.e2b.fake'), Buffer.from([1, 187])]));
  assert.equal((await once(client, 'data'))[0][1], 0);
  client.destroy();
  assert.deepEqual(socks.tunnels, [{ host: 'api.e2b.fake', port: 443, named: true }]);
});

test('nothing is left of a fake whose test was killed', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'killed-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const script = `
    import { startFake } from ${JSON.stringify(new URL('../fakes/e2b.js', import.meta.url).href)};
    const fake = await startFake();
    const sandbox = await fake.store.create({ templateID: 'base' }, { secure: true, timeout: 60 });
    const job = sandbox.machine.run({ uid: 1000, cwd: '/', stdin: 'null', argv: ['/bin/sleep', '600'], env: {} });
    await job.started;
    console.log(sandbox.machine.pid);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = await once(child.stdout, 'data');
  assert.ok(existsSync(`/proc/${Number(line)}`));
  child.kill('SIGKILL');
  const left = () => readdirSync(folder).filter((name) => name.startsWith('fake-machine-'));
  for (let i = 0; i < 2000 && (left().length || existsSync(`/proc/${Number(line)}`)); i++)
    await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(left(), []);
  assert.equal(existsSync(`/proc/${Number(line)}`), false);
});
