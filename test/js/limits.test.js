// Limits as a user meets them: bombs of every kind end with a reason, the host
// and the session go on.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSandbox, withSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';
import { createMastraSandbox } from 'sandbox-sdk-native/mastra';

const MIB = 1024 * 1024;

function withLimits(limits, work, options) {
  return withSandbox({ provider: local({ limits, ...options }) }, work);
}

test('wrong limits are refused where they are written', () => {
  for (const [limits, text] of [
    [{ memory: '512mb' }, /limits\.memory must be a whole number of bytes.*512 \* 1024.*"512mb"/],
    [{ memory: 1000 }, /limits\.memory/],
    [{ cpu: 0 }, /limits\.cpu must be a number of cores/],
    [{ cpu: Infinity }, /limits\.cpu/],
    [{ openFiles: 1.5 }, /limits\.openFiles/],
    [{ fileSize: 0 }, /limits\.fileSize/],
    [{ workspaceSize: NaN }, /limits\.workspaceSize/],
    [{ outputRate: -1 }, /limits\.outputRate.*per second/],
    [{ ram: 1 }, /limits has no "ram"; it knows processes, memory/],
  ]) {
    assert.throws(() => local({ limits }), text);
  }
});

test('facts and instructions say what holds, and what does not', async () => {
  const sandbox = createMastraSandbox({
    provider: local({ limits: { memory: 512 * MIB, cpu: 0.5, openFiles: 256 } }),
  });
  await sandbox.start();
  try {
    const { metadata } = sandbox.getInfo();
    assert.equal(metadata['limits.memory'], String(512 * MIB));
    assert.match(metadata['limits.memory.enforcedBy'], /^(watcher|cgroup v2)$/);
    assert.equal(metadata['limits.processes'], '4096');
    assert.equal(metadata['limits.openFiles.enforcedBy'], 'rlimit');
    if (metadata['limits.cpu'] === undefined) assert.match(metadata.degraded, /limits\.cpu is not enforced/);
    else assert.equal(metadata['limits.cpu.enforcedBy'], 'cgroup v2');
    const text = sandbox.getInstructions();
    assert.match(text, /Limits: processes 4096, memory 512 MiB/);
    assert.doesNotMatch(text, /enforcedBy/);
  } finally {
    await sandbox.destroy();
  }
});

test('a memory bomb is killed, with the reason, and others go on', async () => {
  await withLimits({ memory: 128 * MIB }, async sandbox => {
    const other = await sandbox.processes.start('sleep 1000');
    const result = await sandbox.run('head -c 400000000 /dev/zero | tail -c 400000000 > /dev/null; sleep 1000');
    assert.equal(result.exitCode, 137);
    assert.equal(result.killed, true);
    assert.match(result.reason, /memory limit of 128 MiB \(limits\.memory\)/);
    assert.ok(result.stderr.endsWith(result.reason));
    assert.equal(other.exitCode, undefined);
    assert.equal((await sandbox.run('echo fine')).stdout, 'fine\n');
  });
});

test('memory that is only open, not mapped, counts too', async t => {
  await withLimits({ memory: 128 * MIB }, async sandbox => {
    const script = 'import os,time\nf=os.memfd_create("x")\nfor i in range(300): os.write(f,bytes(1<<20))\ntime.sleep(1000)';
    if ((await sandbox.run('command -v python3')).exitCode !== 0) return t.skip('no python3');
    const result = await sandbox.run(['python3', '-c', script]);
    assert.match(result.reason, /limits\.memory/);
  });
});

test('Mastra sees the reason at the end of stderr', async () => {
  const sandbox = createMastraSandbox({ provider: local({ limits: { fileSize: MIB } }) });
  await sandbox.start();
  try {
    const heard = [];
    const result = await sandbox.executeCommand('head -c 2000000 /dev/zero > big', [], {
      onStderr: text => heard.push(text),
    });
    assert.equal(result.exitCode, 153);
    assert.match(result.stderr, /1 MiB for one file \(limits\.fileSize\)$/);
    assert.match(heard.join(''), /limits\.fileSize\)$/);
    const handle = await sandbox.processes.spawn('head -c 2000000 /dev/zero > big');
    assert.match((await handle.wait()).stderr, /limits\.fileSize\)$/);
  } finally {
    await sandbox.destroy();
  }
});

test('a filled workspace ends who fills it; cleaning up works', async () => {
  await withLimits({ workspaceSize: 20 * MIB }, async sandbox => {
    const result = await sandbox.run(
      'mkdir d; i=0; while :; do head -c 4000000 /dev/urandom > d/$i; i=$((i + 1)); sleep 0.1; done',
    );
    assert.match(result.reason, /20 MiB \(limits\.workspaceSize\)/);
    const cleaned = await sandbox.run('rm -r d && echo cleaned');
    assert.equal(cleaned.stdout, 'cleaned\n');
    const sparse = await sandbox.run('truncate -s 1T sparse');
    assert.notEqual(sparse.exitCode, 0);
  });
});

test('a fork bomb stops at its limit, and the sandbox can be used and ended', async () => {
  const sandbox = await createSandbox({ provider: local({ limits: { processes: 200 } }) });
  const bomb = await sandbox.processes.start('b() { b | b & }; b; wait', { timeout: 1500 });
  await bomb.wait();
  const bomb2 = await sandbox.processes.start('while :; do sleep 1000 & done');
  await new Promise(resolve => setTimeout(resolve, 500));
  await sandbox.stop();
  assert.notEqual(bomb2.exitCode, undefined);
});

test('too many processes: the result says so', async () => {
  // Unlike dash, bash tries again for half a minute.
  await withLimits(
    { processes: 40 },
    async sandbox => {
      const result = await sandbox.run('i=0; while [ $i -lt 80 ]; do sleep 1000 & i=$((i + 1)); done; exit 1');
      assert.match(result.reason, /40 processes \(limits\.processes\)/);
    },
    { shell: '/bin/sh' },
  );
});

test('too many processes at level landlock, with ids of their own: the result says so', async t => {
  const { PATH } = process.env;
  process.env.PATH = '/usr/local/bin:/usr/bin:/bin';
  const provider = local({ isolation: 'landlock', shell: '/bin/sh', limits: { processes: 40 } });
  const sandbox = await createSandbox({ provider }).finally(() => (process.env.PATH = PATH));
  try {
    if (sandbox.metadata.uidMode !== 'range') return t.skip('the kernel counts those of others, too');
    const result = await sandbox.run('i=0; while [ $i -lt 80 ]; do sleep 1000 & i=$((i + 1)); done; exit 1');
    assert.match(result.reason, /40 processes \(limits\.processes\)/);
  } finally {
    await sandbox.stop();
  }
});

test('descriptors run out at their limit', async () => {
  await withLimits({ openFiles: 50 }, async sandbox => {
    assert.equal((await sandbox.run('ulimit -n; ulimit -Hn')).stdout, '50\n50\n');
  });
});

test('a rate slows output and loses nothing', async () => {
  await withLimits({ outputRate: 400_000 }, async sandbox => {
    const { stdout, stderr, exitCode } = await sandbox.run(
      "head -c 500000 /dev/zero | tr '\\0' a; head -c 100000 /dev/zero | tr '\\0' b >&2",
    );
    assert.equal(exitCode, 0);
    assert.equal(stdout.length, 500_000);
    assert.equal(stderr.length, 100_000);
  });
});

test('limits without isolation', async () => {
  await withLimits(
    { memory: 128 * MIB, fileSize: MIB, openFiles: 60 },
    async sandbox => {
      assert.equal((await sandbox.run('ulimit -n')).stdout, '60\n');
      const hog = await sandbox.run('head -c 400000000 /dev/zero | tail -c 400000000 > /dev/null; sleep 1000');
      assert.match(hog.reason, /limits\.memory/);
      assert.match((await sandbox.run('head -c 2000000 /dev/zero > big')).reason, /limits\.fileSize/);
    },
    { isolation: 'none' },
  );
});
