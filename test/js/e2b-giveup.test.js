// Calls that are given up while the service says nothing: they settle soon, and
// what comes into being all the same is ended.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { startFake } from '../fakes/e2b.js';
import { until } from '../helpers/workspace.js';

let fake;
let sandbox;
before(async () => {
  fake = await startFake();
  sandbox = await createSandbox({ provider: e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url }) });
});
after(async () => {
  await sandbox.destroy();
  await fake.close();
});

const silent = { respond: { status: 200, headers: { 'content-type': 'application/connect+json', 'content-length': 100 }, body: '' } };

for (const [name, fault] of [['no answer', { hang: true }], ['a head and nothing more', silent]]) {
  test(`${name} to a start: an abort and a time limit settle it`, async () => {
    const set = fake.fault({ match: { rpc: 'Start', when: one => /NOBODY/.test(one.body) }, times: 9, ...fault });
    const controller = new AbortController();
    const running = sandbox.run('echo NOBODY', { signal: controller.signal });
    const starting = sandbox.processes.start('echo NOBODY', { signal: controller.signal });
    await until(() => set.used === 2);
    controller.abort();
    const result = await running;
    assert.deepEqual([result.exitCode, result.killed, result.stdout], [137, true, '']);
    const child = await starting.catch(error => error);
    if (!(child instanceof Error)) assert.equal((await child.wait()).killed, true);
    const limited = await sandbox.run('echo NOBODY', { timeout: 100 });
    assert.deepEqual([limited.exitCode, limited.timedOut, limited.killed], [124, true, true]);
    set.remove();
  });
}

test('a start that is answered after its abort is ended', async () => {
  const late = fake.fault({ match: { rpc: 'Start', when: one => /NOBODY/.test(one.body) }, times: 1, delay: 1500 });
  const controller = new AbortController();
  const running = sandbox.run(': NOBODY; echo x >> began; sleep 600; echo x >> ended', { signal: controller.signal });
  await until(() => late.used === 1);
  controller.abort();
  assert.equal((await running).killed, true);
  await until(async () => (await sandbox.run('cat began 2>/dev/null')).stdout === 'x\n');
  await until(async () => (await sandbox.run('pgrep -x sleep')).stdout === '');
  assert.equal((await sandbox.run('cat ended 2>/dev/null')).stdout, '');
});
