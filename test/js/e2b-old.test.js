// Old and self-hosted servers: the first version of create, connect and list, and
// an envd of the past.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { startFake } from '../fakes/e2b.js';

for (const options of [
  { api: 'v1', list: 'v1', oldStatus: 405, envdVersion: '0.2.0' },
  { api: 'v1', list: 'v1', oldStatus: 404, envdVersion: '0.3.9' },
  { api: 'v1', list: 'v1', oldStatus: 400, envdVersion: '0.5.1' },
  { api: 'v1', list: 'v2', oldStatus: 405, envdVersion: '0.4.0' },
]) {
  test(`create, find, use: ${JSON.stringify(options)}`, async t => {
    const fake = await startFake(options);
    t.after(() => fake.close());
    const provider = () => e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url });
    const first = await createSandbox({ provider: provider(), id: 'old' });
    const made = fake.requests.find(one => one.method === 'POST' && one.path === '/sandboxes');
    assert.deepEqual([made.json.secure, made.json.timeout], [true, 300]);
    await first.files.write('a', 'text');
    assert.equal(await first.files.text('a'), 'text');
    const big = 'x'.repeat(300_000);
    await first.files.write('big', big);
    assert.equal(await first.files.text('big'), big);
    assert.equal((await first.run('cat; exit 3', { stdin: 'in' })).stdout, 'in');
    const second = await createSandbox({ provider: provider(), id: 'old' });
    assert.equal(second.metadata.sandboxId, first.metadata.sandboxId);
    assert.equal(await second.files.text('a'), 'text');
    assert.equal(fake.sandboxes.size, 1);
    await second.destroy();
  });
}
