// The calls of the fake's envd that the scenario does not make.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { request as httpRequest } from 'node:http';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { startFake } from '../fakes/e2b.js';

const later = () => new Promise((resolve) => setTimeout(resolve, 5));

async function until(what, look) {
  for (let i = 0; i < 2000; i++) {
    const value = await look();
    if (value) return value;
    await later();
  }
  throw new Error(`it never happened: ${what}`);
}

async function started(t, options) {
  const fake = await startFake(options);
  t.after(() => fake.close());
  const answer = await fetch(`${fake.url}/v2/sandboxes`, {
    method: 'POST',
    headers: { 'x-api-key': fake.apiKey, 'content-type': 'application/json' },
    body: '{"templateID":"base"}',
  });
  const sandbox = await answer.json();
  return { fake, sandbox, inside: fake.sandboxes.get(sandbox.sandboxID) };
}

// fetch() cannot name a Host, so the headers route.
function headersOf(sandbox, more) {
  return {
    'e2b-sandbox-id': sandbox.sandboxID,
    'e2b-sandbox-port': '49983',
    'x-access-token': sandbox.envdAccessToken,
    ...more,
  };
}

async function call({ fake, sandbox }, rpc, message) {
  const answer = await fetch(`${fake.url}/${rpc}`, {
    method: 'POST',
    headers: headersOf(sandbox, { 'content-type': 'application/json' }),
    body: JSON.stringify(message),
  });
  return { status: answer.status, body: await answer.json() };
}

/** An open stream: { events, last, close(), ended }. */
function open({ fake, sandbox }, rpc, message, headers = {}) {
  const payload = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(payload.length, 1);
  const stream = { events: [], last: undefined };
  const request = httpRequest(`${fake.url}/${rpc}`, {
    method: 'POST',
    agent: false,
    headers: headersOf(sandbox, { 'content-type': 'application/connect+json', ...headers }),
  });
  let rest = Buffer.alloc(0);
  stream.ended = new Promise((resolve) => {
    request.on('error', resolve);
    request.on('response', (response) => {
      stream.response = response;
      response.on('data', (data) => {
        rest = Buffer.concat([rest, data]);
        while (rest.length >= 5 && rest.length >= 5 + rest.readUInt32BE(1)) {
          const size = 5 + rest.readUInt32BE(1);
          const value = JSON.parse(rest.subarray(5, size));
          if (rest[0] & 2) stream.last = value;
          else stream.events.push(value.event ?? value);
          rest = rest.subarray(size);
        }
      });
      response.on('error', resolve);
      response.on('end', resolve);
    });
  });
  request.end(Buffer.concat([head, payload]));
  stream.close = () => request.destroy();
  stream.text = (name) =>
    Buffer.concat(stream.events.filter((one) => one.data?.[name]).map((one) => Buffer.from(one.data[name], 'base64'))).toString();
  stream.pid = () => until('the start', () => stream.events[0]?.start?.pid);
  return stream;
}

const shell = (command, more) => ({ process: { cmd: '/bin/bash', args: ['-l', '-c', command] }, ...more });

test('stdin: open unless refused, in order, to its end', async (t) => {
  const ready = await started(t);
  const stream = open(ready, 'process.Process/Start', shell('cat; echo over; exec sleep 600'));
  const process = { pid: await stream.pid() };
  const send = (text) => call(ready, 'process.Process/SendInput', { process, input: { stdin: btoa(text) } });
  assert.deepEqual((await send('a')).body, {});
  await send('b\n');
  await call(ready, 'process.Process/CloseStdin', { process });
  assert.deepEqual((await call(ready, 'process.Process/CloseStdin', { process })).body, {});
  assert.match((await send('late')).body.message, /stdin not enabled or closed/);
  await until('all output', () => stream.text('stdout') === 'ab\nover\n');
  stream.close();
  const none = open(ready, 'process.Process/Start', shell('cat; sleep 600', { stdin: false }));
  const closed = { process: { pid: await none.pid() }, input: { stdin: '' } };
  assert.equal((await call(ready, 'process.Process/SendInput', closed)).status, 500);
  none.close();
});

test('SendInput waits for a full pipe; a signal does not', async (t) => {
  const ready = await started(t);
  const stream = open(ready, 'process.Process/Start', shell('exec sleep 600'));
  const process = { pid: await stream.pid() };
  let written = false;
  const work = call(ready, 'process.Process/SendInput', { process, input: { stdin: btoa('x'.repeat(200_000)) } });
  work.then(() => (written = true));
  for (let i = 0; i < 20; i++) await later();
  assert.equal(written, false);
  await call(ready, 'process.Process/SendSignal', { process, signal: 'SIGNAL_SIGTERM' });
  await stream.ended;
  assert.equal(stream.events.at(-1).end.status, 'signal: terminated');
  assert.equal((await work).body.code, 'internal');
  assert.equal((await call(ready, 'process.Process/SendSignal', { process, signal: 'SIGNAL_SIGTERM' })).status, 404);
});

test('StreamInput carries input in order', async (t) => {
  const ready = await started(t);
  const stream = open(ready, 'process.Process/Start', shell('head -c 4'));
  const pid = await stream.pid();
  const parts = [{ start: { process: { pid } } }, { data: { input: { stdin: btoa('ab') } } }, { keepalive: {} }, { data: { input: { stdin: btoa('cd') } } }];
  const body = parts.map((part) => {
    const payload = Buffer.from(JSON.stringify(part));
    const head = Buffer.alloc(5);
    head.writeUInt32BE(payload.length, 1);
    return Buffer.concat([head, payload]);
  });
  const answer = await fetch(`${ready.fake.url}/process.Process/StreamInput`, {
    method: 'POST',
    headers: headersOf(ready.sandbox, { 'content-type': 'application/connect+json' }),
    body: Buffer.concat(body),
  });
  assert.equal(Buffer.from(await answer.arrayBuffer()).toString('latin1'), '\0\0\0\0\x02{}\x02\0\0\0\x02{}');
  await stream.ended;
  assert.equal(stream.text('stdout'), 'abcd');
});

test('a second listener gets what comes, not what came', async (t) => {
  const ready = await started(t);
  const first = open(ready, 'process.Process/Start', shell('echo one; read x; echo two'));
  const process = { pid: await first.pid() };
  await until('the first line', () => first.text('stdout') === 'one\n');
  const second = open(ready, 'process.Process/Connect', { process });
  await second.pid();
  await call(ready, 'process.Process/SendInput', { process, input: { stdin: btoa('go\n') } });
  await Promise.all([first.ended, second.ended]);
  assert.deepEqual([first.text('stdout'), second.text('stdout')], ['one\ntwo\n', 'two\n']);
  assert.equal(second.events.at(-1).end.status, 'exit status 0');
  const gone = open(ready, 'process.Process/Connect', { process });
  await gone.ended;
  assert.deepEqual(gone.last.error, { code: 'not_found', message: `process with pid ${process.pid} not found` });
});

test('a newer envd remembers an exit for a while', async (t) => {
  const ready = await started(t, { envdVersion: '0.6.12' });
  const first = open(ready, 'process.Process/Start', shell('exit 9'));
  await first.ended;
  const again = open(ready, 'process.Process/Connect', { process: { pid: await first.pid() } });
  await again.ended;
  assert.equal(again.events[1].end.exitCode, 9);
});

test('output without a listener is dropped; an old envd lets it block', async (t) => {
  for (const [envdVersion, blocks] of [['0.6.10', false], ['0.5.0', true]]) {
    const ready = await started(t, { envdVersion });
    const first = open(ready, 'process.Process/Start', shell('read x; head -c 4000000 /dev/zero; touch /tmp/done'));
    const process = { pid: await first.pid() };
    first.close();
    await until('nobody listens', () => ready.inside.processes.running.get(process.pid).listeners.size === 0);
    await call(ready, 'process.Process/SendInput', { process, input: { stdin: btoa('\n') } });
    const done = async () => (await call(ready, 'filesystem.Filesystem/Stat', { path: '/tmp/done' })).status === 200;
    if (!blocks) await until('it is done', done);
    else {
      for (let i = 0; i < 40; i++) await later();
      assert.equal(await done(), false);
    }
  }
});

test('a slow listener holds the process', async (t) => {
  const ready = await started(t);
  const stream = open(ready, 'process.Process/Start', shell('head -c 60000000 /dev/zero; touch /tmp/done', { stdin: false }));
  await stream.pid();
  stream.response.pause();
  const done = async () => (await call(ready, 'filesystem.Filesystem/Stat', { path: '/tmp/done' })).status === 200;
  for (let i = 0; i < 40; i++) await later();
  assert.equal(await done(), false);
  stream.response.resume();
  await stream.ended;
  assert.equal(await done(), true);
});

test('keepalives, and an interval that crashes the handler', async (t) => {
  const ready = await started(t, { keepaliveMs: 10 });
  const stream = open(ready, 'process.Process/Start', shell('sleep 600'), { 'keepalive-ping-interval': '50' });
  await until('a keepalive', () => stream.events.some((event) => event.keepalive));
  stream.close();
  const crash = open(ready, 'process.Process/Start', shell('true'), { 'keepalive-ping-interval': '0' });
  assert.equal((await crash.ended)?.code, 'ECONNRESET');
});

test('a terminal', async (t) => {
  const ready = await started(t);
  const stream = open(ready, 'process.Process/Start', { process: { cmd: '/bin/bash', args: ['-i'] }, pty: { size: { cols: 70, rows: 20 } } });
  const process = { pid: await stream.pid() };
  const wrong = await call(ready, 'process.Process/SendInput', { process, input: { stdin: btoa('x') } });
  assert.match(wrong.body.message, /tty assigned to process/);
  assert.equal((await call(ready, 'process.Process/CloseStdin', { process })).body.code, 'unknown');
  await call(ready, 'process.Process/SendInput', { process, input: { pty: btoa('stty size; while read x; do echo "<$x>"; done\nready\n') } });
  await until('the loop', () => /20 70[^]*<ready>/.test(stream.text('pty')));
  await call(ready, 'process.Process/SendInput', { process, input: { pty: btoa('\x03') } });
  await call(ready, 'process.Process/SendInput', { process, input: { pty: btoa('exit 5\n') } });
  await stream.ended;
  assert.equal(stream.events.at(-1).end.exitCode, 5);
  const plain = open(ready, 'process.Process/Start', shell('sleep 600'));
  const update = await call(ready, 'process.Process/Update', { process: { pid: await plain.pid() }, pty: { size: { cols: 1, rows: 1 } } });
  assert.match(update.body.message, /tty not assigned to process/);
  plain.close();
});

test('watchers that are asked', async (t) => {
  const ready = await started(t);
  const { body } = await call(ready, 'filesystem.Filesystem/CreateWatcher', { path: '/home/user', recursive: true });
  await call(ready, 'filesystem.Filesystem/MakeDir', { path: 'deep/er' });
  const seen = new Set();
  await until('the events', async () => {
    const { events = [] } = (await call(ready, 'filesystem.Filesystem/GetWatcherEvents', { watcher_id: body.watcherId })).body;
    for (const event of events) seen.add(`${event.type} ${event.name}`);
    return seen.has('EVENT_TYPE_CREATE deep') && seen.has('EVENT_TYPE_CREATE deep/er');
  });
  assert.deepEqual((await call(ready, 'filesystem.Filesystem/RemoveWatcher', body)).body, {});
  assert.equal((await call(ready, 'filesystem.Filesystem/RemoveWatcher', body)).status, 404);
});

test('unary calls: gzip when asked, odd requests refused', async (t) => {
  const { fake, sandbox } = await started(t);
  const list = `${fake.url}/process.Process/List`;
  const headers = headersOf(sandbox, { 'content-type': 'application/json' });
  const raw = (more, body = '{}', url = list) =>
    new Promise((resolve) => {
      const request = httpRequest(url, { method: 'POST', agent: false, headers: { ...headers, ...more } }, (response) => {
        const parts = [];
        response.on('data', (part) => parts.push(part));
        response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(parts) }));
      });
      request.end(body);
    });
  const zipped = await raw({ 'accept-encoding': 'gzip' });
  assert.equal(zipped.headers['content-encoding'], 'gzip');
  assert.equal(gunzipSync(zipped.body).toString(), '{}');
  assert.match(JSON.parse((await raw({}, '')).body).message, /zero-length payload/);
  assert.equal((await raw({ 'content-type': 'text/plain' })).status, 415);
  assert.equal((await raw({ 'connect-protocol-version': '2' })).status, 400);
  assert.equal((await raw({}, '{}', `${fake.url}/process.Process/Start`)).status, 415);
  const unknown = await raw({}, '{}', `${fake.url}/process.Process/Nothing`);
  assert.deepEqual([unknown.status, unknown.body.toString()], [404, '404 page not found\n']);
  assert.equal((await raw({}, '{}', `${fake.url}/init`)).status, 404);
});

test('an upgrade reaches a port inside', async (t) => {
  const ready = await started(t);
  const server = `
import socket
s = socket.create_server(('127.0.0.1', 9000))
print('up', flush=True)
c, _ = s.accept()
while b'\\r\\n\\r\\n' not in c.recv(65536): pass
c.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: echo\\r\\nConnection: Upgrade\\r\\n\\r\\n')
c.sendall(c.recv(100).upper())
c.close()`;
  const stream = open(ready, 'process.Process/Start', { process: { cmd: 'python3', args: ['-c', server] }, stdin: false });
  await until('the server', () => stream.text('stdout') === 'up\n');
  const socket = connectTcp(ready.fake.port, '127.0.0.1');
  let seen = '';
  socket.on('data', (data) => {
    if (!seen) socket.write('hello');
    seen += data;
  });
  socket.write(`GET / HTTP/1.1\r\nHost: 9000-${ready.sandbox.sandboxID}.e2b.fake\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n`);
  await new Promise((resolve) => socket.on('close', resolve));
  assert.match(seen, /^HTTP\/1.1 101 [^]*HELLO$/);
});

test('a test can lay out the machine before it boots', async (t) => {
  const ready = await started(t, {
    onCreate: ({ machine }) => {
      writeFileSync(`${machine.root}/home/user/.profile`, 'echo noise\n');
      writeFileSync(`${machine.folder}/etc/profile`, 'PATH=/usr/bin:/bin; export FROM_PROFILE=yes\n');
    },
  });
  const stream = open(ready, 'process.Process/Start', shell('echo $FROM_PROFILE'));
  await stream.ended;
  assert.equal(stream.text('stdout'), 'noise\nyes\n');
});

test('pausing takes a while, and says so', async (t) => {
  let over;
  const pausing = new Promise((resolve) => (over = resolve));
  const { fake, sandbox } = await started(t, { pauseTakes: () => pausing });
  const json = { 'x-api-key': fake.apiKey, 'content-type': 'application/json' };
  const work = fetch(`${fake.url}/sandboxes/${sandbox.sandboxID}/pause`, { method: 'POST', headers: json, body: '{}' });
  await until('it is pausing', () => fake.sandboxes.get(sandbox.sandboxID).state === 'pausing');
  const health = await fetch(`${fake.url}/health`, { headers: headersOf(sandbox) });
  assert.equal(health.status, 409);
  over();
  const back = await fetch(`${fake.url}/v2/sandboxes/${sandbox.sandboxID}/connect`, { method: 'POST', headers: json, body: '{}' });
  assert.deepEqual([(await work).status, back.status], [204, 201]);
});

test('a pause without memory ends the processes', async (t) => {
  const ready = await started(t);
  const { fake, sandbox } = ready;
  const json = { 'x-api-key': fake.apiKey, 'content-type': 'application/json' };
  const stream = open(ready, 'process.Process/Start', shell('echo kept >/home/user/f; sleep 600'));
  await until('the file', async () => (await call(ready, 'filesystem.Filesystem/Stat', { path: 'f' })).status === 200);
  await fetch(`${fake.url}/sandboxes/${sandbox.sandboxID}/pause`, { method: 'POST', headers: json, body: '{"memory":false}' });
  await stream.ended;
  assert.equal(stream.last.error.code, 'unavailable');
  await fetch(`${fake.url}/v2/sandboxes/${sandbox.sandboxID}/connect`, { method: 'POST', headers: json, body: '{}' });
  assert.deepEqual((await call(ready, 'process.Process/List', {})).body, {});
  assert.equal((await call(ready, 'filesystem.Filesystem/Stat', { path: 'f' })).status, 200);
});
