// Every answer of the service, cut after any byte: the call settles, with the
// truth or with an error that says so; no sandbox is made twice or left, no
// command runs twice.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { createSandbox, isSandboxError } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { startFake } from '../fakes/e2b.js';
import { startRelay } from '../fakes/relay.js';

// All of them: SBX_CUTS=1. It takes minutes.
const step = Number(process.env.SBX_CUTS ?? 41);
const codes = new Set(['unavailable', 'provider_error', 'timeout']);

let fake;
let relay;
before(async () => {
  fake = await startFake();
  relay = await startRelay(fake.port);
});
after(async () => {
  await relay.close();
  await fake.close();
});

const provider = options => e2b({ apiKey: fake.apiKey, apiUrl: relay.url, sandboxUrl: relay.url, requestTimeout: 5000, ...options });
const creates = mark => fake.count(mark, { method: 'POST', path: '/v2/sandboxes' });
const alive = () => [...fake.sandboxes.values()].filter(one => one.state !== 'killed');

/** Calls `work` for each cut of the answer to `pattern`. */
async function eachCut(pattern, work) {
  const whole = relay.cut(pattern, Infinity);
  await work();
  assert.ok(whole.bytes > 0);
  for (let at = 0; at < whole.bytes; at += step) {
    const how = at % 2 ? 'fin' : 'reset';
    const cut = relay.cut(pattern, at, how);
    try {
      await work(cut);
    } catch (error) {
      error.message = `cut by ${how} at ${at} of ${whole.bytes}: ${error.message}`;
      throw error;
    }
    relay.clear();
  }
}

/** What a call that was cut came to: its value, or undefined for a known error. */
async function settle(promise) {
  try {
    return await promise;
  } catch (error) {
    assert.ok(isSandboxError(error), String(error));
    assert.ok(codes.has(error.code), `${error.code}: ${error.message}`);
    return undefined;
  }
}

test('create', () =>
  eachCut(/^POST \/v2\/sandboxes /, async () => {
    const mark = fake.mark();
    const sandbox = await settle(createSandbox({ provider: provider() }));
    assert.equal(creates(mark), 1);
    if (sandbox) {
      assert.ok(alive().length === 1);
      await sandbox.destroy();
    }
    assert.equal(alive().length, 0);
  }));

test('create with an id', () =>
  eachCut(/^POST \/v2\/sandboxes /, async () => {
    const mark = fake.mark();
    const sandbox = await settle(createSandbox({ id: 'cut', provider: provider() }));
    assert.equal(creates(mark), 1);
    if (sandbox) await sandbox.destroy();
    assert.equal(alive().length, 0);
  }));

test('the look-up before a create', () =>
  eachCut(/^GET \/v2\/sandboxes/, async () => {
    const mark = fake.mark();
    const sandbox = await settle(createSandbox({ id: 'cut', provider: provider() }));
    assert.ok(creates(mark) <= 1);
    if (sandbox) await sandbox.destroy();
    assert.equal(alive().length, 0);
  }));

test('the workspace folder', () =>
  eachCut(/^POST \/filesystem.Filesystem\/MakeDir/, async () => {
    const sandbox = await settle(createSandbox({ provider: provider() }));
    if (sandbox) await sandbox.destroy();
    assert.equal(alive().length, 0);
  }));

test('what prepares a new machine', () =>
  eachCut(/^POST \/process.Process\/Start/, async () => {
    const mark = fake.mark();
    const sandbox = await settle(createSandbox({ provider: provider() }));
    assert.equal(creates(mark), 1);
    if (sandbox) await sandbox.destroy();
    assert.equal(alive().length, 0);
  }));

test('connect', async () => {
  const first = await createSandbox({ id: 'again', provider: provider() });
  await eachCut(/^POST \/v2\/sandboxes\/\w+\/connect/, async () => {
    const mark = fake.mark();
    const sandbox = await settle(createSandbox({ id: 'again', provider: provider() }));
    assert.equal(creates(mark), 0);
    if (sandbox) assert.equal((await sandbox.run('echo ok')).stdout, 'ok\n');
  });
  await first.destroy();
  assert.equal(alive().length, 0);
});

test('destroy', () =>
  eachCut(/^DELETE \/sandboxes/, async () => {
    const sandbox = await createSandbox({ provider: provider() });
    await sandbox.destroy();
    assert.equal(alive().length, 0);
  }));

test('run', async () => {
  const sandbox = await createSandbox({ provider: provider() });
  let n = 0;
  await eachCut(/^POST \/process.Process\/Start/, async () => {
    const file = `ran${n++}`;
    const result = await settle(sandbox.run(`echo x >> ${file}; echo out; echo err >&2; exit 3`));
    relay.clear();
    if (result) {
      assert.equal(result.exitCode, 3);
      const lost = result.stdout !== 'out\n' || result.stderr !== 'err\n';
      if (lost) assert.match(result.reason ?? '', /missing/);
    }
    const ran = (await sandbox.run(`sleep 0.05; cat ${file} 2>/dev/null; exit 0`)).stdout;
    assert.ok(ran === 'x\n' || (ran === '' && !result), JSON.stringify(ran));
  });
  await sandbox.destroy();
});

test('processes.start', async () => {
  const sandbox = await createSandbox({ provider: provider() });
  let n = 0;
  await eachCut(/^POST \/process.Process\/Start/, async () => {
    const file = `began${n++}`;
    const child = await settle(sandbox.processes.start(`echo x >> ${file}; echo out; echo err >&2; exit 3`));
    const result = child && (await settle(child.wait()));
    relay.clear();
    if (result) assert.deepEqual([result.exitCode, result.stdout, result.stderr], [3, 'out\n', 'err\n']);
    const ran = (await sandbox.run(`sleep 0.05; cat ${file} 2>/dev/null; exit 0`)).stdout;
    assert.ok(ran === 'x\n' || (ran === '' && !result), JSON.stringify(ran));
  });
  await sandbox.destroy();
});

test('files: read, write, list, and what is large', async () => {
  const sandbox = await createSandbox({ provider: provider() });
  const { files } = sandbox;
  const big = new Uint8Array(100_000).map((_, i) => i * 7 + (i >> 8));
  await files.write('a', 'content');
  await files.write('big', big);
  await eachCut(/^POST \/process.Process\/Start/, async () => {
    const text = await settle(files.text('a'));
    if (text !== undefined) assert.equal(text, 'content');
  });
  await eachCut(/^POST \/process.Process\/Start/, async () => {
    const list = await settle(files.list('.'));
    if (list) assert.deepEqual(list.map(one => one.name).sort(), ['a', 'big']);
  });
  await eachCut(/^POST \/process.Process\/Start/, async () => {
    await settle(files.write('a', 'content'));
    relay.clear();
    assert.equal(await files.text('a'), 'content');
  });
  await eachCut(/^POST \/files/, async () => {
    await settle(files.write('big', big));
    relay.clear();
    assert.deepEqual(new Uint8Array(await files.read('big')), big);
  });
  const whole = relay.cut(/^GET \/files/, Infinity);
  await files.read('big');
  for (const at of [0, 1, 20, 100, 200, 300, 1000, 50_000, whole.bytes - 1]) {
    relay.cut(/^GET \/files/, at, at % 2 ? 'fin' : 'reset');
    const bytes = await settle(files.read('big'));
    if (bytes) assert.deepEqual(new Uint8Array(bytes), big);
    relay.clear();
  }
  assert.deepEqual((await files.list('.')).map(one => one.name).sort(), ['a', 'big']);
  await sandbox.destroy();
});
