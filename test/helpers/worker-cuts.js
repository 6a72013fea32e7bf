// Workers that end in the middle of a call of the addon:
//   node worker-cuts.js DIRECTORY
// First at the read of one option, through a getter that whoever lacks it
// inherits; then at any moment, from outside. Prints "over".
import assert from 'node:assert/strict';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { local } from 'sandbox-sdk-native/local';

const CODE = 7;
const MOMENTS = 12;

function verbsOf(sandbox) {
  return {
    write: name => sandbox.files.write(name, 'new'),
    read: name => sandbox.files.text(name),
    list: () => sandbox.files.list('.', { recursive: true }),
    run: () => sandbox.run('echo ran >ran.txt'),
    start: () => sandbox.processes.start('echo ran >ran.txt', { onStdout() {} }),
  };
}

// Node's own HTTP reads the certificates when it is set up.
async function speak() {
  fs.readFileSync = () => process.exit(CODE);
  await createSandbox({ provider: e2b({ apiKey: 'e2b_0123', apiUrl: 'https://127.0.0.1:9' }) });
}

async function work({ directory, option, verb }) {
  if (verb === 'speak') return speak();
  const sandbox = await createSandbox({ provider: local({ directory }) });
  const verbs = verbsOf(sandbox);
  await sandbox.run('true');
  if (option) {
    Object.defineProperty(Object.prototype, option, { get: () => process.exit(CODE) });
    await verbs[verb]('kept.txt');
    return; // without an end in between: the assertion tells
  }
  parentPort.postMessage('busy');
  for (;;) {
    const calls = Object.values(verbs).map(call => call('other.txt'));
    Promise.allSettled(calls);
    await new Promise(setImmediate);
  }
}

const begin = data => new Worker(fileURLToPath(import.meta.url), { workerData: data, env: { PATH: process.env.PATH } });

async function cutAt(directory, verb, option) {
  const [code] = await once(begin({ directory, verb, option }), 'exit');
  const what = `${verb} without its "${option}"`;
  assert.equal(code, CODE, what);
  assert.equal(fs.readFileSync(path.join(directory, 'kept.txt'), 'utf8'), 'old', what);
  assert.deepEqual(fs.readdirSync(directory), ['kept.txt'], what);
}

async function cutAfter(directory, ms) {
  const worker = begin({ directory });
  await once(worker, 'message');
  await sleep(ms);
  await worker.terminate();
}

async function main(directory) {
  fs.writeFileSync(path.join(directory, 'kept.txt'), 'old');
  for (const option of ['maxDepth', 'text', 'extensions', 'prune', 'to']) await cutAt(directory, 'write', option);
  await cutAt(directory, 'read', 'expectedMtime');
  await cutAt(directory, 'list', 'prune');
  for (const option of ['grace', 'collect']) await cutAt(directory, 'start', option);
  await cutAt(directory, 'run', 'grace');
  Object.assign(process.env, { SBX_HTTP_TRANSPORT: 'host', SSL_CERT_FILE: path.join(directory, 'kept.txt') });
  await cutAt(directory, 'speak', 'certificates');
  for (let i = 0; i < MOMENTS; i++) await cutAfter(directory, 1 + 3 * i);
  console.log('over');
}

await (isMainThread ? main(process.argv[2]) : work(workerData));
