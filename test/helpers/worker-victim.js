// Runs a worker that ends in the middle of work on the E2B at `url`:
//   node worker-victim.js exit|terminate URL KEY
import assert from 'node:assert/strict';
import { pbkdf2 } from 'node:crypto';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

const [how, url, apiKey] = process.argv.slice(2);
const exit = how === 'exit';

const script = `
  import { parentPort, workerData } from 'node:worker_threads';
  const { createSandbox } = await import(workerData.index);
  const { e2b } = await import(workerData.e2b);
  const { url, apiKey } = workerData;
  const sandbox = await createSandbox({ provider: e2b({ apiKey, apiUrl: url, sandboxUrl: url }) });
  await sandbox.files.write('a.txt', 'hello');
  const { id } = await sandbox.snapshots.create();
  parentPort.postMessage('ready');
  parentPort.once('message', () => {
    sandbox.snapshots.restore(id).catch(() => {});
    for (let i = 0; i < 8; i++) sandbox.run('sleep 60').catch(() => {});
    for (let i = 0; i < 8; i++) sandbox.files.read('a.txt').catch(() => {});
    parentPort.postMessage('busy');
    if (workerData.exit) process.exit(0);
  });
`;

const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(script)}`), {
  workerData: {
    index: new URL('../../js/index.js', import.meta.url).href,
    e2b: new URL('../../js/e2b.js', import.meta.url).href,
    url,
    apiKey,
    exit,
  },
});
const ended = once(worker, 'exit');
assert.deepEqual(await once(worker, 'message'), ['ready']);
for (let i = 0; i < 4; i++) pbkdf2('a', 'b', 300000, 64, 'sha512', () => {});
const busy = once(worker, 'message');
worker.postMessage('go');
if (!exit) {
  await busy;
  await worker.terminate();
}
const [code] = await ended;
assert.equal(code, exit ? 0 : 1);
await busy.catch(() => {});
console.log('over');
