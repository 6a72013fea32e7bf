// What breaks between here and a service, against the fake: streams that are cut,
// hosts that come and go, limits, hostile answers. Nothing runs twice, and what is
// not known is said.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';

import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { createMastraSandbox, createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { startFake } from '../fakes/e2b.js';
import { until } from '../helpers/workspace.js';

let fake;
before(async () => (fake = await startFake()));
after(() => fake.close());

const provider = options => e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url, ...options });
const starts = mark => fake.since(mark).filter(one => one.rpc === 'Start').length;
const count = `for i in 1 2 3 4 5 6; do echo $i; echo $i >> ran; sleep 0.2; done; exit 7`;
const one2six = '1\n2\n3\n4\n5\n6\n';

/** A sandbox for one test. */
async function use(work, options) {
  const sandbox = createMastraSandbox({ provider: provider(options) });
  await sandbox.start();
  try {
    await work(sandbox);
  } finally {
    await sandbox._destroy();
  }
}

for (const [name, fault] of [
  ['reset in the middle', { cutAfter: 120 }],
  ['ended in the middle', { truncate: 120 }],
  ['reset after the end was told', { afterEnd: 'reset' }],
  ['closed after the end was told', { afterEnd: 'fin' }],
]) {
  test(`a stream that is ${name}: the command goes on, runs once, and its end is the real one`, () =>
    use(async sandbox => {
      const seen = [];
      const mark = fake.mark();
      const cut = fake.fault({ match: { rpc: 'Start' }, times: 1, ...fault });
      const result = await sandbox.executeCommand(count, [], { onStdout: text => seen.push(text) });
      cut.remove();
      assert.equal(cut.used, 1);
      if (!fault.afterEnd) assert.ok(fake.since(mark).some(one => one.rpc === 'Connect'));
      assert.equal(result.exitCode, 7);
      assert.equal(seen.join(''), result.stdout);
      // The service repeats nothing: a line that was on its way is gone, and that is said.
      const lines = result.stdout.trim().split('\n');
      assert.ok(lines.every((line, i) => i === 0 || Number(line) > Number(lines[i - 1])), result.stdout);
      if (result.stdout !== one2six) assert.match(result.reason, /output may be missing/);
      if (fault.afterEnd) assert.equal(result.stdout, one2six);
      assert.equal((await sandbox.executeCommand('cat ran')).stdout, one2six);
    }));
}

test('a background command whose stream is cut again and again loses nothing', () =>
  use(async sandbox => {
    const cut = fake.fault({ match: { rpc: 'Start' }, times: 3, cutAfter: 200 });
    const handle = await sandbox.processes.spawn('for i in 1 2 3 4 5 6; do echo $i; echo e$i >&2; sleep 0.2; done; exit 7');
    const result = await handle.wait();
    cut.remove();
    assert.equal(cut.used, 3);
    assert.deepEqual([result.exitCode, result.stdout, result.stderr], [7, one2six, 'e1\ne2\ne3\ne4\ne5\ne6\n']);
  }));

test('a later host lists, follows, awaits and kills what an earlier one started', async () => {
  const first = createMastraSandbox({ provider: provider(), id: 'hosts' });
  await first.start();
  const handle = await first.processes.spawn('for i in $(seq 1 8); do echo line $i; until [ $i != 3 ] || [ -e go ]; do sleep 0.1; done; done; exit 9');
  const other = await first.processes.spawn('echo up; sleep 1000');
  await until(() => handle.stdout.includes('line 2'));

  const second = createMastraSandbox({ provider: provider(), id: 'hosts' });
  await second.start();
  const listed = await second.processes.list();
  assert.deepEqual(
    listed.map(one => [one.pid, one.running]).sort(),
    [[handle.pid, true], [other.pid, true]].sort(),
  );
  assert.match(listed.find(one => one.pid === handle.pid).command, /line \$i/);
  const again = await second.processes.get(handle.pid);
  await second.executeCommand('touch go');
  const result = await again.wait();
  assert.equal(result.exitCode, 9);
  assert.equal(result.stdout, Array.from({ length: 8 }, (_, i) => `line ${i + 1}\n`).join(''));
  assert.equal(await second.processes.kill(other.pid), true);
  assert.equal((await other.wait()).killed, true);
  assert.deepEqual((await second.processes.list()).filter(one => one.running), []);
  assert.equal(await second.processes.get('424242'), undefined);

  const sdk = second.sandboxSdk;
  const ended = (await sdk.processes.list()).find(one => one.pid === handle.pid);
  assert.deepEqual([ended.running, ended.exitCode], [false, 9]);
  assert.equal((await (await sdk.processes.attach(handle.pid)).wait()).exitCode, 9);
  await assert.rejects(sdk.processes.attach(424242), { code: 'not_found' });
  await second._destroy();
});

test('a timeout ends the tree there, too', () =>
  use(async sandbox => {
    const result = await sandbox.executeCommand('sleep 60 & sleep 60', [], { timeout: 500 });
    assert.deepEqual([result.exitCode, result.timedOut, result.killed], [124, true, true]);
    await until(async () => (await sandbox.executeCommand('pgrep -x sleep')).stdout === '');
    assert.deepEqual(await sandbox.processes.list(), []);
  }));

test('an abort ends the tree, settles at once and asks for nothing more', () =>
  use(async sandbox => {
    const controller = new AbortController();
    const running = sandbox.executeCommand('echo up; sleep 60 & sleep 60', [], { abortSignal: controller.signal, onStdout: () => controller.abort() });
    const result = await running;
    assert.deepEqual([result.exitCode, result.killed, result.stdout], [137, true, 'up\n']);
    // The kernel takes a moment to end what was killed.
    await until(async () => (await sandbox.executeCommand('pgrep -x sleep')).stdout === '');
  }));

test('429: waits as told; too long a wait and none are told', () =>
  use(async sandbox => {
    const soon = fake.fault({ match: { rpc: 'Start' }, times: 1, rateLimit: { retryAfter: '1' } });
    assert.equal((await sandbox.executeCommand('echo x')).stdout, 'x\n');
    soon.remove();
    for (const retryAfter of ['3600', undefined]) {
      const fault = fake.fault({ match: { rpc: 'Start' }, times: 20, rateLimit: { retryAfter } });
      await assert.rejects(sandbox.sandboxSdk.run('echo x'), error => {
        assert.deepEqual([error.code, error.retryable], ['rate_limited', true]);
        return true;
      });
      fault.remove();
    }
  }));

test('a start that may have arrived is not repeated; one that was refused is told', () =>
  use(async sandbox => {
    const mark = fake.mark();
    const lost = fake.fault({ match: { rpc: 'Start' }, times: 1, loseAnswer: true });
    await assert.rejects(sandbox.executeCommand('echo x >> once'));
    lost.remove();
    assert.equal(starts(mark), 1);
    assert.equal(sandbox.status, 'running');
    await until(async () => (await sandbox.executeCommand('cat once')).stdout === 'x\n');
    for (const [answer, code] of [[{ respond: { status: 403, body: '{"code":403,"message":"no"}' } }, 'permission'], [{ respond: { status: 401, body: '{"code":401,"message":"no"}' } }, 'authentication']]) {
      const fault = fake.fault({ match: { rpc: 'Start' }, times: 1, ...answer });
      await assert.rejects(sandbox.sandboxSdk.run('echo x'), { code });
      fault.remove();
    }
  }));

test('file calls: reads are repeated, a write whose answer is lost is told as unknown', async () => {
  const workspace = createMastraWorkspace({ provider: provider() });
  await workspace.init();
  const { filesystem: files } = workspace;
  await files.writeFile('a.txt', 'a');
  const cut = fake.fault({ match: { rpc: 'Start' }, times: 1, cutAfter: 60 });
  assert.equal(await files.readFile('a.txt', { encoding: 'utf-8' }), 'a');
  cut.remove();
  const mark = fake.mark();
  const lost = fake.fault({ match: { rpc: 'Start' }, times: 1, loseAnswer: true });
  await assert.rejects(files.appendFile('a.txt', 'b'));
  lost.remove();
  assert.equal(starts(mark), 1);
  await until(async () => (await files.readFile('a.txt', { encoding: 'utf-8' })) === 'ab');
  for (const fault of [{ html502: true }, { empty404: true }, { respond: { status: 500, body: 'oops' } }]) {
    const broken = fake.fault({ match: { rpc: 'Start' }, times: 20, ...fault });
    await assert.rejects(files.readFile('a.txt'), error => {
      assert.notEqual(error.code, 'ENOENT');
      assert.doesNotMatch(error.message, /<html|<body/i);
      return true;
    });
    broken.remove();
  }
  await workspace.destroy();
});

test('large files go whole, both ways', async () => {
  const sandbox = await createSandbox({ provider: provider() });
  const bytes = new Uint8Array(3_000_000).map((_, i) => (i * 31 + (i >> 8)) & 255);
  const mark = fake.mark();
  await sandbox.files.write('big.bin', bytes);
  assert.ok(fake.count(mark) <= 2, `${fake.count(mark)} requests`);
  assert.equal((await sandbox.run('wc -c < big.bin')).stdout, '3000000\n');
  assert.deepEqual(new Uint8Array(await sandbox.files.read('big.bin')), bytes);
  await sandbox.destroy();
});

test('input: large, in order, to its end; a terminal', async () => {
  const sandbox = await createSandbox({ provider: provider() });
  const text = Array.from({ length: 60_000 }, (_, i) => `${i}\n`).join('');
  assert.equal((await sandbox.run('cat | cksum', { stdin: text })).stdout, (await sandbox.run('seq 0 59999 | cksum')).stdout);
  const seen = [];
  const shell = await sandbox.processes.start(['/bin/sh'], { pty: { cols: 80, rows: 24 }, onStdout: piece => seen.push(piece) });
  await shell.write('stty size\n');
  await until(() => seen.join('').includes('24 80'));
  await shell.resize(100, 30);
  await shell.write('stty size; exit 5\n');
  assert.equal((await shell.wait()).exitCode, 5);
  assert.ok(seen.join('').includes('30 100'));
  await sandbox.destroy();
});

test('back-pressure: a reader that waits holds the command', () =>
  use(async sandbox => {
    const handle = await sandbox.processes.spawn('head -c 40000000 /dev/zero; echo >&2 done');
    const { reader } = handle;
    let total = 0;
    for await (const chunk of reader) total += chunk.length;
    assert.equal(total + 0, 40_000_000);
    assert.equal((await handle.wait()).exitCode, 0);
  }));

test('64 commands at once keep apart', () =>
  use(async sandbox => {
    const all = await Promise.all(Array.from({ length: 64 }, (_, i) => sandbox.executeCommand(`echo out ${i}; echo err ${i} >&2; exit ${i}`)));
    all.forEach((one, i) => assert.deepEqual([one.exitCode, one.stdout, one.stderr], [i, `out ${i}\n`, `err ${i}\n`]));
  }));

test('the stream of a background command is cut: input and its end still reach it', () =>
  use(async sandbox => {
    const mark = fake.mark();
    const cut = fake.fault({ match: { rpc: 'Start' }, times: 1, cutAfter: 900 });
    const handle = await sandbox.processes.spawn("echo $$ >>ran; printf '%01000d\\n' 0; cat; echo end");
    cut.remove();
    await handle.sendStdin('before\n').catch(() => {}); // it may be on its way when the stream breaks
    await until(() => cut.used === 1 && fake.since(mark).filter(one => one.rpc === 'Start').length > 1);
    await handle.sendStdin('x'.repeat(100_000));
    await handle.sendStdin('\nlast\n');
    await handle.closeStdin();
    const { exitCode, stdout } = await handle.wait();
    assert.equal(exitCode, 0);
    assert.match(stdout, /^0{1000}\n(before\n)?x{100000}\nlast\nend\n$/);
    assert.match((await sandbox.executeCommand('cat ran')).stdout, /^\d+\n$/);
  }));

test('the end of the input reaches a command that is followed, however often its connection breaks', () =>
  use(async sandbox => {
    const mark = fake.mark();
    const cut = fake.fault({ match: { rpc: 'Start' }, times: 1, cutAfter: 900 });
    const handle = await sandbox.processes.spawn("printf '%01000d\\n' 0; cat; echo end");
    cut.remove();
    await until(() => cut.used === 1 && fake.since(mark).filter(one => one.rpc === 'Start').length > 1);
    const reset = fake.fault({ match: { rpc: 'CloseStdin' }, times: 3, reset: true });
    await handle.sendStdin('last\n');
    await handle.closeStdin();
    assert.match((await handle.wait()).stdout, /\nlast\nend\n$/);
    assert.equal(reset.used, 3);
  }));

test('input that is lost on its way is told, and never passes for all of it', () =>
  use(async sandbox => {
    const lost = fake.fault({ match: { rpc: 'SendInput' }, times: 1, skip: 1, loseAnswer: true });
    const handle = await sandbox.processes.spawn('cat >all; echo end');
    await handle.sendStdin('one\n');
    await assert.rejects(handle.sendStdin('two\n'));
    lost.remove();
    await handle.sendStdin('three\n');
    await handle.closeStdin();
    assert.equal((await handle.wait()).stdout, 'end\n');
    assert.match((await sandbox.executeCommand('cat all')).stdout, /^one\n(two\n)?three\n$/);

    const again = fake.fault({ match: { rpc: 'SendInput' }, times: 1, loseAnswer: true });
    const sdk = sandbox.sandboxSdk;
    await assert.rejects(sdk.run('cat >part', { stdin: 'x'.repeat(300_000) }), { code: 'unavailable' });
    assert.equal(again.used, 1);
  }));

test('extending the time of a sandbox keeps no process alive', async () => {
  const hang = fake.fault({ match: { path: /\/(timeout|refreshes)$/ }, times: 9, hang: true });
  const script = `
    import { createSandbox } from 'sandbox-sdk-native';
    import { e2b } from 'sandbox-sdk-native/e2b';
    const provider = e2b({ apiKey: '${fake.apiKey}', apiUrl: '${fake.url}', sandboxUrl: '${fake.url}', timeout: 1000, autoPause: true });
    const sandbox = await createSandbox({ provider });
    await new Promise(resolve => setTimeout(resolve, 300));
    console.log((await sandbox.run('echo used')).stdout);`;
  const options = { cwd: new URL('../..', import.meta.url), timeout: 45_000 }; // of the 60 s that the request may take
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], options);
  hang.remove();
  assert.equal(stdout, 'used\n\n');
  assert.equal(hang.used, 1);
});

// Whoever is told lets go of others that wait for the same answer.
test('many streams of a sandbox that is gone: one look for all, and each is told once', async () => {
  const gone = await startFake({ cut: 'reset' });
  try {
    const made = e2b({ apiKey: gone.apiKey, apiUrl: gone.url, sandboxUrl: gone.url });
    const sandbox = await createSandbox({ id: 'gone', provider: made });
    const { sandboxId } = sandbox.metadata;
    const looks = mark => gone.count(mark, { method: 'GET', path: `/sandboxes/${sandboxId}` });
    const children = await Promise.all(Array.from({ length: 8 }, () => sandbox.processes.start('sleep 60')));
    let told = 0;
    const ends = children.map(async child => {
      const result = await child.wait();
      told++;
      for (const other of children) other.kill();
      return result;
    });
    const mark = gone.mark();
    await gone.expire(sandboxId);
    for (const result of await Promise.all(ends)) {
      assert.equal(result.exitCode, 137);
      assert.equal(result.killed, true);
      assert.match(result.reason, /has ended/);
    }
    assert.equal(told, children.length);
    assert.ok(looks(mark) >= 1 && looks(mark) <= 2, `${looks(mark)} looks`);
    assert.equal((await sandbox.run('echo again')).stdout, 'again\n');
    assert.notEqual(sandbox.metadata.sandboxId, sandboxId);
    await sandbox.destroy();
  } finally {
    await gone.close();
  }
});
