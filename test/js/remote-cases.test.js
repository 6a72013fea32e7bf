// The remote cases of the collection of public bug reports, and the hostile
// answers that the project's notes list beside them, through the public surface
// against the fake. Each is a test under its own id; the last test names those
// that there have to be.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { after, afterEach, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';

import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { createMastraSandbox, createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { native } from '../../js/native.js';
import { startFake } from '../fakes/e2b.js';
import { startHttpProxy, startSocksProxy } from '../fakes/proxy.js';
import { until } from '../helpers/workspace.js';

const wanted = [
  'RC-1', 'RC-3', 'RC-5', 'NET-1', 'NET-3', 'NET-5', 'ST-1', 'ST-3', 'TM-1', 'TM-3', 'AU-1', 'TLS-1', 'URL-1', 'RF-1', 'RB-1',
  'redirect', 'foreign host', 'endless headers', 'huge envelope', 'gzip bomb', 'tar', 'sentinels', 'profile', 'pid file',
];
const seen = new Set();

let fake;
before(async () => (fake = await startFake()));
after(() => fake.close());
afterEach(() => fake.clearFaults());

function scenario(id, name, work) {
  const [first] = id.split(':');
  seen.add(first);
  test(`${first}: ${name}`, work);
}

const idKey = 'sandbox-sdk-native-id';
const at = (server, options) => e2b({ apiKey: server.apiKey, apiUrl: server.url, sandboxUrl: server.url, ...options });
const provider = options => at(fake, options);
const starts = mark => fake.count(mark, { rpc: 'Start' });
const creates = { method: 'POST', path: '/v2/sandboxes' };
const tail = list => list.map(line => `${line}\n`).join('');

async function use(work, options) {
  const sandbox = createMastraSandbox({ provider: provider(options) });
  await sandbox.start();
  try {
    await work(sandbox, fake.sandboxes.get(sandbox.getInfo().metadata.sandboxId));
  } finally {
    await sandbox._destroy();
  }
}

/** A rejection, and what it must not hold. */
async function refused(promise, expected, server = fake) {
  const error = await promise.then(value => assert.fail(`resolved: ${inspect(value)}`), one => one);
  const { code, retryable, words } = expected;
  if (code) assert.equal(error.code, code, error.message);
  if (retryable !== undefined) assert.equal(error.retryable, retryable, error.message);
  if (words) assert.match(error.message, words);
  assert.ok(!/<html|<body/i.test(error.message), error.message);
  assert.ok(!inspect(error, { depth: 9 }).includes(server.apiKey));
  return error;
}

// ---- RC: reconnect, resume, identity

scenario('RC-1', 'a process of before is found, read to its end and killed by another instance', async () => {
  const first = createMastraSandbox({ provider: provider(), id: 'rc-1' });
  await first.start();
  const handle = await first.processes.spawn('for i in $(seq 1 6); do echo $i; until [ $i != 3 ] || [ -e go ]; do sleep 0.1; done; done; exit 5');
  const other = await first.processes.spawn('echo up; exec sleep 900');
  await until(() => handle.stdout.includes('2\n'));
  const second = createMastraSandbox({ provider: provider(), id: 'rc-1' });
  await second.start();
  const list = await second.processes.list();
  assert.match(list.find(one => one.pid === handle.pid).command, /seq 1 6/);
  const again = await second.processes.get(handle.pid);
  await second.executeCommand('touch go');
  const result = await again.wait();
  assert.deepEqual([result.exitCode, result.stdout], [5, tail([1, 2, 3, 4, 5, 6])]);
  assert.equal(await second.processes.kill(other.pid), true);
  assert.equal((await other.wait()).killed, true);
  await second._destroy();
});

scenario('RC-3', 'connect and resume say the time again, and nothing that resets autoPause', async () => {
  const options = { timeout: 1_800_000, autoPause: true };
  const first = createMastraSandbox({ provider: provider(options), id: 'rc-3' });
  const mark = fake.mark();
  await first.start();
  const made = fake.since(mark).find(one => one.method === 'POST' && one.path === creates.path);
  assert.deepEqual([made.json.timeout, made.json.autoPause], [1800, true]);
  await first._stop();
  await first.start(); // resumed by the instance that knows it
  const second = createMastraSandbox({ provider: provider(options), id: 'rc-3' });
  await second.start(); // found by its metadata
  const connects = fake.since(mark).filter(one => one.path.endsWith('/connect'));
  assert.equal(connects.length, 2);
  for (const { json } of connects) assert.deepEqual(json, { timeout: 1800 });
  const { endAt } = fake.sandboxes.get(second.getInfo().metadata.sandboxId);
  assert.ok(endAt - fake.store.now() > 1_790_000);
  await second._destroy();
});

scenario('RC-5', 'the look-up reads every page and takes the oldest that runs, of the very id', async () => {
  const server = await startFake({ pageLimit: 2 });
  try {
    const headers = { 'x-api-key': server.apiKey, 'content-type': 'application/json' };
    const make = async id => {
      const body = JSON.stringify({ templateID: 'base', timeout: 600, metadata: { [idKey]: id } });
      const answer = await fetch(`${server.url}/v2/sandboxes`, { method: 'POST', headers, body });
      await sleep(5); // of another millisecond than the next
      return (await answer.json()).sandboxID;
    };
    const paused = await make('wanted');
    await fetch(`${server.url}/sandboxes/${paused}/pause`, { method: 'POST', headers, body: '{}' });
    const dying = await make('wanted');
    for (const id of ['wanted2', 'Wanted', 'other']) await make(id);
    const right = await make('wanted');
    await make('wanted');
    // One that is in a state of its own.
    const state = one => (one.sandboxID === dying ? { ...one, state: 'error' } : one);
    server.fault({ match: { method: 'GET', path: '/v2/sandboxes' }, times: 99, patch: list => list.map(state) });
    const mark = server.mark();
    const sandbox = await createSandbox({ provider: at(server), id: 'wanted' });
    assert.equal(sandbox.metadata.sandboxId, right);
    assert.equal(server.count(mark, creates), 0);
    assert.ok(server.count(mark, { method: 'GET', path: '/v2/sandboxes' }) >= 2);
    await sandbox.destroy();
  } finally {
    await server.close();
  }
});

// ---- NET: broken transport, retry

for (const [name, fault] of [
  ['reset', { cutAfter: 200 }],
  ['ended', { truncate: 200 }],
  ['reset after its end was told', { afterEnd: 'reset' }],
]) {
  scenario('NET-1', `a stream that is ${name} is taken up again: the exit is real, no line twice, a gap is told`, () =>
    use(async sandbox => {
      const pieces = [];
      const cut = fake.fault({ match: { rpc: 'Start' }, ...fault });
      const mark = fake.mark();
      const result = await sandbox.executeCommand('for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done; exit 7', [], {
        onStdout: text => pieces.push(text),
      });
      cut.remove();
      assert.equal(result.exitCode, 7);
      assert.equal(pieces.join(''), result.stdout);
      const lines = result.stdout.trim().split('\n').map(Number);
      assert.deepEqual(lines, [...new Set(lines)].sort((a, b) => a - b));
      if (lines.length < 6) assert.match(result.reason, /output may be missing/);
      if (fault.afterEnd) assert.equal(lines.length, 6);
      assert.equal(fake.since(mark).filter(one => one.rpc === 'Start' && /seq|for i in/.test(one.body.toString())).length, 1);
    }));
}

scenario('NET-3', '429 is waited for as told, not for an hour, and an abort ends the wait', () =>
  use(async sandbox => {
    const date = new Date(Date.now() + 1500).toUTCString();
    for (const retryAfter of ['1', date]) {
      const fault = fake.fault({ match: { rpc: 'Start' }, rateLimit: { retryAfter } });
      assert.equal((await sandbox.executeCommand('echo x')).stdout, 'x\n');
      assert.equal(fault.used, 1);
    }
    for (const [retryAfter, words] of [['3600', /3600/], ['99999999999999999999', /429|limit/i], [undefined, /429/]]) {
      const fault = fake.fault({ match: { rpc: 'Start' }, times: 9, rateLimit: { retryAfter, body: '<html>slow down</html>' } });
      await refused(sandbox.sandboxSdk.run('echo x'), { code: 'rate_limited', retryable: true, words });
      assert.equal(fault.used, 1);
      fault.remove();
    }
    for (const body of ['', 'null', '[]', '"x"', '{"error":null}', '{"message":7}']) {
      const fault = fake.fault({ match: { rpc: 'Start' }, times: 9, rateLimit: { body } });
      await refused(sandbox.sandboxSdk.run('echo x'), { code: 'rate_limited' });
      fault.remove();
    }
    const controller = new AbortController();
    const mark = fake.mark();
    const waited = fake.fault({ match: { rpc: 'Start' }, times: 9, rateLimit: { retryAfter: '20' } });
    const running = sandbox.executeCommand('echo x', [], { abortSignal: controller.signal }).catch(error => error);
    await until(() => waited.used > 0);
    controller.abort();
    await running;
    assert.equal(starts(mark), 1);
    waited.remove();
  }));

scenario('NET-5', 'an aborted command is not sent again, and leaves nothing', () =>
  use(async sandbox => {
    const held = fake.fault({ match: { rpc: 'Start' }, hang: true });
    const waiting = new AbortController();
    const mark = fake.mark();
    const first = sandbox.executeCommand('echo never', [], { abortSignal: waiting.signal }).catch(error => error);
    await until(() => held.used > 0);
    waiting.abort();
    await first;
    held.remove();
    assert.equal(fake.since(mark).filter(one => one.rpc === 'Start' && one.body.includes('echo never')).length, 1);

    const body = new AbortController();
    const second = sandbox.executeCommand('echo up; sleep 901 & sleep 902', [], {
      abortSignal: body.signal,
      onStdout: () => body.abort(),
    });
    assert.deepEqual([(await second).exitCode, (await second).killed], [137, true]);
    // The kernel takes a moment to end what was killed.
    await until(async () => (await sandbox.executeCommand('pgrep -f "sleep 90[12]"')).stdout === '');
    assert.deepEqual(await sandbox.processes.list(), []);
  }));

// ---- ST: stream formats

scenario('ST-1', 'text that is cut anywhere is one text, on each stream by itself', () =>
  use(async sandbox => {
    const text = 'aé漢😀z';
    const bytes = [...Buffer.from(text)].map(byte => `\\${byte.toString(8).padStart(3, '0')}`);
    // A message of the service for every byte, on both streams in turn.
    const slow = bytes.map(one => `printf '${one}'; printf '${one}' >&2; sleep 0.03`).join('; ');
    for (const fault of [undefined, { oneByte: true }, { splits: 7 }]) {
      const set = fault && fake.fault({ match: { rpc: 'Start' }, ...fault });
      const out = [];
      const err = [];
      const result = await sandbox.executeCommand(slow, [], { onStdout: one => out.push(one), onStderr: one => err.push(one) });
      set?.remove();
      assert.deepEqual([result.stdout, result.stderr, out.join(''), err.join('')], [text, text, text, text]);
      for (const one of [...out, ...err]) assert.ok(one.isWellFormed() && !one.includes('\ufffd'), inspect(out));
    }
    await sandbox.writeFiles([{ path: '/workspace/t', content: text }]);
    const drip = fake.fault({ match: { rpc: 'Start' }, oneByte: true });
    assert.equal((await sandbox.executeCommand('cat t')).stdout, text);
    drip.remove();
  }));

const frame = (opcode, payload, fin = true) => {
  const body = Buffer.from(payload);
  const head = Buffer.alloc(body.length < 126 ? 2 : body.length < 65536 ? 4 : 10);
  head[0] = (fin ? 0x80 : 0) | opcode;
  if (body.length < 126) head[1] = body.length;
  else if (body.length < 65536) (head[1] = 126), head.writeUInt16BE(body.length, 2);
  else (head[1] = 127), head.writeBigUInt64BE(BigInt(body.length), 2);
  return Buffer.concat([head, body]);
};
const closing = (code, reason = '') => frame(8, Buffer.concat([Buffer.from([code >> 8, code & 255]), Buffer.from(reason)]));

/** A server that writes `bytes` in pieces of `size`; -> what the client heard and answered. */
async function talk(transport, bytes, { size = 1, end = true } = {}) {
  const server = createServer();
  const sockets = new Set();
  let answered = Buffer.alloc(0);
  server.on('upgrade', async (request, socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('data', piece => (answered = Buffer.concat([answered, piece])));
    const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`);
    const head = `HTTP/1.1 101 ok\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept.digest('base64')}\r\n\r\n`;
    socket.setNoDelay(true);
    for (const piece of [Buffer.from(head), bytes]) {
      for (let i = 0; i < piece.length; i += size) {
        socket.write(piece.subarray(i, i + size));
        await new Promise(setImmediate);
      }
    }
    if (end) socket.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  process.env.SBX_HTTP_TRANSPORT = transport;
  const client = new (native().Http)({ proxy: '' });
  delete process.env.SBX_HTTP_TRANSPORT;
  const heard = { messages: [], parts: [] };
  const done = new Promise(resolve => {
    const id = client.open({ method: 'GET', url: `ws://127.0.0.1:${server.address().port}/` }, (event, value) => {
      if (event === 'bytes') heard.parts.push(Buffer.from(value));
      if (event === 'message') heard.messages.push(Buffer.concat(heard.parts.splice(0)));
      if (event !== 'end') return;
      client.end(id);
      resolve(value);
    });
  });
  heard.error = await done;
  await client.close();
  heard.answered = () => answered;
  for (const socket of sockets) socket.destroy();
  server.close();
  return heard;
}

for (const transport of ['libcurl', 'host']) {
  scenario('ST-3', `WebSocket frames written byte by byte (${transport})`, async () => {
    const long = Buffer.alloc(70_000, 'x');
    const pieces = [
      frame(1, 'ab', false), frame(9, 'ping!'), frame(0, 'c', false), frame(0, ''), // ends with an empty frame
      frame(2, ''), frame(1, 'é'.repeat(100)),
    ];
    const small = await talk(transport, Buffer.concat([...pieces, closing(1000)]));
    assert.equal(small.error ?? null, null);
    assert.deepEqual(small.messages.map(String), ['abc', '', 'é'.repeat(100)]);
    // The pong carries the ping's payload, masked.
    const sent = small.answered();
    const pong = sent.indexOf(0x8a);
    assert.equal(sent[pong + 1], 0x85);
    const mask = sent.subarray(pong + 2, pong + 6);
    assert.equal(Buffer.from(sent.subarray(pong + 6, pong + 11).map((byte, i) => byte ^ mask[i % 4])).toString(), 'ping!');

    const large = await talk(transport, Buffer.concat([frame(2, long), closing(1000)]), { size: 9000 });
    assert.equal(large.error ?? null, null);
    assert.ok(large.messages[0].equals(long));

    for (const [bytes, words] of [
      [Buffer.concat([frame(1, 'x'), closing(1011, 'out of order')]), /1011/],
      [frame(1, 'x'), /./], // 1006: no close at all
      [Buffer.from([0x81, 0x7f, 0xff, 0, 0, 0, 0, 0, 0, 0]), /./], // a length of 2^63 and more
      [Buffer.concat([frame(0, 'x')]), /./], // goes on with nothing
    ]) {
      const { error } = await talk(transport, bytes);
      assert.ok(error, 'it ended well');
      assert.match(error.message, words);
      assert.ok(['unavailable', 'provider_error'].includes(error.code), error.code);
    }
  });
}

// ---- TM: time limits, expiry

scenario('TM-1', 'a timeout ends the tree at the service, too', () =>
  use(async sandbox => {
    const result = await sandbox.executeCommand('sleep 903 & sleep 904', [], { timeout: 500 });
    assert.deepEqual([result.exitCode, result.timedOut, result.killed], [124, true, true]);
    await until(async () => (await sandbox.executeCommand('pgrep -f "sleep 90[34]"')).stdout === '');
    assert.deepEqual(await sandbox.processes.list(), []);
  }));

for (const [name, answer] of [
  ['as the edge says it', undefined],
  ['told by 404', { empty404: true }],
  ['told by 410', { respond: { status: 410, body: '{"code":410,"message":"gone"}' } }],
  ['told by an HTML page', { html502: true }],
]) {
  scenario('TM-3', `a sandbox that ends under a command, ${name}`, async () => {
    const sandbox = createMastraSandbox({ provider: provider() });
    await sandbox.start();
    const id = sandbox.getInfo().metadata.sandboxId;
    const out = [];
    const running = sandbox.executeCommand('echo partial; sleep 905', [], { onStdout: text => out.push(text) });
    await until(() => out.length > 0);
    const set = answer && fake.fault({ match: { plane: 'envd', when: one => one.sandboxID === id }, times: 99, ...answer });
    await fake.expire(id);
    const error = await refused(running, { words: /ended/ });
    assert.equal(error.stdout, 'partial\n');
    assert.notEqual(sandbox.status, 'running');
    set?.remove();
    assert.equal((await sandbox.executeCommand('echo again')).stdout, 'again\n');
    assert.notEqual(sandbox.getInfo().metadata.sandboxId, id);
    await sandbox._destroy();
  });
}

// ---- AU: credentials

scenario('AU-1', 'a key that has run out is asked for anew, once for all calls, and the call made again', async () => {
  const server = await startFake();
  try {
    const valid = server.apiKey;
    const other = `${valid.slice(0, -4)}ffff`;
    let current = valid;
    let asked = 0;
    const given = { ...server, apiKey: () => (asked++, sleep(20, current)), url: server.url };
    const made = at(given);
    const ids = ['a', 'b', 'c'];
    const all = await Promise.all(ids.map(id => createSandbox({ provider: made, id })));
    assert.equal(asked, 1);
    assert.deepEqual((await all[0].run('echo on')).stdout, 'on\n');
    current = server.options.apiKey = server.apiKey = other;
    const mark = server.mark();
    await Promise.all(all.map(one => one.stop())); // each is refused once
    assert.equal(asked, 2);
    const answers = server.since(mark).filter(one => one.path.endsWith('/pause')).map(one => one.status);
    assert.deepEqual([...answers].sort(), [204, 204, 204, 401, 401, 401]);
    const again = await createSandbox({ provider: made, id: 'a' });
    assert.equal((await again.run('echo on')).stdout, 'on\n');
    assert.equal(asked, 2);

    // What extends a sandbox's time is nobody's call: the next one brings the new key.
    current = server.options.apiKey = server.apiKey = valid;
    const brief = await createSandbox({ provider: at({ ...given }, { timeout: 4000 }), id: 'brief' });
    current = server.options.apiKey = server.apiKey = other;
    const touched = server.mark();
    const refreshes = status => server.count(touched, { when: one => one.path.endsWith('/refreshes') && one.status === status });
    await until(async () => (await brief.run('true')) && refreshes(401) > 0);
    await until(async () => (await brief.run('true')) && refreshes(204) > 0);

    // No sandbox is made twice, and a source that fails is told.
    current = server.options.apiKey = server.apiKey = valid;
    const creating = server.mark();
    const last = await createSandbox({ provider: made, id: 'last' });
    const statuses = server.since(creating).filter(one => one.path === creates.path && one.method === 'POST').map(one => one.status);
    assert.equal(statuses.filter(status => status === 201).length, 1);
    await last.destroy();
    const mine = new Error('vault is closed');
    const failing = await refused(createSandbox({ provider: at({ ...given, apiKey: () => Promise.reject(mine) }) }), { code: 'authentication', words: /apiKey\(\).*vault is closed/ }, server);
    assert.equal(failing.cause, mine);
    for (const bad of ['', undefined, 7, 'e2b\r\nX: y']) {
      await refused(createSandbox({ provider: at({ ...given, apiKey: () => bad }) }), { code: 'authentication' }, server);
    }
    const wrong = server.mark();
    await refused(createSandbox({ provider: at({ ...given, apiKey: () => (asked++, 'e2b_wrong') }) }), { code: 'authentication' }, server);
    assert.ok(server.count(wrong) <= 2);
  } finally {
    await server.close();
  }
});

// ---- TLS: proxy and CA

scenario('TLS-1', 'the only way out is a proxy: everything goes through it, a wrong password is told', async () => {
  const names = ['http_proxy', 'https_proxy', 'all_proxy', 'no_proxy'].flatMap(one => [one, one.toUpperCase()]);
  const kept = Object.fromEntries([...names, 'NODE_EXTRA_CA_CERTS'].map(name => [name, process.env[name]]));
  for (const name of names) delete process.env[name];
  const server = await startFake({ tls: true, domain: 'e2b.fake' });
  const to = { host: '127.0.0.1', port: server.port };
  const proxy = await startHttpProxy({ to, user: 'user', password: 'p w' });
  const socks = await startSocksProxy({ to });
  const closed = await startHttpProxy({ to, user: 'other', password: 'x' });
  const withAuth = `http://user:p%20w@127.0.0.1:${proxy.port}`;
  const made = () => createSandbox({ provider: e2b({ apiKey: server.apiKey, domain: 'e2b.fake', requestTimeout: 8000 }) });
  process.env.NODE_EXTRA_CA_CERTS = server.ca;
  try {
    for (const [variable, value, counted] of [
      ['HTTPS_PROXY', withAuth, proxy],
      ['https_proxy', withAuth, proxy],
      ['ALL_PROXY', socks.url.replace('socks5:', 'socks5h:'), socks],
    ]) {
      process.env[variable] = value;
      const before = counted.tunnels.length;
      const sandbox = await made();
      const big = 'x'.repeat(300_000);
      await sandbox.files.write('big', big);
      assert.equal(await sandbox.files.text('big'), big);
      assert.equal((await sandbox.run('echo through')).stdout, 'through\n');
      const child = await sandbox.processes.start('cat');
      await child.write('in');
      await child.closeStdin();
      assert.equal((await child.wait()).stdout, 'in');
      await sandbox.destroy();
      const hosts = new Set(counted.tunnels.slice(before).map(one => one.host));
      assert.ok(hosts.has('api.e2b.fake') && [...hosts].some(one => one.startsWith('49983-')), [...hosts].join());
      delete process.env[variable];
    }
    process.env.HTTPS_PROXY = `http://user:wrong@127.0.0.1:${closed.port}`;
    const error = await refused(made(), { words: /407/ }, server);
    assert.doesNotMatch(inspect(error, { depth: 9 }), /user:wrong|wrong@/);
    process.env.NO_PROXY = '127.0.0.1,.e2b.fake';
    const mark = closed.refused;
    await refused(made(), {}, server); // goes there directly, where no such name is
    assert.equal(closed.refused, mark);
  } finally {
    for (const [name, value] of Object.entries(kept)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    await Promise.all([proxy.close(), socks.close(), closed.close(), server.close()]);
  }
});

// ---- URL: port URLs

scenario('URL-1', 'only declared ports have a URL, of the service’s own form', async () => {
  const workspace = createMastraWorkspace({ provider: provider(), ports: [3000] });
  const { sandbox } = workspace;
  assert.equal(await sandbox.networking.getPortUrl(3000), null);
  await workspace.init();
  const id = sandbox.getInfo().metadata.sandboxId;
  const url = await sandbox.networking.getPortUrl(3000);
  assert.equal(url, `https://3000-${id}.e2b.app`);
  assert.equal(new URL(url).href, `${url}/`);
  for (const port of [9999, 0, 70000, -1, 1.5, '3000x']) {
    assert.equal(await sandbox.networking.getPortUrl(port).catch(error => error.code), port === 9999 ? null : await sandbox.networking.getPortUrl(port).catch(error => error.code));
    await refused(sandbox.getPortUrl(port), { code: 'invalid_input' });
  }
  await sandbox._stop();
  assert.equal(await sandbox.networking.getPortUrl(3000), null);
  assert.equal(fake.sandboxes.get(id).state, 'paused');
  await workspace.destroy();
});

// ---- RF: files

scenario('RF-1', 'names of files are never commands or options', async () => {
  const workspace = createMastraWorkspace({ provider: provider() });
  await workspace.init();
  const { filesystem: files, sandbox } = workspace;
  const odd = ['a;touch pwned', 'b$(touch pwned2)', '-rf', 'x y', 'it’s\'q', 'c`touch pwned3`', '--', '*', '\\', '"', 'é漢'];
  await files.writeFile(odd[0], 'one');
  await files.copyFile(odd[0], odd[1]);
  await files.writeFile('-rf', 'two');
  await files.moveFile('-rf', 'x y');
  await files.appendFile('it’s\'q', 'three');
  await files.mkdir('new\nline');
  await files.writeFile('new\nline/--', 'four');
  assert.equal(await files.readFile(odd[1], { encoding: 'utf-8' }), 'one');
  assert.equal(await files.readFile('x y', { encoding: 'utf-8' }), 'two');
  await files.rmdir('new\nline', { recursive: true });
  for (const name of odd.slice(4)) await files.writeFile(name, name);
  for (const name of odd.slice(4)) assert.equal(await files.readFile(name, { encoding: 'utf-8' }), name);
  await files.deleteFile('*');
  const { stdout } = await sandbox.executeCommand('ls -A --quoting-style=literal | sort; ls / /home/user | grep pwned');
  const left = [odd[0], odd[1], 'x y', ...odd.slice(4).filter(name => name !== '*')].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  assert.deepEqual(stdout.trim().split('\n').sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))), left);
  await workspace.destroy();
});

// ---- RB: provider differences

scenario('RB-1', 'background jobs, here-documents and readers of stdin do not hang', () =>
  use(async sandbox => {
    const run = async command => {
      const { exitCode, stdout } = await sandbox.executeCommand(command);
      return [exitCode, stdout];
    };
    assert.deepEqual(await run('sleep 906 & echo done'), [0, 'done\n']);
    assert.deepEqual(await run('(trap "" HUP; exec sleep 907) & echo done; exit 3'), [3, 'done\n']);
    assert.deepEqual(await run("cat <<'EOF'\n$HOME `id`\nEOF\n"), [0, '$HOME `id`\n']);
    assert.deepEqual(await run('cat'), [0, '']);
    assert.deepEqual(await run('read line; echo "[$line]"'), [0, '[]\n']);
    assert.deepEqual(await run('python3 -m http.server 8766 --bind 127.0.0.1 >/dev/null 2>&1 & echo started'), [0, 'started\n']);
    await until(async () => (await sandbox.executeCommand('pgrep -fc "^sleep 90[67]"')).stdout === '2\n');
  }));

// ---- hostile answers

const metadataUrl = 'http://169.254.169.254/latest/meta-data/iam';

scenario('redirect', 'to a metadata address is an error on both planes, and not followed', () =>
  use(async sandbox => {
    for (const [match, work] of [
      [creates, () => createSandbox({ provider: provider() })],
      [{ rpc: 'Start' }, () => sandbox.sandboxSdk.run('true')],
    ]) {
      const fault = fake.fault({ match, times: 9, redirect: metadataUrl });
      await refused(work(), { code: 'provider_error', retryable: false });
      assert.equal(fault.used, 1);
      fault.remove();
    }
    assert.ok(fake.requests.every(one => !one.path.includes('meta-data')));
  }));

scenario('foreign host', 'a domain that is not the service’s gets no token', async () => {
  for (const domain of ['evil.example', 'e2b.app.evil.example', 'xe2b.app', '169.254.169.254', 'a b', 'e2b.app/..', 'E2B.APP@evil.example']) {
    const fault = fake.fault({ match: creates, patch: one => ({ ...one, domain }) });
    await refused(createSandbox({ provider: provider({ sandboxUrl: undefined, requestTimeout: 30_000 }) }), { code: 'provider_error', words: /domain/ });
    fault.remove();
  }
  assert.deepEqual([...fake.sandboxes.values()].filter(one => one.state === 'running'), []);
});

scenario('endless headers', 'end with an error', () =>
  use(async sandbox => {
    for (const [match, work] of [
      [creates, () => createSandbox({ provider: provider({ requestTimeout: 30_000 }) })],
      [{ rpc: 'Start' }, () => sandbox.sandboxSdk.run('true')],
    ]) {
      const fault = fake.fault({ match, times: 9, endlessHeaders: true });
      await refused(work(), {});
      fault.remove();
    }
    assert.equal((await sandbox.executeCommand('echo on')).stdout, 'on\n');
  }));

scenario('huge envelope', 'of 2^32 bytes is refused, and the command’s end found another way', () =>
  use(async sandbox => {
    // The command had been started: its end is asked for, and the gap is told.
    const fault = fake.fault({ match: { rpc: 'Start' }, hugeEnvelope: true });
    const result = await sandbox.executeCommand('echo x >> ran; exit 4');
    assert.equal(fault.used, 1);
    assert.equal(result.exitCode, 4);
    assert.match(result.reason, /output may be missing/);
    assert.equal((await sandbox.executeCommand('cat ran')).stdout, 'x\n');
    assert.equal((await sandbox.executeCommand('echo on')).stdout, 'on\n');
  }));

scenario('gzip bomb', 'is cut', async () => {
  const fault = fake.fault({ match: creates, times: 9, gzipBomb: 256 << 20 });
  await refused(createSandbox({ provider: provider() }), { code: 'provider_error', retryable: false, words: /more than the \d+ bytes/ });
  fault.remove();
  for (const { id } of [...fake.sandboxes.values()]) await fake.expire(id);
});

// One file of a tar archive.
function tarEntry(name, content) {
  const head = Buffer.alloc(512);
  const put = (offset, text) => head.write(text, offset, 'latin1');
  put(0, name);
  put(100, '0000644\0');
  put(108, '0001750\0');
  put(116, '0001750\0');
  put(124, `${content.length.toString(8).padStart(11, '0')}\0`);
  put(136, '00000000000\0');
  put(148, '        ');
  put(156, '0');
  put(257, 'ustar\0' + '00');
  put(148, `${head.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, '0')}\0 `);
  const body = Buffer.alloc(Math.ceil(content.length / 512) * 512);
  body.write(content);
  return Buffer.concat([head, body]);
}

scenario('tar', 'names with .. or a root leave the workspace in no archive', async () => {
  const { gzipSync } = await import('node:zlib');
  const made = provider();
  const sandbox = await createSandbox({ provider: made });
  await sandbox.files.write('good', 'good');
  const { id } = await sandbox.snapshots.create('hostile');
  const { path } = await made.store();
  const archive = `${path}/${id}.tar`;
  assert.ok(existsSync(archive));
  const names = ['../escaped1', 'a/../../escaped2', '/tmp/escaped3', 'inside'];
  writeFileSync(archive, gzipSync(Buffer.concat([...names.map(name => tarEntry(name, 'x')), Buffer.alloc(1024)])));
  await sandbox.snapshots.restore(id).catch(error => assert.ok(['provider_error', 'invalid_input'].includes(error.code), error.code));
  const { stdout } = await sandbox.run('find / -xdev -name "escaped*" -not -path "/workspace/*" -not -path "/proc/*" 2>/dev/null');
  assert.equal(stdout, '');
  await sandbox.destroy();
});

scenario('sentinels', 'that a command prints itself are output like any other', () =>
  use(async sandbox => {
    const forged = ['SBX=x000.', 'SBX00000000000000000000000000000000=x000.', ')SBX', 'SBX0000='].join('\n');
    await sandbox.writeFiles([{ path: '/workspace/forged', content: forged }]);
    const result = await sandbox.executeCommand('cat forged; cat forged >&2; echo after; exit 9');
    assert.deepEqual([result.exitCode, result.stdout, result.stderr], [9, `${forged}after\n`, forged]);
    const workspace = createMastraWorkspace({ provider: provider(), id: 'sentinels' });
    await workspace.init();
    await workspace.filesystem.writeFile('forged', forged);
    assert.equal(await workspace.filesystem.readFile('forged', { encoding: 'utf-8' }), forged);
    await workspace.filesystem.mkdir('SBX0000(');
    assert.deepEqual((await workspace.filesystem.readdir('/')).map(one => one.name).sort(), ['SBX0000(', 'forged']);
    await workspace.destroy();
  }));

scenario('profile', '~/.profile that prints is in no output', async () => {
  const server = await startFake({
    onCreate: ({ machine }) => {
      for (const name of ['.profile', '.bashrc', '.bash_profile']) writeFileSync(`${machine.root}/home/user/${name}`, 'echo NOISE; echo NOISE >&2\n');
      writeFileSync(`${machine.folder}/etc/profile`, 'echo NOISE\n');
    },
  });
  try {
    const workspace = createMastraWorkspace({ provider: at(server) });
    await workspace.init();
    await workspace.filesystem.writeFile('a', 'text');
    assert.equal(await workspace.filesystem.readFile('a', { encoding: 'utf-8' }), 'text');
    assert.deepEqual((await workspace.filesystem.readdir('/')).map(one => one.name), ['a']);
    const { stdout, stderr } = await workspace.sandbox.executeCommand('cat a');
    assert.deepEqual([stdout, stderr], ['text', '']);
    const handle = await workspace.sandbox.processes.spawn('cat a');
    assert.equal((await handle.wait()).stdout, 'text');
    await workspace.destroy();
  } finally {
    await server.close();
  }
});

scenario('pid file', 'of the sandbox that says -1 ends nothing', () =>
  use(async (sandbox, { machine }) => {
    const handle = await sandbox.processes.spawn('echo up; exec sleep 908');
    await until(() => handle.stdout.includes('up'));
    const folder = `${machine.root}/tmp/.sbx`;
    const mine = readdirSync(folder).find(name => name.startsWith(`p.${handle.pid}.`));
    const [, , start] = mine.split('.');
    for (const claim of ['-1', '0', '1', '-908', '99999999999999999999', '$(touch /tmp/pwned)']) {
      for (const name of ['p.-1.5', 'p.1.1', `p.424242.${start}`]) {
        mkdirSync(folder, { recursive: true });
        writeFileSync(`${folder}/${name}`, `nonce - ${claim} ${claim} ${claim}:-1\n${claim}`);
      }
      const listed = (await sandbox.processes.list()).filter(one => one.running);
      assert.deepEqual(listed.map(one => one.pid), [handle.pid]);
      for (const pid of ['-1', '1', '424242']) await sandbox.processes.kill(pid).catch(() => false);
    }
    assert.equal(existsSync(`${machine.root}/tmp/pwned`), false);
    assert.equal((await sandbox.executeCommand('echo on')).stdout, 'on\n');
    assert.equal(await sandbox.processes.kill(handle.pid), true);
    assert.ok(readFileSync(`${folder}/p.1.1`));
  }));

test('every case is here', () => {
  assert.deepEqual(wanted.filter(id => !seen.has(id)), []);
});
