// The life of a sandbox on the real addon, as Mastra drives it: every way in and
// out of every state, hooks, what its logger hears.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';

import * as core from '@mastra/core/workspace';
import { local } from 'sandbox-sdk-native/local';
import { createMastraSandbox, createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { until } from '../helpers/workspace.js';

const scratch = mkdtempSync(path.join(tmpdir(), 'life-'));
after(() => rmSync(scratch, { recursive: true, force: true }));
let folders = 0;
const fresh = () => path.join(scratch, `d${++folders}`);

const needsOutcome = { skip: !core.MastraSandbox.prototype.setOnStart && 'this @mastra/core has no start outcome' };

/** The session's life-cycle calls, in order. */
function recordCalls(sandbox) {
  const { session } = sandbox._lease;
  const { native } = session;
  const calls = [];
  session.native = new Proxy(native, {
    get(target, name) {
      const value = target[name];
      if (typeof value !== 'function') return value;
      return (...args) => {
        if (['create', 'connect', 'stop', 'resume', 'destroy'].includes(name)) calls.push(name);
        return value.apply(target, args);
      };
    },
  });
  return calls;
}

test('ten starts at once create one sandbox', needsOutcome, async () => {
  const sandbox = createMastraSandbox({ provider: local() });
  const calls = recordCalls(sandbox);
  const outcomes = await Promise.all(Array.from({ length: 10 }, () => sandbox.start()));
  assert.deepEqual(outcomes, Array(10).fill({ outcome: 'created' }));
  assert.deepEqual(await sandbox.start(), { outcome: 'connected' });
  assert.deepEqual(calls, ['create']);
  await sandbox._destroy();
});

test('commands at once on a cold sandbox create one, too', async () => {
  const sandbox = createMastraSandbox({ provider: local() });
  const calls = recordCalls(sandbox);
  const results = await Promise.all([
    ...Array.from({ length: 5 }, () => sandbox.executeCommand('echo x')),
    ...Array.from({ length: 5 }, () => sandbox.processes.spawn('echo x').then(handle => handle.wait())),
    sandbox.sandboxSdk.run('echo x'),
  ]);
  assert.ok(results.every(result => result.stdout === 'x\n'));
  assert.deepEqual(calls, ['create']);
  await sandbox._destroy();
});

test('outcome: a directory that is made is created, one that is there is connected', needsOutcome, async () => {
  const directory = fresh();
  for (const outcome of ['created', 'connected']) {
    const sandbox = createMastraSandbox({ provider: local({ directory }) });
    assert.deepEqual(await sandbox.start(), { outcome });
    await sandbox._destroy();
    assert.ok(existsSync(directory));
  }
});

test('stop ends processes, keeps files, settles waits; start goes on with an empty table', async () => {
  const workspace = createMastraWorkspace({ provider: local() });
  const { sandbox, filesystem } = workspace;
  await filesystem.writeFile('a', 'kept');
  const handle = await sandbox.processes.spawn("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done");
  const daemon = await sandbox.processes.spawn("trap '' TERM; echo up; while :; do sleep 0.05; done");
  await until(() => handle.stdout === 'up\n' && daemon.stdout === 'up\n');
  const waits = Promise.all([handle.wait(), daemon.wait(), sandbox.executeCommand('sleep 60')]);
  await sandbox._stop();
  assert.equal(sandbox.status, 'stopped');
  const [polite, stubborn, command] = await waits;
  assert.deepEqual([polite.stdout, polite.exitCode], ['up\nbye\n', 3]);
  assert.deepEqual([stubborn.exitCode, stubborn.killed, command.success], [137, true, false]);
  assert.deepEqual(await sandbox.processes.list(), []);
  assert.equal(await filesystem.readFile('a', { encoding: 'utf-8' }), 'kept');
  assert.equal(sandbox.status, 'running');
  await workspace.destroy();
});

test('destroy from every state', async () => {
  const pending = createMastraSandbox({ provider: local() });
  const calls = recordCalls(pending);
  await pending._destroy();
  assert.deepEqual([pending.status, calls], ['destroyed', []]);

  const starting = createMastraSandbox({ provider: local() });
  const start = starting._start();
  await starting._destroy();
  await start;
  assert.equal(starting.status, 'destroyed');

  const busy = createMastraSandbox({ provider: local() });
  let running;
  await new Promise(resolve => (running = busy.executeCommand('echo up; sleep 60', [], { onStdout: resolve })));
  await Promise.all([busy._destroy(), busy._destroy()]);
  assert.equal((await running).success, false);

  const stopped = createMastraSandbox({ provider: local() });
  await stopped._start();
  await stopped._stop();
  await stopped._destroy();
  assert.equal(stopped.status, 'destroyed');
  for (const sandbox of [pending, starting, busy, stopped]) {
    await assert.rejects(sandbox.executeCommand('true'), { name: 'SandboxNotReadyError' });
    await assert.rejects(sandbox.processes.spawn('true'), { name: 'SandboxNotReadyError' });
    await assert.rejects(async () => sandbox.start(), /destroyed/);
  }
});

test('start(), stop() and destroy() of whatever core are seen by _destroy() and in the status', async () => {
  const started = createMastraSandbox({ provider: local() });
  const calls = recordCalls(started);
  await started.start();
  assert.equal(started.status, 'running');
  await started.stop();
  assert.equal(started.status, 'stopped');
  await started.start();
  await started._destroy();
  assert.deepEqual([started.status, calls.at(-1)], ['destroyed', 'destroy']);
  const other = createMastraSandbox({ provider: local() });
  await other.start();
  await other.destroy();
  assert.equal(other.status, 'destroyed');
});

test('from pending, stop and shutdown start nothing', async () => {
  const workspace = createMastraWorkspace({ provider: local() });
  const calls = recordCalls(workspace.sandbox);
  await workspace.sandbox._stop();
  await workspace.destroy();
  assert.ok(!calls.includes('create') && !calls.includes('connect'), calls.join());
});

test('a create that failed can be released and tried again', async () => {
  const directory = fresh();
  const sandbox = createMastraSandbox({ provider: local({ directory }) });
  // In the way after the options were checked.
  writeFileSync(directory, '');
  await assert.rejects(sandbox._start(), error => error instanceof core.SandboxError && error.message.includes(directory));
  assert.equal(sandbox.status, 'error');
  rmSync(directory);
  await sandbox._start();
  assert.equal((await sandbox.executeCommand('echo x')).stdout, 'x\n');
  await sandbox._destroy();

  const other = createMastraSandbox({ provider: local({ directory: fresh() }) });
  const calls = recordCalls(other);
  rmSync(scratch, { recursive: true });
  await assert.rejects(other._start(), core.SandboxError);
  await other._destroy();
  assert.equal(other.status, 'destroyed');
  assert.ok(calls.includes('destroy'), 'nothing was released');
  mkdirSync(scratch);
});

test('hooks: order, arguments, errors', needsOutcome, async () => {
  const seen = [];
  let broken = true;
  const workspace = createMastraWorkspace({
    provider: local(),
    onStart: async ({ sandbox, outcome }) => {
      seen.push(`start ${outcome} ${(await sandbox.executeCommand('echo inside')).stdout.trim()}`);
      if (broken) throw new Error('no luck');
    },
    onStop: async ({ sandbox }) => void seen.push(`stop ${(await sandbox.executeCommand('echo inside')).stdout.trim()}`),
    onDestroy: () => void seen.push('destroy'),
    filesystem: { onInit: () => void seen.push('files init'), onDestroy: () => void seen.push('files destroy') },
  });
  const { sandbox } = workspace;
  await assert.rejects(sandbox.start(), error => /onStart hook failed: no luck/.test(error.message) && error.cause.message === 'no luck');
  assert.equal(sandbox.status, 'error');
  broken = false;
  assert.deepEqual(await sandbox.start(), { outcome: 'connected' });
  await workspace.init();
  await sandbox._stop();
  await workspace.destroy();
  assert.deepEqual(seen, ['start created inside', 'start connected inside', 'files init', 'stop inside', 'destroy', 'files destroy']);
});

test('a failing onStop or onDestroy is told, and the sandbox can still be destroyed', async () => {
  for (const name of ['onStop', 'onDestroy']) {
    let broken = true;
    const directory = fresh();
    const sandbox = createMastraSandbox({ provider: local({ directory }), [name]: () => { if (broken) throw new Error(`bad ${name}`); } });
    await sandbox._start();
    const ended = name === 'onStop' ? sandbox._stop() : sandbox._destroy();
    await ended.catch(error => assert.match(error.message, /bad/));
    broken = false;
    await sandbox._destroy();
    assert.equal(sandbox.status, 'destroyed');
  }
});

test('an aborted start starts nothing; setOnStart composes', needsOutcome, async () => {
  const sandbox = createMastraSandbox({ provider: local(), onStart: () => void seen.push('mine') });
  const calls = recordCalls(sandbox);
  const seen = [];
  await assert.rejects(sandbox.start({ abortSignal: AbortSignal.abort('why') }));
  assert.deepEqual(calls, []);
  sandbox.setOnStart(previous => async args => {
    seen.push((await args.sandbox.executeCommand('echo first')).stdout.trim());
    await previous?.(args);
  });
  await sandbox.start();
  assert.deepEqual(seen, ['first', 'mine']);
  await sandbox._destroy();
});

test('Mastra’s logger hears of starts, degradation and the end of a sandbox', async () => {
  const heard = [];
  const logger = Object.fromEntries(['debug', 'info', 'warn', 'error', 'trackException'].map(level => [level, (message, more) => heard.push({ level, message: String(message), more })]));
  const sandbox = createMastraSandbox({ provider: local() });
  sandbox.__setLogger(logger);
  await sandbox._start();
  const start = heard.find(one => one.message.includes(sandbox.id) && /created/.test(one.message));
  assert.equal(start.more.level, 'full');
  const { degraded } = sandbox.getInfo().metadata;
  assert.equal(heard.some(one => one.level === 'warn' && /degraded/.test(one.message)), Boolean(degraded));
  await sandbox._destroy();
});

test('facts: information, working directory, ports, checkpoints, siblings', async () => {
  const sandbox = createMastraSandbox({ provider: local({ ports: [3000] }), id: 'facts', workingDirectory: 'app', env: { A: '1' } });
  assert.equal(await sandbox.networking.getPortUrl(3000), null);
  assert.equal(await sandbox.networking.getPortUrl(1), null);
  assert.equal(sandbox.status, 'pending');
  assert.equal(sandbox.workingDirectory, '/workspace/app');
  assert.ok(!sandbox.supportsCheckpoints);
  await sandbox.snapshot?.();
  assert.equal(sandbox.status, 'pending');
  const { stdout } = await sandbox.executeCommand('pwd; echo $A');
  assert.equal(stdout, '/workspace/app\n1\n');
  const { id, provider, status, createdAt, lastUsedAt, metadata } = sandbox.getInfo();
  assert.deepEqual([id, provider, status, createdAt instanceof Date, lastUsedAt instanceof Date], ['facts', 'local', 'running', true, true]);
  assert.deepEqual([metadata.sandboxId, metadata.sandboxProvider, metadata.cwd, metadata.level], ['facts', 'local', '/workspace', 'full']);
  assert.equal(await sandbox.networking.getPortUrl(1), null);
  const instructions = sandbox.getInstructions();
  for (const word of [/\/workspace\/app/, /isolated/, /network is off/, /Limits: .*\d/]) assert.match(instructions, word);
  const clone = sandbox.clone({ id: 'sibling', env: { A: '2' }, workingDirectory: 'other' });
  assert.equal((await clone.executeCommand('pwd; echo $A; ls -A ..')).stdout, '/workspace/other\n2\nother\n');
  assert.equal(clone.id, 'sibling');
  await sandbox.writeFiles([{ path: 'run', content: '#!/bin/sh\necho ran\n', mode: 0o755 }, { path: '/workspace/b', content: Buffer.from([0xff]) }]);
  assert.equal((await sandbox.executeCommand('./run; od -An -tx1 /workspace/b')).stdout, 'ran\n ff\n');
  for (const mode of [0, 0o1000, 1.5, '644']) await assert.rejects(sandbox.writeFiles([{ path: 'never', content: '', mode }]), { code: 'INVALID_ARGUMENT' });
  await assert.rejects(sandbox.writeFiles([{ path: 'never', content: '' }], { abortSignal: AbortSignal.abort() }), { code: 'ABORTED' });
  assert.equal((await sandbox.executeCommand('test -e never')).exitCode, 1);
  await Promise.all([sandbox._destroy(), clone._destroy()]);
});

test('session folders go with the sandbox', async () => {
  const { TMPDIR } = process.env;
  process.env.TMPDIR = fresh();
  mkdirSync(process.env.TMPDIR);
  const all = Array.from({ length: 3 }, () => createMastraSandbox({ provider: local() }));
  await Promise.all(all.map(sandbox => sandbox._start()));
  assert.equal(readdirSync(tmpdir()).length, 3);
  await Promise.all(all.map(sandbox => sandbox._destroy()));
  assert.deepEqual(readdirSync(tmpdir()), []);
  if (TMPDIR === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = TMPDIR;
});
