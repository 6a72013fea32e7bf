// The life of sandboxes at a service, against the fake: found, made once, shared,
// stopped, expired, told about.
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { after, before, test } from 'node:test';

import { createSandbox, withSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { createMastraSandbox, createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { startFake } from '../fakes/e2b.js';
import { until } from '../helpers/workspace.js';

let fake;
before(async () => (fake = await startFake()));
after(() => fake.close());

const provider = options => e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url, ...options });
const idOf = sandbox => sandbox.metadata.sandboxId;
const running = () => [...fake.sandboxes.values()].filter(one => one.state === 'running').map(one => one.id);
const isCreate = { method: 'POST', path: '/v2/sandboxes' };
const creates = mark => fake.since(mark).filter(one => one.method === 'POST' && one.path === '/v2/sandboxes').length;

test('a sandbox is made, used and removed', async () => {
  const sandbox = await createSandbox({ provider: provider() });
  assert.deepEqual(running(), [idOf(sandbox)]);
  assert.equal((await sandbox.run('pwd')).stdout, '/workspace\n');
  await sandbox.destroy();
  assert.deepEqual(running(), []);
});

test('a create whose answer was lost is looked up: one sandbox, and no second create', async () => {
  const mark = fake.mark();
  const fault = fake.fault({ match: isCreate, times: 1, loseAnswer: true });
  const sandbox = await createSandbox({ provider: provider() });
  fault.remove();
  assert.equal(creates(mark), 1);
  assert.deepEqual(running(), [idOf(sandbox)]);
  assert.equal((await sandbox.run('echo ok')).stdout, 'ok\n');
  await sandbox.destroy();
  assert.deepEqual(running(), []);
});

test('a create that never arrived fails, and is told as retryable', async () => {
  const mark = fake.mark();
  const fault = fake.fault({ match: isCreate, times: 10, reset: true });
  await assert.rejects(createSandbox({ provider: provider() }), { code: 'unavailable' });
  fault.remove();
  assert.equal(creates(mark), 1);
  assert.deepEqual(running(), []);
});

test('a refused create is told at once', async () => {
  for (const [apiKey, code] of [['e2b_wrong', 'authentication'], ['', 'authentication']]) {
    await assert.rejects(async () => createSandbox({ provider: provider({ apiKey }) }), { code });
  }
  assert.deepEqual(running(), []);
});

test('two hosts with one id end with one sandbox', async () => {
  const all = await Promise.all(Array.from({ length: 3 }, () => createSandbox({ provider: provider(), id: 'shared' })));
  assert.equal(new Set(all.map(idOf)).size, 1);
  assert.deepEqual(running(), [idOf(all[0])]);
  await all[0].files.write('note.txt', 'from one');
  assert.equal(await all[1].files.text('note.txt'), 'from one');
  await all[0].destroy();
  assert.deepEqual(running(), []);
});

test('a later host finds it by its id, and its time is applied again', async () => {
  const first = await createSandbox({ provider: provider({ timeout: 1_800_000 }), id: 'later' });
  await first.files.write('kept.txt', 'kept');
  const mark = fake.mark();
  const second = createMastraSandbox({ provider: provider({ timeout: 1_800_000 }), id: 'later' });
  assert.deepEqual(await second.start(), { outcome: 'connected' });
  const connect = fake.since(mark).find(one => one.path.endsWith('/connect'));
  assert.equal(connect.json.timeout, 1800);
  assert.equal((await second.executeCommand('cat kept.txt')).stdout, 'kept');
  await second._destroy();
});

test('stop pauses with an empty process table, start goes on with the files', async () => {
  const sandbox = createMastraSandbox({ provider: provider(), id: 'paused' });
  await sandbox.start();
  await sandbox.executeCommand('echo kept > file');
  const handle = await sandbox.processes.spawn('sleep 1000');
  const { sandboxId } = sandbox.getInfo().metadata;
  await sandbox._stop();
  assert.equal((await handle.wait()).killed, true);
  assert.equal(fake.sandboxes.get(sandboxId).state, 'paused');
  assert.deepEqual(await sandbox.start(), { outcome: 'connected' });
  assert.equal((await sandbox.executeCommand('cat file; ps -eo args | grep -x "sleep 1000"')).stdout, 'kept\n');
  assert.deepEqual(await sandbox.processes.list(), []);
  await sandbox._destroy();
  assert.equal(fake.sandboxes.get(sandboxId)?.state ?? 'gone', 'gone');
});

test('one that is removed elsewhere while it is stopped is made anew', async () => {
  const sandbox = createMastraSandbox({ provider: provider(), id: 'removed' });
  await sandbox.start();
  await sandbox._stop();
  await fake.expire(sandbox.getInfo().metadata.sandboxId);
  await fetch(`${fake.url}/sandboxes/${sandbox.getInfo().metadata.sandboxId}`, { method: 'DELETE', headers: { 'x-api-key': fake.apiKey } });
  assert.deepEqual(await sandbox.start(), { outcome: 'created' });
  await sandbox._destroy();
});

test('one that expired between two commands is made again by the next, which runs once', async () => {
  const sandbox = createMastraSandbox({ provider: provider() });
  await sandbox.start();
  const old = sandbox.getInfo().metadata.sandboxId;
  await fake.expire(old);
  assert.equal((await sandbox.executeCommand('echo once >> log; cat log')).stdout, 'once\n');
  assert.notEqual(sandbox.getInfo().metadata.sandboxId, old);
  assert.equal(sandbox.status, 'running');
  await sandbox._destroy();
});

test('one that ends in the midst of a command: an error that says so, with the output so far', async () => {
  const sandbox = createMastraSandbox({ provider: provider() });
  await sandbox.start();
  const mark = fake.mark();
  const seen = [];
  const running = sandbox.executeCommand('echo before; sleep 600', [], { onStdout: text => seen.push(text) });
  await until(() => seen.length > 0);
  await fake.expire(sandbox.getInfo().metadata.sandboxId);
  await assert.rejects(running, error => {
    assert.match(error.message, /has ended/);
    assert.doesNotMatch(error.message, /<html/i);
    assert.equal(error.stdout, 'before\n');
    return true;
  });
  assert.equal(fake.since(mark).filter(one => one.rpc === 'Start').length, 1);
  assert.notEqual(sandbox.status, 'running');
  assert.equal((await sandbox.executeCommand('echo again')).stdout, 'again\n');
  await sandbox._destroy();
});

test('withSandbox removes what it made, and stops what has an id', async () => {
  const used = await withSandbox({ provider: provider() }, async sandbox => idOf(sandbox));
  assert.equal(fake.sandboxes.get(used)?.state ?? 'gone', 'gone');
  const shared = provider();
  const kept = await withSandbox({ provider: shared, id: 'kept' }, async sandbox => idOf(sandbox));
  assert.equal(fake.sandboxes.get(kept).state, 'paused');
  await withSandbox({ provider: shared, id: 'kept' }, async sandbox => {
    assert.equal(idOf(sandbox), kept);
    await sandbox.destroy();
  });
});

test('use extends the time, idleness does not', async () => {
  const sandbox = await createSandbox({ provider: provider({ timeout: 6000 }) });
  const touches = () => fake.requests.filter(one => one.path.endsWith('/refreshes') && one.sandboxID === idOf(sandbox)).length;
  await until(async () => {
    await sandbox.run('true').catch(() => {});
    return touches() > 0;
  });
  await sandbox.destroy();
});

test('pause and resume: what runs stands still and goes on', async () => {
  const sandbox = await createSandbox({ provider: provider() });
  const child = await sandbox.processes.start('i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo $i; sleep 0.1; done; exit 6', { timeout: 60_000 });
  await until(() => child.stdout.includes('3\n'));
  await sandbox.pause();
  assert.equal(fake.sandboxes.get(idOf(sandbox)).state, 'paused');
  await assert.rejects(sandbox.run('true'), { code: 'conflict', message: /paused/ });
  await sandbox.pause();
  await sandbox.resume();
  const result = await child.wait();
  assert.equal(result.exitCode, 6);
  assert.equal(result.stdout, Array.from({ length: 30 }, (_, i) => `${i + 1}\n`).join(''));
  await sandbox.pause();
  await sandbox.destroy();
});

test('ports: the service’s URL, with the token that it wants', async () => {
  const sandbox = await createSandbox({ provider: provider({ network: { allowPublicTraffic: false } }), ports: [3000] });
  const { url } = await sandbox.ports.expose(3000);
  assert.equal(url, `https://3000-${idOf(sandbox)}.e2b.app`);
  await assert.rejects(sandbox.ports.expose(9999), { code: 'invalid_input' });
  await sandbox.destroy();
  const workspace = createMastraWorkspace({ provider: provider(), ports: [8080] });
  await workspace.init();
  const id = workspace.sandbox.getInfo().metadata.sandboxId;
  assert.equal(await workspace.sandbox.getPortUrl(8080), `https://8080-${id}.e2b.app`);
  assert.equal(await workspace.sandbox.getPortUrl(8080, 'ws'), `wss://8080-${id}.e2b.app`);
  assert.equal(await workspace.sandbox.networking.getPortUrl(9999), null);
  await workspace.destroy();
});

test('snapshots: the workspace as it was', async () => {
  const sandbox = await createSandbox({ provider: provider() });
  await sandbox.files.write('a/b.txt', 'one');
  await sandbox.run('ln -s b.txt a/link; chmod 750 a; head -c 300000 /dev/urandom > big; cksum big > sum');
  const made = await sandbox.snapshots.create('first');
  await sandbox.files.write('a/b.txt', 'two');
  await sandbox.files.write('new.txt', 'new');
  await sandbox.snapshots.restore(made.id);
  const { stdout } = await sandbox.run('cat a/link; stat -c %a a; ls -A; cksum big | diff - sum');
  assert.equal(stdout, 'one750\na\nbig\nsum\n');
  assert.deepEqual((await sandbox.snapshots.list()).map(one => one.name), ['first']);
  await sandbox.snapshots.delete(made.id);
  await assert.rejects(sandbox.snapshots.restore(made.id), { code: 'not_found' });
  await sandbox.destroy();
});

test('identity: the hook runs once, later sandboxes get its files', async () => {
  const shared = provider();
  let runs = 0;
  const make = () =>
    createSandbox({
      provider: shared,
      identity: 'repo',
      onFirstCreate: async sandbox => {
        runs++;
        await sandbox.files.write('src/index.js', 'made');
      },
    });
  const first = await make();
  const mark = fake.mark();
  const second = await make();
  assert.equal(runs, 1);
  assert.equal(await second.files.text('src/index.js'), 'made');
  // Create with its folder, what prepares it, the unpacking, the read.
  assert.equal(fake.count(mark), 5);
  await Promise.all([first.destroy(), second.destroy()]);
});

test('the network policy can be changed while it runs', async () => {
  const sandbox = await createSandbox({ provider: provider() });
  await sandbox.setNetworkPolicy(['example.com']);
  const { network } = fake.sandboxes.get(idOf(sandbox));
  assert.deepEqual(network.allowOut, ['example.com']);
  await assert.rejects(sandbox.setNetworkPolicy(['not a host']), { code: 'invalid_input' });
  await sandbox.destroy();
});

test('the key is nowhere to be seen', async () => {
  const made = provider();
  const sandbox = await createSandbox({ provider: made });
  const { token } = fake.sandboxes.get(idOf(sandbox));
  const fault = fake.fault({ match: { rpc: 'Start' }, times: 1, respond: { status: 401, body: `{"code":401,"message":"bad ${token} ${fake.apiKey}"}`, headers: { 'content-type': 'application/json' } } });
  const error = await sandbox.run('true').then(() => assert.fail('it ran'), one => one);
  fault.remove();
  const texts = [inspect(made, { depth: 9, showHidden: true }), inspect(sandbox, { depth: 9 }), JSON.stringify(sandbox.metadata), inspect(error, { depth: 9 })];
  for (const secret of [fake.apiKey, token]) for (const text of texts.slice(1)) assert.ok(!text.includes(secret), text);
  assert.ok(!inspect(made, { depth: 9 }).includes(fake.apiKey));
  await sandbox.destroy();
});

test('Mastra’s writes may wait two minutes for a sandbox', () => {
  assert.equal(createMastraWorkspace({ provider: provider() }).getToolsConfig?.()?.writeLockTimeoutMs ?? 120_000, 120_000);
});

test('templateMode "snapshot": sessions start from the machine as the service keeps it, until close()', async () => {
  const shared = provider({ templateMode: 'snapshot' });
  let runs = 0;
  const make = () =>
    createSandbox({
      provider: shared,
      identity: 'machine',
      onFirstCreate: async sandbox => {
        runs++;
        await sandbox.files.write('src/index.js', 'made');
        await sandbox.run('echo outside > ~/outside; mkdir -p ~/.cache');
      },
    });
  const [first, second] = await Promise.all([make(), make()]);
  const mark = fake.mark();
  const third = await make();
  assert.equal(runs, 1);
  for (const sandbox of [first, second, third]) {
    assert.equal((await sandbox.run('cat src/index.js ~/outside')).stdout, 'madeoutside\n');
  }
  const made = fake.since(mark).filter(one => one.method === 'POST' && one.path === '/v2/sandboxes');
  assert.equal(made.length, 1);
  assert.match(made[0].json.templateID, /:default$/);
  assert.equal(third.metadata.template, made[0].json.templateID);
  await third.files.write('src/index.js', 'changed');
  assert.equal(await second.files.text('src/index.js'), 'made');
  // One that is in use cannot be deleted, and the error says so; later it can.
  const deletes = () => fake.requests.filter(one => one.method === 'DELETE' && one.path.startsWith('/templates/')).map(one => one.status);
  await assert.rejects(shared.close(), { code: 'invalid_input', message: /using it/ });
  await Promise.all([first, second, third].map(one => one.destroy()));
  await shared.close();
  assert.equal(deletes().at(-1), 204);
  await shared.close();
  assert.equal(fake.store.snapshots().length, 0);
  const fresh = await make();
  assert.equal(runs, 2);
  await fresh.destroy();
  await shared.close();
  assert.throws(() => e2b({ templateMode: 'copy' }), { code: 'invalid_input', message: /templateMode/ });
});

test('templateMode "snapshot": one that somebody deleted is told, and made again after close()', async () => {
  const shared = provider({ templateMode: 'snapshot' });
  let runs = 0;
  const make = () => createSandbox({ provider: shared, identity: 'deleted', onFirstCreate: () => void runs++ });
  await (await make()).destroy();
  const id = fake.store.snapshots()[0].id;
  fake.store.deleteTemplate(fake.store.findTemplate(id));
  await assert.rejects(make(), { code: 'not_found', retryable: false, message: /The snapshot "[^"]+:default" .*close\(\) of the provider/ });
  await shared.close();
  await (await make()).destroy();
  assert.equal(runs, 2);
  await shared.close();
});

test('templateMode "snapshot": a snapshot that fails is told, and the next start tries again', async () => {
  const shared = provider({ templateMode: 'snapshot' });
  const make = () => createSandbox({ provider: shared, identity: 'fails', onFirstCreate: sandbox => sandbox.files.write('a', 'a') });
  const fault = fake.fault({ match: { method: 'POST', path: /\/snapshots$/ }, times: 9, respond: { status: 503, body: '{"code":503,"message":"node busy"}' } });
  await assert.rejects(make(), { code: 'unavailable' });
  fault.remove();
  const sandbox = await make();
  assert.equal(await sandbox.files.text('a'), 'a');
  await sandbox.destroy();
  await shared.close();
});
