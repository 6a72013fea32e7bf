// Attaching to what is not there any more, or never was: not found, however the
// way there went, and nothing passes for a command that ran.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { native } from '../../js/native.js';
import { startFake } from '../fakes/e2b.js';
import { until } from '../helpers/workspace.js';

let fake;
before(async () => (fake = await startFake()));
after(() => fake.close());
afterEach(() => fake.clearFaults());

const options = () => ({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url });
const terminal = { columns: 80, rows: 24 };
const answer = (status, value) => ({ respond: { status, headers: { 'content-type': 'application/json' }, body: JSON.stringify(value) } });
const gone = answer(404, { code: 'not_found', message: 'process with pid 1 not found' });

// As processes.attach() does it after its look at the list.
async function attachTo(pid, spec, faults) {
  const sandbox = native().open('e2b', { ...options(), session: 'none', cwd: '/workspace' });
  await sandbox.create();
  faults.forEach(fault => fake.fault({ times: 1, ...fault }));
  let spawned = 0;
  const { error } = await new Promise(resolve => sandbox.attach(pid, spec, { onSpawn: () => spawned++, onExit: resolve }));
  await sandbox.destroy();
  await sandbox.close();
  return { error, spawned };
}

const ways = [
  ['a background command', {}, []],
  ['a background command, first the stream breaks', {}, [{ match: { rpc: 'Start' }, reset: true }]],
  ['a background command, first the sandbox is busy', {}, [{ match: { rpc: 'Start' }, ...answer(503, {}) }]],
  ['a terminal', terminal, []],
  ['a terminal, told by the status', terminal, [{ match: { rpc: 'Connect' }, ...gone }]],
  ['a terminal, first the stream breaks', terminal, [{ match: { rpc: 'Connect' }, reset: true }]],
  ['a terminal, first the sandbox is busy', terminal, [{ match: { rpc: 'Connect' }, ...answer(503, {}) }]],
];

for (const [what, spec, faults] of ways) {
  test(`${what} that is not there: not found`, async () => {
    const { error, spawned } = await attachTo(29999, spec, faults);
    assert.equal(error.code, 'not_found', error.message);
    assert.equal(error.ran, undefined);
    assert.match(error.message, /no command with pid 29999/);
    assert.equal(spawned, 0);
  });
}

test('a process that is nobody’s command: not found', async () => {
  const { error, spawned } = await attachTo(1, {}, []);
  assert.equal(error.code, 'not_found', error.message);
  assert.equal(spawned, 0);
});

test('a terminal that runs, but that the service has not', async () => {
  const own = await createSandbox({ id: 'has-not', provider: e2b(options()) });
  const other = await createSandbox({ id: 'has-not', provider: e2b(options()) });
  const { pid } = await own.processes.start('cat', { pty: { cols: 80, rows: 24 } });
  await until(async () => (await other.processes.list()).some(one => one.pid === pid));
  fake.fault({ match: { rpc: 'Connect' }, times: 9, ...gone });
  await assert.rejects(other.processes.attach(pid), { code: 'not_found' });
  await own.destroy();
});

test('a command that says nothing is attached to at once; one that has ended tells its end', async () => {
  const own = await createSandbox({ id: 'silent', provider: e2b(options()) });
  const other = await createSandbox({ id: 'silent', provider: e2b(options()) });
  const child = await own.processes.start('cat >/dev/null; exit 3', { stdin: true });
  const attached = await other.processes.attach(child.pid);
  await child.closeStdin();
  assert.equal((await attached.wait()).exitCode, 3);
  const late = await other.processes.attach(child.pid);
  assert.equal((await late.wait()).exitCode, 3);
  await own.destroy();
});
