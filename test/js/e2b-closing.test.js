// The end of a command's input that E2B does not let in: a refusal is told at
// once, and what may go better next time is tried again.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { createSandbox, isSandboxError } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { startFake } from '../fakes/e2b.js';
import { until } from '../helpers/workspace.js';

let fake;
before(async () => (fake = await startFake()));
after(() => fake.close());
afterEach(() => fake.clearFaults());

const provider = () => e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url });
const json = { 'content-type': 'application/json' };
const refuse = (status, body, times = 99) =>
  fake.fault({ match: { rpc: 'CloseStdin' }, times, respond: { status, headers: typeof body === 'string' ? {} : json, body: typeof body === 'string' ? body : JSON.stringify(body) } });

const denials = [
  [401, { code: 'unauthenticated', message: 'no' }, 'authentication', 'start the sandbox again'],
  [403, { code: 'permission_denied', message: 'no' }, 'permission', 'rights'],
  [404, '404 page not found\n', 'unsupported', 'newer template'],
  [501, { code: 'unimplemented', message: 'no' }, 'unsupported', 'newer template'],
];

// The tries that a lost connection is worth take 15 s.
const soon = (began, ms = 5000) => assert.ok(performance.now() - began < ms, `${performance.now() - began} ms`);

async function runRejects(sandbox, command, code, words) {
  await assert.rejects(sandbox.run(command, { stdin: 'abc' }), error => {
    assert.ok(isSandboxError(error, code), `${error.code}: ${error.message}`);
    assert.equal(error.retryable, false);
    assert.ok(error.message.includes(words), error.message);
    return true;
  });
}

for (const [status, body, code, words] of denials) {
  test(`a command whose input cannot be ended, ${status}: ${code} at once, and the command is ended`, async () => {
    const sandbox = await createSandbox({ provider: provider() });
    const denied = refuse(status, body);
    const mark = fake.mark();
    const began = performance.now();
    await runRejects(sandbox, 'echo $$ >pid; cat', code, words);
    soon(began);
    assert.equal(fake.count(mark, { rpc: 'CloseStdin' }), 1);
    assert.equal(fake.count(mark, { rpc: 'Connect' }), 0);
    denied.remove();
    await until(async () => (await sandbox.run('! kill -0 "$(cat pid)"')).exitCode === 0);
    await sandbox.destroy();
  });

  test(`the same in the background, ${status}: its wait is over, and says why`, async () => {
    const sandbox = await createSandbox({ id: `closing-${status}`, provider: provider() });
    const other = await createSandbox({ id: `closing-${status}`, provider: provider() });
    const own = await sandbox.processes.start('cat', { stdin: true });
    const theirs = await other.processes.attach(own.pid);
    const denied = refuse(status, body);
    const mark = fake.mark();
    const began = performance.now();
    for (const child of [theirs, own]) {
      await child.closeStdin();
      const { exitCode, killed, reason } = await child.wait();
      assert.deepEqual([exitCode, killed], [137, true]);
      assert.ok(reason.includes(words), reason);
    }
    soon(began);
    assert.equal(fake.count(mark, { rpc: 'CloseStdin' }), 2);
    denied.remove();
    const again = await sandbox.processes.attach(own.pid); // it still reads
    await again.closeStdin();
    assert.equal((await again.wait()).exitCode, 0);
    await sandbox.destroy();
  });
}

test('a process that the service does not know, and that runs: not found', async () => {
  const sandbox = await createSandbox({ provider: provider() });
  refuse(404, { code: 'not_found', message: 'process with pid 1 not found' });
  const began = performance.now();
  await runRejects(sandbox, 'cat', 'not_found', 'not found');
  soon(began, 12_000);
  await sandbox.destroy();
});

test('a command that ends by itself meanwhile is told as that', async () => {
  const sandbox = await createSandbox({ provider: provider() });
  const gone = refuse(404, { code: 'not_found', message: 'process with pid 1 not found' });
  const result = await sandbox.run('head -n 1; sleep 0.5; echo end', { stdin: 'abc\n' });
  assert.deepEqual([result.exitCode, result.stdout], [0, 'abc\nend\n']);
  assert.equal(gone.used, 1);
  await sandbox.destroy();
});

for (const [status, body] of [[503, 'busy'], [500, { code: 'internal', message: 'no' }]]) {
  test(`what may go better next time is tried again: ${status}`, async () => {
    const sandbox = await createSandbox({ provider: provider() });
    const busy = refuse(status, body, 2);
    assert.equal((await sandbox.run('wc -c', { stdin: 'abc' })).stdout.trim(), '3'); // a new stream has nothing of before
    assert.equal(busy.used, 2);
    const child = await sandbox.processes.start('cat', { stdin: true });
    const again = refuse(status, body, 2);
    await child.write('abc\n');
    await child.closeStdin();
    assert.equal((await child.wait()).stdout, 'abc\n');
    assert.equal(again.used, 2);
    await sandbox.destroy();
  });
}
