// Where E2B cares, our requests are those of the official package: the same calls
// on one fake, what each sent laid side by side.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Sandbox } from 'e2b';
import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { startFake } from '../fakes/e2b.js';

let fake;
let connection;
before(async () => {
  fake = await startFake();
  connection = { apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url };
});
after(() => fake.close());

// what the service reads of a request, without ids and tokens of each sandbox
const cares = ['x-api-key', 'content-type', 'connect-protocol-version', 'keepalive-ping-interval', 'e2b-sandbox-port', 'authorization'];
function essence(request) {
  const { method, path, headers, json, frames } = request;
  const ids = headers['x-access-token'] ? ['x-access-token', 'e2b-sandbox-id'] : [];
  return {
    method,
    path: path.replace(/\/i[a-z0-9]{20}/, '/ID'),
    headers: Object.fromEntries(cares.filter(name => headers[name] !== undefined).map(name => [name, headers[name]])),
    ids,
    body: frames?.[0] ?? json ?? null,
  };
}

/** The requests of `work` that `pick` takes, as their essence. */
async function sent(work, pick) {
  const mark = fake.mark();
  await work();
  return fake.since(mark).filter(pick).map(essence);
}

const path = end => request => request.path.endsWith(end);
const rpc = name => request => request.rpc === name;
const withoutPid = ({ body, ...rest }) => ({ ...rest, body: { ...body, process: { pid: typeof body.process.pid } } });

test('life: create, list, connect, pause, kill', async () => {
  const odd = 'a b&c=\u00fc/%';
  let theirs;
  let ours;
  const provider = () => e2b({ ...connection, timeout: 90_500, metadata: { user: odd } });
  const made = [
    await sent(async () => (theirs = await Sandbox.create({ ...connection, timeoutMs: 90_500, metadata: { user: odd, 'sandbox-sdk-native-id': odd.slice(0, 6) } })), path('/v2/sandboxes')),
    await (async () => {
      await theirs.kill(); // else ours finds it by that id
      return sent(async () => (ours = await createSandbox({ id: odd.slice(0, 6), provider: provider() })), request => path('/v2/sandboxes')(request) && request.method === 'POST');
    })(),
  ];
  assert.deepEqual(made[1], made[0]);

  // both filters find what the other made
  const mark = fake.mark();
  await Sandbox.list({ ...connection, query: { metadata: { 'sandbox-sdk-native-id': odd.slice(0, 6) }, state: ['running', 'paused'] } }).nextItems();
  const official = fake.since(mark)[0].url;
  const filter = url => /metadata=([^&]*)/.exec(url)[1];
  const own = fake.requests.find(request => request.method === 'GET' && path('/v2/sandboxes')(request) && request !== fake.since(mark)[0]).url;
  assert.equal(filter(own), filter(official));

  const paused = [
    await sent(async () => {
      theirs = await Sandbox.create(connection);
      await theirs.pause();
    }, path('/pause')),
    await sent(() => ours.stop(), path('/pause')),
  ];
  assert.deepEqual(paused[1], paused[0]);
  const connected = [
    await sent(() => Sandbox.connect(theirs.sandboxId, { ...connection, timeoutMs: 90_500 }), path('/connect')),
    await sent(async () => (ours = await createSandbox({ id: odd.slice(0, 6), provider: provider() })), path('/connect')),
  ];
  assert.deepEqual(connected[1], connected[0]);
  const killed = [
    await sent(() => theirs.kill(), request => request.method === 'DELETE'),
    await sent(() => ours.destroy(), request => request.method === 'DELETE'),
  ];
  assert.deepEqual(killed[1], killed[0]);
});

test('commands: start, input and its end', async () => {
  const theirs = await Sandbox.create(connection);
  const ours = await createSandbox({ provider: e2b(connection) });
  const [a] = await sent(() => theirs.commands.run('true', { timeoutMs: 0, envs: { A: '1' }, cwd: '/tmp' }), rpc('Start'));
  const b = (await sent(() => ours.run('true', { env: { A: '1' }, cwd: '/tmp' }), rpc('Start'))).at(-1);
  assert.deepEqual(b.headers, a.headers);
  assert.deepEqual(b.ids, a.ids);
  // ours wraps the command; what envd is told about it has the same shape
  assert.equal(b.body.stdin, a.body.stdin);
  assert.equal(b.body.process.envs.A, '1');
  assert.ok(Object.keys(b.body.process).every(key => ['cmd', 'args', 'envs', 'cwd'].includes(key)));

  const input = [
    await sent(async () => {
      const cat = await theirs.commands.run('cat', { background: true, stdin: true });
      await theirs.commands.sendStdin(cat.pid, 'hi\n');
      await theirs.commands.closeStdin(cat.pid);
      await cat.wait();
    }, request => rpc('SendInput')(request) || rpc('CloseStdin')(request)),
    await sent(async () => {
      const cat = await ours.processes.start('cat');
      await cat.write('hi\n');
      await cat.closeStdin();
      assert.equal((await cat.wait()).stdout, 'hi\n');
    }, request => rpc('SendInput')(request) || rpc('CloseStdin')(request)),
  ];
  assert.deepEqual(input[1].map(withoutPid), input[0].map(withoutPid));
  await theirs.kill();
  await ours.destroy();
});

test('files: one that is large', async () => {
  const big = 'x'.repeat(300_000);
  const theirs = await Sandbox.create(connection);
  const ours = await createSandbox({ provider: e2b(connection) });
  const files = request => request.path === '/files';
  const [up] = await sent(() => theirs.files.write('/tmp/x', big, { useOctetStream: true }), files);
  const [ourUp] = await sent(() => ours.files.write('x', big), files);
  assert.deepEqual({ ...ourUp, body: 0 }, { ...up, body: 0 });
  const [down] = await sent(() => theirs.files.read('/tmp/x'), files);
  const [ourDown] = await sent(async () => assert.equal(await ours.files.text('x'), big), files);
  // they allow gzip, which hides the length
  assert.deepEqual({ ...ourDown, headers: 0 }, { ...down, headers: 0 });
  await theirs.kill();
  await ours.destroy();
});
