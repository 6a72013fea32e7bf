// E2B in worker_threads, also one that is terminated in the midst of a command,
// and on the other versions of Node where those are installed.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';

import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { startFake } from '../fakes/e2b.js';
import { until } from '../helpers/workspace.js';

const js = new URL('../../js/', import.meta.url).href;
const smoke = new URL('../examples/smoke.js', import.meta.url);
const nodes = fileURLToPath(new URL('../../.ci/nodes/node_modules/', import.meta.url));
let fake;
let env;
before(async () => {
  fake = await startFake();
  env = { PATH: process.env.PATH, E2B_API_KEY: fake.apiKey, E2B_API_URL: fake.url, E2B_SANDBOX_URL: fake.url };
});
after(() => fake.close());

const living = () => [...fake.sandboxes.values()].filter(one => one.state === 'running');

test('four workers at once, each with an environment of its own', async () => {
  const workers = Array.from({ length: 4 }, () => new Worker(smoke, { env, stdout: true }));
  const codes = await Promise.all(workers.map(async worker => (await once(worker, 'exit'))[0]));
  assert.deepEqual(codes, [0, 0, 0, 0]);
  assert.deepEqual(living(), []);
});

test('a worker that is terminated under a command takes nothing with it', async () => {
  const source = `
    import { createSandbox } from '${js}index.js';
    import { e2b } from '${js}e2b.js';
    const sandbox = await createSandbox({ provider: e2b(), id: 'worker' });
    await sandbox.files.write('a', 'kept');
    await sandbox.run('echo up; sleep 300', { onStdout: () => console.log('up') });
  `;
  for (const transport of ['libcurl', 'host']) {
    const url = new URL(`data:text/javascript,${encodeURIComponent(source)}`);
    const worker = new Worker(url, { env: { ...env, SBX_HTTP_TRANSPORT: transport }, stdout: true });
    await until(() => worker.stdout.read()?.toString().includes('up'));
    await worker.terminate();
    const sandbox = await createSandbox({ provider: e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url }), id: 'worker' });
    assert.equal(await sandbox.files.text('a'), 'kept');
    await sandbox.destroy();
  }
  assert.deepEqual(living(), []);
});

const others = existsSync(nodes) ? readdirSync(nodes).filter(name => existsSync(`${nodes}${name}/bin/node`)) : [];
const unfit =
  (others.length === 0 && '.ci/nodes is not installed: .ci/pack-test runs it there') ||
  (process.env.LD_PRELOAD?.includes('asan') && 'the addon is built for the sanitizer');
test('other versions of Node', { skip: unfit }, async () => {
  for (const name of others) {
    const { stdout } = await promisify(execFile)(`${nodes}${name}/bin/node`, [fileURLToPath(smoke)], { env });
    assert.match(stdout, /e2b ok on Node v/);
  }
});
