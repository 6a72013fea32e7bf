// A worker that ends while a cloud sandbox has work everywhere: on the network,
// and in the thread pool, whose threads are busy with something else. In a process
// of its own, for Node never frees the promises that a worker left unsettled.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startFake } from '../fakes/e2b.js';
import { childEnv } from '../helpers/child-env.js';

const victim = fileURLToPath(new URL('../helpers/worker-victim.js', import.meta.url));

let fake;
before(async () => {
  fake = await startFake();
});
after(() => fake.close());

for (const how of ['exit', 'terminate']) {
  test(`a worker that ends by ${how}`, async () => {
    const env = childEnv({ PATH: process.env.PATH }, { leaks: false });
    const { stdout } = await promisify(execFile)(process.execPath, [victim, how, fake.url, fake.apiKey], { env });
    assert.equal(stdout, 'over\n');
  });
}
