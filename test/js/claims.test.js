// Claims of README.md that no other test is about.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import path from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

import { createSandbox, withSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { local } from 'sandbox-sdk-native/local';
import { startFake } from '../fakes/e2b.js';

const root = path.join(import.meta.dirname, '../..');

async function atService(options, use) {
  const fake = await startFake(options);
  try {
    const provider = () => e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url });
    await withSandbox({ provider: provider(), id: 'shared' }, sandbox => use(sandbox, provider));
  } finally {
    await fake.close();
  }
}

test('/tmp, /var/tmp, /dev/shm and the home folder: 512 MiB each, or the limit of memory', async () => {
  for (const [limits, size] of [[undefined, 512], [{ memory: 64 * 2 ** 20 }, 64]]) {
    await withSandbox({ provider: local({ limits, isolation: 'full' }) }, async sandbox => {
      const { stdout } = await sandbox.run('df -m --output=size /tmp /var/tmp /dev/shm "$HOME" | tail -n +2');
      assert.deepEqual(stdout.trim().split(/\s+/).map(Number), Array(4).fill(size));
    });
  }
});

test('a running process keeps Node alive, one that has ended does not', async () => {
  const script = `
    import { createSandbox } from 'sandbox-sdk-native';
    import { local } from 'sandbox-sdk-native/local';
    const sandbox = await createSandbox({ provider: local() });
    const process = await sandbox.processes.start('sleep 0.5; echo late', { onStdout: text => console.log(text.trim()) });
    console.log('started');`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], { cwd: root });
  assert.equal(stdout, 'started\nlate\n');
});

test('an envd that cannot end input: it goes through a FIFO, whole, to its end', () =>
  atService({ envdVersion: '0.5.1' }, async sandbox => {
    const process = await sandbox.processes.start('wc -c; echo end');
    await process.write('x'.repeat(200_000));
    await process.closeStdin();
    assert.equal((await process.wait()).stdout, '200000\nend\n');
    assert.equal((await sandbox.run('cat', { stdin: 'one' })).stdout, 'one');
    assert.equal((await sandbox.run('ls -d /tmp/tmp.*/in', {})).stdout, '');
  }));

for (const envdVersion of ['0.5.1', '0.6.10']) {
  test(`what another host started is given input and its end, envd ${envdVersion}`, () =>
    atService({ envdVersion }, async (sandbox, provider) => {
      const process = await sandbox.processes.start('read line; echo "<$line>"; cat; echo end');
      const other = await createSandbox({ provider: provider(), id: 'shared' });
      const attached = await other.processes.attach(process.pid);
      await process.write('ours\n');
      await attached.write('theirs\n');
      await attached.write('x'.repeat(100_000));
      await attached.closeStdin();
      assert.equal((await attached.wait()).stdout, `<ours>\ntheirs\n${'x'.repeat(100_000)}end\n`);
      assert.equal((await process.wait()).exitCode, 0);
    }));
}

test('who attaches to a command without input cannot write', () =>
  atService({}, async (sandbox, provider) => {
    const process = await sandbox.processes.start('sleep 900', { stdin: false });
    const other = await createSandbox({ provider: provider(), id: 'shared' });
    const attached = await other.processes.attach(process.pid);
    await assert.rejects(attached.write('theirs\n'), /does not have stdin/);
    await attached.kill();
  }));

test('another host goes on with a terminal: input, output from now on, size, end', () =>
  atService({}, async (sandbox, provider) => {
    const process = await sandbox.processes.start(['/bin/sh'], { pty: { cols: 80, rows: 24 } });
    const other = await createSandbox({ provider: provider(), id: 'shared' });
    const attached = await other.processes.attach(process.pid);
    await attached.resize(101, 33);
    await attached.write('stty size; exit 7\r');
    const { exitCode, stdout } = await attached.wait();
    assert.equal(exitCode, 7);
    assert.match(stdout, /33 101/);
  }));

test('E2B_DEBUG takes the two planes of this machine', async () => {
  const script = `
    import { createSandbox } from 'sandbox-sdk-native';
    import { e2b } from 'sandbox-sdk-native/e2b';
    await createSandbox({ provider: e2b({ apiKey: 'e2b_${'0'.repeat(40)}', requestTimeout: 2000 }) }).catch(error => console.log(error.message));`;
  const env = { ...process.env, E2B_DEBUG: 'true', NO_PROXY: '*' };
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], { cwd: root, env });
  assert.match(stdout, /localhost/);
});

test('a signal is told as 128 + n, and such an exit code as a signal', () =>
  atService({}, async sandbox => {
    for (const [command, code, killed] of [['kill -TERM $$', 143, true], ['exit 130', 130, true], ['exit 128', 128, false], ['exit 160', 160, false]]) {
      const result = await sandbox.run(command);
      assert.deepEqual([result.exitCode, result.killed], [code, killed], command);
    }
  }));
