// A caller who gives up at any moment, with whatever is in flight: every promise
// settles, nothing is left at the service, and no secret is in what is told.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect, promisify } from 'node:util';

import { createSandbox, isSandboxError } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { createMastraSandbox, createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { startFake } from '../fakes/e2b.js';
import { childEnv } from '../helpers/child-env.js';
import { until } from '../helpers/workspace.js';

// SBX_MOMENTS=200 for more of them; SBX_SEED repeats a run.
const moments = Number(process.env.SBX_MOMENTS ?? 24);
let seed = Number(process.env.SBX_SEED ?? Date.now() % 1e9);

let fake;
before(async () => (fake = await startFake()));
after(() => fake.close());

const provider = options => e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url, ...options });
const alive = () => [...fake.sandboxes.values()].filter(one => one.state !== 'killed');

function random(below) {
  seed = (seed * 1103515245 + 12345) % 2147483648;
  return seed % below;
}

/** Every string that can be got out of a value. */
const seen = value => [inspect(value, { depth: 12, showHidden: true, getters: false }), String(value?.stack ?? ''), String(value)].join('\n');

function checkSecret(value) {
  const text = seen(value);
  assert.ok(!text.includes(fake.apiKey), text);
  for (const one of fake.sandboxes.values()) {
    for (const token of [one.token, one.trafficToken]) assert.ok(!token || !text.includes(token), text);
  }
}

/** Any outcome, but an end, and an error of ours. */
async function ends(promise, what) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`${what} does not settle`)), 100_000)));
  try {
    await Promise.race([promise, late]);
  } catch (error) {
    if (/does not settle/.test(error.message)) throw error;
    assert.ok(isSandboxError(error) || error.code || error.name === 'AbortError', inspect(error));
    checkSecret(error);
  } finally {
    clearTimeout(timer);
  }
}

/** Much at once. */
function busy(sandbox, signal) {
  return [
    ['run', sandbox.run('echo hi; sleep 0.2', { signal })],
    ['input', sandbox.run('cat', { stdin: 'x'.repeat(200_000), signal })],
    ['flood', sandbox.run('yes', { timeout: 500, signal, maxRetainedBytes: 10 })],
    ['start', sandbox.processes.start('sleep 5', { signal }).then(child => child.wait())],
    ['write', sandbox.files.write('a', 'text')],
    ['upload', sandbox.files.write('b', new Uint8Array(300_000))],
    ['read', sandbox.files.read('b')],
    ['list', sandbox.files.list('.', { recursive: true })],
    ['processes', sandbox.processes.list()],
  ];
}

test(`destroyed at any moment (seed ${seed})`, { timeout: 600_000 }, async () => {
  for (let i = 0; i < moments; i++) {
    const sandbox = await createSandbox({ provider: provider() });
    const controller = new AbortController();
    const calls = busy(sandbox, controller.signal).map(([name, call]) => ends(call, name));
    await sleep(random(300));
    if (random(2)) controller.abort();
    await ends(random(2) ? sandbox.destroy() : sandbox.stop(), 'the end');
    await Promise.all(calls);
    assert.deepEqual(alive().map(one => one.state), []);
  }
});

test(`ended at any moment of its start (seed ${seed})`, { timeout: 600_000 }, async () => {
  for (let i = 0; i < moments; i++) {
    const id = `moment-${i}`;
    const sandbox = createMastraSandbox({ id, provider: provider() });
    const start = ends(sandbox._start(), 'start');
    const call = random(2) ? ends(sandbox.executeCommand('echo hi'), 'command') : undefined;
    await sleep(random(120));
    if (random(3) === 0) await ends(sandbox._stop(), 'stop');
    await ends(sandbox._destroy(), 'destroy');
    await start;
    await call;
    assert.deepEqual(alive().map(one => one.state), []);
  }
});

test('every abort settles its own call alone', { timeout: 300_000 }, async () => {
  const sandbox = await createSandbox({ provider: provider() });
  await ends(sandbox.run('echo', { signal: AbortSignal.abort() }), 'aborted before');
  for (let i = 0; i < moments; i++) {
    const controller = new AbortController();
    const aborted = sandbox.run('sleep 30', { signal: controller.signal });
    const other = sandbox.run('echo other');
    await sleep(random(60));
    controller.abort();
    assert.equal((await aborted).killed, true);
    assert.equal((await other).stdout, 'other\n');
  }
  await until(async () => (await sandbox.run('pgrep -x sleep')).stdout === '');
  await sandbox.destroy();
});

test('200 commands at once', { timeout: 300_000 }, async () => {
  const sandbox = await createSandbox({ provider: provider() });
  const all = await Promise.all(Array.from({ length: 200 }, (_, i) => sandbox.run(`echo ${i}; exit ${i % 7}`)));
  all.forEach((one, i) => assert.deepEqual([one.exitCode, one.stdout], [i % 7, `${i}\n`]));
  await sandbox.destroy();
});

test('1,000 sandboxes that are made and forgotten', { timeout: 300_000 }, async () => {
  const script = `
    import { createMastraSandbox } from 'sandbox-sdk-native/mastra';
    import { e2b } from 'sandbox-sdk-native/e2b';
    const provider = e2b({ apiKey: 'e2b_x', apiUrl: 'http://127.0.0.1:9' });
    const round = () => { for (let i = 0; i < 250; i++) createMastraSandbox({ provider }); };
    const settle = async () => { for (let i = 0; i < 5; i++) { gc(); await new Promise(r => setTimeout(r, 20)); } };
    round(); await settle();
    const before = process.memoryUsage().rss;
    for (let i = 0; i < 4; i++) { round(); await settle(); }
    // A sanitizer holds back what is freed.
    if (!process.env.LD_PRELOAD && process.memoryUsage().rss - before > 20e6) throw new Error(process.memoryUsage().rss - before);
    console.log('ok');`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', '--input-type=module', '-e', script], { cwd: import.meta.dirname, env: childEnv({}) });
  assert.equal(stdout, 'ok\n');
});

// What a program of its own does with a sandbox in full swing.
const work = `
  import { parentPort } from 'node:worker_threads';
  import { createSandbox } from 'sandbox-sdk-native';
  import { e2b } from 'sandbox-sdk-native/e2b';
  const [apiKey, url, how] = process.argv.slice(-3);
  const sandbox = await createSandbox({ provider: e2b({ apiKey, apiUrl: url, sandboxUrl: url }) });
  parentPort?.postMessage('made');
  sandbox.run('yes', { maxRetainedBytes: 10, onStdout: () => {} }).catch(() => {});
  sandbox.files.write('b', new Uint8Array(1e6)).catch(() => {});
  sandbox.run('cat', { stdin: 'x'.repeat(1e6) }).catch(() => {});
  setTimeout(() => {
    if (how === 'exit') process.exit(7);
    if (how === 'throw') throw new Error('thrown');
  }, 150);`;

for (const [how, code] of [['exit', 7], ['throw', 1]]) {
  test(`a process that ends by ${how} in the midst of it`, { timeout: 300_000 }, async () => {
    const args = ['--input-type=module', '-e', work, fake.apiKey, fake.url, how];
    const error = await promisify(execFile)(process.execPath, args, { cwd: import.meta.dirname, env: childEnv({}, { leaks: false }) }).catch(one => one);
    assert.equal(error.code, code);
    assert.equal(error.signal, null);
    checkSecret(error.stderr);
    for (const one of alive()) await fake.expire(one.id);
  });
}

// In a process of its own: Node frees no promise of a worker that was terminated.
test('workers that are terminated in the midst of it', { timeout: 300_000 }, async () => {
  const inside = work.replace(/'sandbox-sdk-native(\/e2b)?'/g, (_, e2b) => `'${new URL(`../../js/${e2b ? 'e2b' : 'index'}.js`, import.meta.url)}'`);
  const script = `
    import { Worker } from 'node:worker_threads';
    for (let i = 0; i < 4; i++) {
      const worker = new Worker(new URL(${JSON.stringify(`data:text/javascript,${encodeURIComponent(inside)}`)}), { argv: [...process.argv.slice(-2), 'worker'] });
      worker.on('error', error => { throw error; });
      // The first at a moment of its start, the others after that.
      if (i > 0) await new Promise(resolve => worker.once('message', resolve));
      await new Promise(resolve => setTimeout(resolve, ${random(200)} + 50 * i));
      await worker.terminate();
    }
    console.log('ok');`;
  const args = ['--input-type=module', '-e', script, fake.apiKey, fake.url];
  const mark = fake.mark();
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: import.meta.dirname, env: childEnv({}, { leaks: false }) });
  assert.equal(stdout, 'ok\n');
  assert.ok(fake.count(mark) > 0);
  await sleep(100);
  for (const one of alive()) await fake.expire(one.id);
});

test('secrets: no object, error or description of ours has one', async () => {
  const settings = provider();
  const workspace = createMastraWorkspace({ provider: settings });
  await workspace.init();
  const { sandbox } = workspace;
  const sdk = sandbox.sandboxSdk;
  const child = await sdk.processes.start('sleep 5');
  for (const value of [
    settings, workspace, sandbox, workspace.filesystem, sdk, sdk.files, sdk.processes, child, sdk.metadata, sdk.capabilities,
    await sandbox.getInfo(), await workspace.getInfo?.(), sandbox.getInstructions?.(), workspace.getInstructions?.(),
  ]) {
    checkSecret(value);
    let text = '';
    try {
      text = JSON.stringify(value) ?? '';
    } catch {
      // A circle is no leak.
    }
    assert.ok(!text.includes(fake.apiKey));
  }
  for (const message of [fake.apiKey, [...fake.sandboxes.values()].at(-1).token]) {
    const body = JSON.stringify({ code: 403, message: `no: ${message}` });
    const set = fake.fault({ match: { rpc: 'Start' }, times: 1, respond: { status: 403, headers: { 'content-type': 'application/json' }, body } });
    await ends(sdk.run('echo'), 'run');
    set.remove();
  }
  await workspace.destroy();
});
