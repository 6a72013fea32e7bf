// files.watch() on E2B against the fake, and where it is not there.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { createSandbox, supports } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { local } from 'sandbox-sdk-native/local';
import { startFake } from '../fakes/e2b.js';
import { until } from '../helpers/workspace.js';

let fake;
before(async () => (fake = await startFake()));
after(() => fake.close());
afterEach(() => fake.clearFaults());

const provider = options => e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url, ...options });

async function use(t, options, more) {
  const sandbox = await createSandbox({ provider: provider(options), ...more });
  t.after(() => sandbox.destroy());
  return sandbox;
}

const watches = { rpc: 'WatchDir' };

/** One message of Connect's streams. */
function frame(flags, value) {
  const text = Buffer.from(JSON.stringify(value));
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(text.length, 1);
  return Buffer.concat([head, text]);
}

const has = (events, type, name) => events.some(one => one.type === type && one.name === name);

/** A watch whose events and end are kept. */
async function keep(sandbox, path, options) {
  const events = [];
  const ends = [];
  const watch = await sandbox.files.watch(path, event => events.push(event), {
    ...options,
    onExit: error => ends.push(error),
  });
  return { watch, events, ends };
}

test('what happens in a folder is told, until stop', async t => {
  const sandbox = await use(t);
  assert.ok(supports(sandbox, 'watch'));
  await sandbox.files.mkdir('src/below');
  const { watch, events, ends } = await keep(sandbox, 'src');
  await sandbox.run('echo 1 >src/a; mv src/a src/b; chmod 600 src/b; rm src/b; echo 2 >src/below/c; mkdir src/last');
  await until(() => has(events, 'create', 'last'));
  for (const [type, name] of [['create', 'a'], ['write', 'a'], ['rename', 'a'], ['create', 'b'], ['chmod', 'b'], ['remove', 'b']]) {
    assert.ok(has(events, type, name), `${type} ${name}: ${JSON.stringify(events)}`);
  }
  assert.equal(events.find(one => one.name === 'a').path, 'src/a');
  assert.ok(!events.some(one => one.name.startsWith('below/')));
  await watch.stop();
  await watch.stop();
  assert.deepEqual(ends, [undefined]);
  const { length } = events;
  await sandbox.run('echo 3 >src/d; sleep 0.2');
  assert.equal(events.length, length);
});

test('recursive, by an absolute path, with an event that throws', async t => {
  const sandbox = await use(t);
  await sandbox.files.mkdir('deep/er');
  const events = [];
  let first = true;
  const warned = [];
  const warning = one => warned.push(one.message);
  process.on('warning', warning);
  t.after(() => process.off('warning', warning));
  const watch = await sandbox.files.watch(
    '/workspace/deep',
    event => {
      events.push(event);
      if (first) throw new Error('of the user', (first = false));
    },
    { recursive: true },
  );
  await sandbox.files.write('deep/er/x', '1');
  await until(() => events.some(one => one.name === 'er/x' && one.type === 'create'));
  assert.equal(events.find(one => one.name === 'er/x').path, '/workspace/deep/er/x');
  await until(() => warned.length > 0);
  assert.match(warned[0], /of the user/);
  await watch.stop();
});

test('a signal ends it, before it began and after', async t => {
  const sandbox = await use(t);
  const never = AbortSignal.abort(new Error('no'));
  await assert.rejects(sandbox.files.watch('.', () => {}, { signal: never }), { code: 'aborted' });
  const early = new AbortController();
  const begun = sandbox.files.watch('.', () => {}, { signal: early.signal });
  early.abort();
  await assert.rejects(begun, { code: 'aborted' });
  const later = new AbortController();
  const { ends } = await keep(sandbox, '.', { signal: later.signal });
  later.abort();
  assert.deepEqual(ends, [undefined]);
});

test('what is missing, no folder, or no argument is an error', async t => {
  const sandbox = await use(t);
  await sandbox.files.write('file', '1');
  const nothing = () => {};
  await assert.rejects(sandbox.files.watch('missing', nothing), { code: 'not_found', operation: 'files.watch' });
  await assert.rejects(sandbox.files.watch('file', nothing), { code: 'invalid_input' });
  await assert.rejects(sandbox.files.watch('../out', nothing), { code: 'permission' });
  await assert.rejects(sandbox.files.watch('.', undefined), /onEvent must be a function/);
  await assert.rejects(sandbox.files.watch('.', nothing, { recursive: 1 }), /recursive/);
  await assert.rejects(sandbox.files.watch('.', nothing, { depth: 1 }), /depth/);
  await assert.rejects(sandbox.files.watch('', nothing), /path/);
});

test('a cut connection is told, and the sandbox goes on', async t => {
  const sandbox = await use(t);
  fake.fault({ match: watches, cutAfter: 120 });
  const { ends } = await keep(sandbox, '.');
  await sandbox.run('for i in 1 2 3 4 5 6 7 8 9; do echo $i >f$i; done');
  await until(() => ends.length > 0);
  assert.equal(ends[0].code, 'unavailable');
  assert.ok(ends[0].retryable);
  const { watch, events } = await keep(sandbox, '.');
  await sandbox.run('echo 1 >again');
  await until(() => has(events, 'create', 'again'));
  await watch.stop();
});

test('stop, pause and the death of the sandbox end it', async t => {
  const sandbox = await use(t, {}, { id: 'watch-end' });
  const paused = await keep(sandbox, '.');
  await sandbox.pause();
  await until(() => paused.ends.length > 0);
  assert.equal(paused.ends[0].code, 'aborted');
  assert.match(paused.ends[0].message, /watch again after resume/);
  await sandbox.resume();
  const killed = await keep(sandbox, '.');
  await fake.expire(sandbox.metadata.sandboxId);
  await until(() => killed.ends.length > 0);
  assert.equal(killed.ends[0].code, 'unavailable');
  const stopped = await keep(sandbox, '.'); // in a new one
  await sandbox.stop();
  assert.equal(stopped.ends[0].code, 'aborted');
});

test('one that has not begun when its object is stopped, and another goes on, is aborted', async t => {
  const shared = provider();
  const make = () => createSandbox({ provider: shared, id: 'watch-shared' });
  const [one, other] = [await make(), await make()];
  t.after(() => other.destroy());
  const hang = fake.fault({ match: watches, hang: true });
  const ended = assert.rejects(one.files.watch('.', () => {}), { code: 'aborted', operation: 'files.watch' });
  await one.stop();
  await ended;
  hang.remove(); // its request need not have come so far
  const { ends, watch } = await keep(other, '.');
  await watch.stop();
  assert.deepEqual(ends, [undefined]);
});

// Real services may keep a paused sandbox's connections.
test('a pause ends it, also where its stream stays open', async t => {
  const sandbox = await use(t);
  const kept = await keep(sandbox, '.');
  const { streams } = fake.sandboxes.get(sandbox.metadata.sandboxId);
  const held = [...streams];
  streams.clear();
  t.after(() => held.forEach(one => one.answer.destroy?.()));
  await sandbox.pause();
  assert.deepEqual(kept.ends.map(one => one.code), ['aborted']);
  assert.match(kept.ends[0].message, /watch again after resume/);
  await sandbox.resume();
});

test('names that leave the folder are not told', async t => {
  const sandbox = await use(t);
  const messages = [
    { start: {} },
    { filesystem: { name: '../../etc/passwd', type: 'EVENT_TYPE_WRITE' } },
    { filesystem: { name: '/etc/passwd', type: 'EVENT_TYPE_WRITE' } },
    { filesystem: { name: 'a', type: 'EVENT_TYPE_LATER' } },
    { filesystem: { name: 'b', type: 'EVENT_TYPE_WRITE', size: '7' } },
  ];
  const body = Buffer.concat([...messages.map(one => frame(0, one)), frame(2, {})]);
  const headers = { 'content-type': 'application/connect+json' };
  fake.fault({ match: watches, respond: { status: 200, headers, body } });
  const { events, ends } = await keep(sandbox, '.');
  await until(() => ends.length > 0);
  assert.deepEqual(events, [{ type: 'write', name: 'b', path: 'b' }]);
});

test('old envd: not recursively', async t => {
  const old = await startFake({ envdVersion: '0.1.1' });
  t.after(() => old.close());
  const sandbox = await createSandbox({ provider: e2b({ apiKey: old.apiKey, apiUrl: old.url, sandboxUrl: old.url }) });
  await assert.rejects(sandbox.files.watch('.', () => {}, { recursive: true }), { code: 'unsupported' });
  await sandbox.destroy();
});

test('Local says that it cannot, and what can', async t => {
  const sandbox = await createSandbox({ provider: local() });
  t.after(() => sandbox.destroy());
  assert.ok(!supports(sandbox, 'watch'));
  await assert.rejects(sandbox.files.watch('.', () => {}), error => error.code === 'unsupported' && /fs\.watch/.test(error.message));
});
