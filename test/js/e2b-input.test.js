// Input that E2B does not let in: whose fault it is, and what is to do. Only a
// command that reads no more is told as one.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { createSandbox, isSandboxError } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { createMastraSandbox } from 'sandbox-sdk-native/mastra';
import { native } from '../../js/native.js';
import { startFake } from '../fakes/e2b.js';
import { until } from '../helpers/workspace.js';

let fake;
before(async () => (fake = await startFake()));
after(() => fake.close());
afterEach(() => fake.clearFaults());

const provider = () => e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url });
const refuse = (rpc, status, code) =>
  fake.fault({ match: { rpc }, times: 99, respond: { status, headers: { 'content-type': 'application/json' }, body: JSON.stringify({ code, message: 'no' }) } });

const denials = [
  [401, 'unauthenticated', 'authentication', 'start the sandbox again'],
  [403, 'permission_denied', 'permission', 'rights'],
];

async function rejects(promise, code, words) {
  await assert.rejects(promise, error => {
    assert.ok(isSandboxError(error, code), `${error.code}: ${error.message}`);
    assert.equal(error.retryable, false);
    assert.ok(error.message.includes(words), error.message);
    return true;
  });
}

for (const [status, rpcCode, code, words] of denials) {
  test(`input that is answered ${status}: ${code}, and the command still reads`, async () => {
    const sandbox = await createSandbox({ provider: provider() });
    const child = await sandbox.processes.start('cat', { stdin: true });
    const denied = refuse('SendInput', status, rpcCode);
    const long = 'x'.repeat(100_000); // in pieces
    await Promise.all([long, 'b\n', 'c\n'].map(text => rejects(child.write(text), code, words)));
    await rejects(sandbox.run('cat', { stdin: 'abc' }), code, words);
    denied.remove();
    await child.write('d\n');
    await until(() => child.stdout === 'd\n');
    await child.closeStdin();
    assert.equal((await child.wait()).stdout, 'd\n');
    await sandbox.destroy();
  });

  test(`input to a command of another host that is answered ${status}: ${code}`, async () => {
    const sandbox = await createSandbox({ id: `shared-${status}`, provider: provider() });
    const other = await createSandbox({ id: `shared-${status}`, provider: provider() });
    const { pid } = await sandbox.processes.start('cat', { stdin: true });
    const child = await other.processes.attach(pid);
    const denied = refuse('SendInput', status, rpcCode);
    for (const text of ['a\n', 'b\n']) await rejects(child.write(text), code, words);
    denied.remove();
    await child.write('c\n');
    await until(() => child.stdout === 'c\n');
    await sandbox.destroy();
  });

  test(`a terminal that is answered ${status} when it is attached to: ${code}`, async () => {
    const sandbox = await createSandbox({ id: `terminal-${status}`, provider: provider() });
    const other = await createSandbox({ id: `terminal-${status}`, provider: provider() });
    const { pid } = await sandbox.processes.start('cat', { pty: { cols: 80, rows: 24 } });
    await until(async () => (await other.processes.list()).some(one => one.pid === pid));
    refuse('Connect', status, rpcCode);
    const mark = fake.mark();
    await assert.rejects(other.processes.attach(pid), { code });
    assert.equal(fake.count(mark, { rpc: 'Connect' }), 1);
    await sandbox.destroy();
  });
}

test('the agent’s handle tells the same', async () => {
  const sandbox = createMastraSandbox({ provider: provider() });
  await sandbox.start();
  const handle = await sandbox.processes.spawn('cat');
  refuse('SendInput', 401, 'unauthenticated');
  await assert.rejects(handle.sendStdin('a\n'), error => error.code === 'authentication' && error.message.includes('start the sandbox again'));
  await sandbox._destroy();
});

test('input to a process that the service does not know', async () => {
  const sandbox = await createSandbox({ id: 'unknown', provider: provider() });
  const other = await createSandbox({ id: 'unknown', provider: provider() });
  const { pid } = await sandbox.processes.start('cat', { stdin: true });
  const child = await other.processes.attach(pid);
  const gone = refuse('SendInput', 404, 'not_found');
  await Promise.all(['a\n', 'b\n'].map(text => rejects(child.write(text), 'not_found', 'no such process')));
  gone.remove();
  await rejects(child.write('c\n'), 'not_found', 'no such process');
  await sandbox.destroy();
});

test('a terminal that was never there: attaching and its input are not found', async () => {
  const sandbox = native().open('e2b', { apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url, session: 'none', cwd: '/workspace' });
  await sandbox.create();
  let spawned = 0;
  let written;
  const { error } = await new Promise(resolve => {
    const child = sandbox.attach(29999, { columns: 80, rows: 24 }, { onSpawn: () => spawned++, onExit: resolve });
    written = assert.rejects(child.write('x'), { code: 'not_found', retryable: false });
  });
  await written;
  assert.equal(error.code, 'not_found');
  assert.equal(error.ran, undefined);
  assert.match(error.message, /no command with pid 29999/);
  assert.equal(spawned, 0);
  await sandbox.destroy();
  await sandbox.close();
});
