// The life of a sandbox as Mastra sees it: outcomes, hooks, sharing, templates.
// On the fake addon, whose calls are counted.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, test } from 'node:test';

import * as core from '@mastra/core/workspace';

import { skip } from './with-fake.js';

const { createSandbox, supports } = await import('../../js/index.js');
const { local } = await import('../../js/local.js');
const { createMastraSandbox, createMastraWorkspace } = await import('../../js/mastra/index.js');
const { fake } = await import('./fake-native.js');

beforeEach(() => {
  fake.opened.length = 0;
  fake.failCreate = false;
});

const run = (name, work) => test(name, { skip }, work);
// Outcomes, hooks that fail a start and Workspace.stop came with later cores.
const old = core.MastraSandbox.prototype.setOnStart === undefined && 'this @mastra/core has no start outcome';
const modern = (name, work) => test(name, { skip: skip || old }, work);
const calls = (index = 0) => fake.opened[index].calls;

modern('ten starts at once make one sandbox', async () => {
  const sandbox = createMastraSandbox({ provider: local() });
  const results = await Promise.all(Array.from({ length: 10 }, () => sandbox.start()));
  for (const result of results) assert.deepEqual(result, { outcome: 'created' });
  assert.deepEqual(calls(), ['find', 'create']);
  assert.deepEqual(await sandbox.start(), { outcome: 'connected' });
  await sandbox._destroy();
  assert.deepEqual(calls(), ['find', 'create', 'destroy', 'stop', 'close']);
  await assert.rejects(sandbox.start(), /Cannot start a destroyed sandbox/);
  await assert.rejects(sandbox.executeCommand('true'), { name: 'SandboxNotReadyError' });
});

modern('stop keeps the files and the next command starts again', async () => {
  const outcomes = [];
  const sandbox = createMastraSandbox({ provider: local(), onStart: ({ outcome }) => outcomes.push(outcome) });
  await sandbox.executeCommand('echo x > a');
  const handle = await sandbox.processes.spawn('sleep 60');
  await sandbox._stop();
  assert.equal(handle.exitCode, 137);
  assert.equal(sandbox.status, 'stopped');
  const { stdout } = await sandbox.executeCommand('cat a');
  assert.equal(stdout, 'x\n');
  assert.deepEqual(await sandbox.processes.list(), []);
  assert.deepEqual(outcomes, ['created', 'connected']);
  await sandbox._destroy();
});

modern('from pending, stop and destroy make nothing', async () => {
  const one = createMastraWorkspace({ provider: local() });
  await one.stop();
  await one.destroy();
  const two = createMastraWorkspace({ provider: local() });
  await two.destroy();
  assert.deepEqual([...calls(0), ...calls(1)], []);
});

modern('a create that fails says why and can be released', async () => {
  fake.failCreate = true;
  const sandbox = createMastraSandbox({ provider: local() });
  await assert.rejects(
    sandbox.start(),
    error =>
      error instanceof core.IsolationUnavailableError &&
      error.step === 'user_namespace' &&
      error.errno === 'EPERM' &&
      /could not be set up/.test(error.message),
  );
  assert.equal(sandbox.status, 'error');
  fake.failCreate = false;
  assert.deepEqual(await sandbox.start(), { outcome: 'created' });
  await sandbox._stop();
  fake.failCreate = true;
  const other = createMastraSandbox({ provider: local() });
  await assert.rejects(other.executeCommand('true'), core.SandboxError);
  await other._destroy();
  assert.deepEqual(calls(1), ['find', 'create', 'destroy', 'close']);
  await assert.rejects(createSandbox({ provider: local() }), { name: 'SandboxError', code: 'unavailable', step: 'user_namespace' });
  await sandbox._destroy();
});

modern('a failing onStart fails the start and is tried again', async () => {
  let broken = true;
  const sandbox = createMastraSandbox({
    provider: local(),
    onStart() {
      if (broken) throw new Error('no luck');
    },
  });
  await assert.rejects(sandbox.start(), /onStart hook failed: no luck/);
  broken = false;
  assert.deepEqual(await sandbox.start(), { outcome: 'connected' });
  assert.deepEqual(calls(), ['find', 'create']);
  await sandbox._destroy();
});

modern('setOnStart composes', async () => {
  const seen = [];
  const sandbox = createMastraSandbox({ provider: local(), onStart: () => void seen.push('first') });
  sandbox.setOnStart(previous => async args => {
    await previous?.(args);
    const { stdout } = await args.sandbox.executeCommand('echo second');
    seen.push(stdout.trim(), args.outcome);
  });
  await sandbox.start();
  assert.deepEqual(seen, ['first', 'second', 'created']);
  await sandbox._destroy();
});

run('onFirstCreate: for created sandboxes only, and it may use everything', async () => {
  const directory = mkdtempSync(path.join(tmpdir(), 'shim-'));
  const made = path.join(directory, 'new');
  const provider = local({ directory: made });
  let count = 0;
  const make = () =>
    createMastraWorkspace({
      provider,
      onFirstCreate: async sandbox => {
        count++;
        await sandbox.files.write('a', 'x');
        assert.equal((await sandbox.run('cat a')).stdout, 'x');
        await one.filesystem.writeFile('b', 'y');
        assert.equal((await one.sandbox.executeCommand('cat b')).stdout, 'y');
      },
    });
  const one = make();
  await one.init();
  await one.destroy();
  const two = make();
  await two.init();
  assert.equal(count, 1);
  assert.deepEqual(await two.sandbox.start(), { outcome: 'connected' });
  await two.destroy();
  rmSync(directory, { recursive: true });
});

run('onFirstCreate that fails is tried again', async () => {
  let broken = true;
  let count = 0;
  const sandbox = createMastraSandbox({
    provider: local(),
    identity: 'x',
    onFirstCreate() {
      count++;
      if (broken) throw new Error('no luck');
    },
  });
  await assert.rejects(sandbox.start(), error => error instanceof core.SandboxError && /onFirstCreate failed: no luck/.test(error.message));
  broken = false;
  assert.deepEqual(await sandbox.start(), { outcome: 'created' });
  assert.equal(count, 2);
  assert.deepEqual(calls(), ['find', 'create']);
  await sandbox._destroy();
});

run('an identity is prepared once and copied', async () => {
  const provider = local();
  let count = 0;
  const make = identity =>
    createMastraWorkspace({
      provider,
      identity,
      async onFirstCreate(sandbox) {
        count++;
        await sandbox.files.write('bin/run', '#!/bin/sh\necho ran\n', { mode: 0o755 });
        await sandbox.run('ln -s bin/run link; mkdir -p empty/.hidden; printf "\\377\\000" > bytes');
      },
    });
  const all = [make('i'), make('i'), make('i')];
  await Promise.all(all.map(workspace => workspace.init()));
  assert.equal(count, 1);
  await all[0].filesystem.writeFile('later', 'x');
  all.push(make('i'));
  await all[3].init();
  for (const workspace of all) {
    const { stdout } = await workspace.sandbox.executeCommand('./link; ls -d empty/.hidden; od -An -tx1 bytes');
    assert.equal(stdout, 'ran\nempty/.hidden\n ff 00\n');
  }
  assert.equal(await all[3].filesystem.exists('later'), false);
  all.push(make('j'));
  await all[4].init();
  assert.equal(count, 2);
  await Promise.all(all.map(workspace => workspace.destroy()));
});

run('a waiting session of an identity takes over when the first one fails', async () => {
  const provider = local();
  let count = 0;
  const make = () =>
    createMastraSandbox({
      provider,
      identity: 'i',
      async onFirstCreate() {
        if (count++ === 0) throw new Error('first');
      },
    });
  const [one, two] = [make(), make()];
  const results = await Promise.allSettled([one.start(), two.start()]);
  assert.deepEqual(results.map(result => result.status), ['rejected', 'fulfilled']);
  assert.equal(count, 2);
  await Promise.all([one._destroy(), two._destroy()]);
});

modern('one id is one sandbox, for as long as somebody uses it', async () => {
  const provider = local();
  const [one, two] = [1, 2].map(() => createMastraWorkspace({ provider, id: 'same' }));
  const starts = await Promise.all([one.sandbox.start(), two.sandbox.start()]);
  assert.deepEqual(starts.map(start => start.outcome).sort(), ['connected', 'created']);
  await one.filesystem.writeFile('a', 'x');
  const mine = await one.sandbox.processes.spawn('sleep 60');
  const theirs = await two.sandbox.processes.spawn('sleep 60');
  await one.destroy();
  assert.equal(mine.exitCode, 137);
  assert.equal(theirs.exitCode, undefined);
  assert.equal(await two.filesystem.readFile('a', { encoding: 'utf8' }), 'x');
  const sdk = await createSandbox({ provider, id: 'same' });
  assert.equal(await sdk.files.text('a'), 'x');
  await sdk.stop();
  assert.equal(await two.filesystem.exists('a'), true);
  await two.destroy();
  const three = createMastraSandbox({ provider, id: 'same' });
  assert.deepEqual(await three.start(), { outcome: 'created' });
  await three._destroy();
  assert.throws(
    () => createMastraSandbox({ provider, id: 'same', cwd: '/elsewhere', onStart: () => {} }) && createMastraSandbox({ provider, id: 'x', cwd: 'y' }),
    { code: 'invalid_input' },
  );
});

run('a sandbox that dies is started again by the next command', async () => {
  const sandbox = createMastraSandbox({ provider: local() });
  await sandbox.start();
  fake.opened[0].state = 'dead';
  const { exitCode } = await sandbox.executeCommand('true');
  assert.equal(exitCode, 0);
  fake.opened[0].state = 'dead';
  const handle = await sandbox.processes.spawn('true');
  assert.equal((await handle.wait()).exitCode, 0);
  fake.opened[0].state = 'dead';
  assert.equal((await sandbox.sandboxSdk.run('cat', { stdin: 'fed once' })).stdout, 'fed once');
  fake.opened[0].state = 'dead';
  const results = await Promise.all(Array.from({ length: 5 }, () => sandbox.executeCommand('echo x')));
  assert.ok(results.every(result => result.stdout === 'x\n'));
  assert.equal(calls().filter(call => call === 'connect').length, 4, 'started once for each death');
  await sandbox._destroy();
});

run('after destroy the filesystem says that the sandbox is gone', async () => {
  const workspace = createMastraWorkspace({ provider: local() });
  await workspace.init();
  await workspace.destroy();
  for (const call of ['readFile', 'stat', 'exists', 'readdir']) {
    await assert.rejects(workspace.filesystem[call]('a'), { name: 'SandboxNotReadyError' }, call);
  }
});

run('information without I/O, in every state', async () => {
  const workspace = createMastraWorkspace({ provider: local(), id: 'me', workingDirectory: 'app', instructions: undefined });
  const { sandbox, filesystem } = workspace;
  assert.equal(filesystem.id, 'me-filesystem');
  assert.equal(sandbox.workingDirectory, '/workspace/app');
  for (const _ of [1, 2]) {
    const info = sandbox.getInfo();
    assert.deepEqual([info.id, info.provider, info.status], ['me', 'local', sandbox.status]);
    assert.ok(info.createdAt instanceof Date);
    const { sandboxId, sandboxProvider, cwd, capabilities, level, path: leaked } = info.metadata;
    assert.deepEqual([sandboxId, sandboxProvider, cwd, level, leaked], ['me', 'local', '/workspace', 'full', undefined]);
    assert.equal(capabilities.files, 'native');
    assert.match(workspace.getInstructions(), /\/workspace\/app.*network is off[^]*name the same file/);
    await sandbox._start();
  }
  assert.deepEqual(calls(), ['find', 'create']);
  const { stdout } = await sandbox.executeCommand('echo x > y');
  assert.equal(stdout, '');
  assert.equal(await filesystem.readFile('/app/y', { encoding: 'utf8' }), 'x\n');
  assert.ok(sandbox.getInfo().lastUsedAt instanceof Date);
  assert.match(createMastraSandbox({ provider: local() }).id, /^mastra-local-[0-9a-f-]{36}$/);
  assert.equal(await sandbox.networking.getPortUrl(3000), null);
  assert.equal(core.supportsNetworking?.(sandbox) ?? true, true);
  await workspace.destroy();
});

run('instructions: replaced, extended, silenced', async () => {
  const provider = local();
  assert.equal(createMastraSandbox({ provider, instructions: 'mine' }).getInstructions(), 'mine');
  assert.equal(createMastraSandbox({ provider, instructions: '' }).getInstructions(), '');
  const extended = createMastraWorkspace({
    provider,
    instructions: ({ defaultInstructions, requestContext }) => `${defaultInstructions}+${requestContext}`,
    filesystem: { instructions: 'files' },
  });
  assert.match(extended.sandbox.getInstructions({ requestContext: 'ctx' }), /workspace.*\+ctx$/);
  assert.equal(extended.filesystem.getInstructions(), 'files');
});

run('what was read is never taken for that of another sandbox', () => {
  const provider = local();
  const base = options => createMastraWorkspace({ provider, ...options }).filesystem.basePath;
  assert.notEqual(base(), base());
  assert.equal(base({ id: 'a' }), base({ id: 'a' }));
  assert.notEqual(base({ id: 'a' }), base({ id: 'b' }));
  const given = local({ directory: '/tmp/given' });
  assert.equal(createMastraWorkspace({ provider: given }).filesystem.basePath, '/tmp/given');
});

run('a declared port', async () => {
  const sandbox = createMastraSandbox({ provider: local({ ports: [3000] }), ports: [4000] });
  assert.equal(await sandbox.networking.getPortUrl(3000), null);
  assert.equal(sandbox.status, 'pending');
  assert.equal(await sandbox.getPortUrl(4000, 'https'), 'https://127.0.0.1:44000');
  assert.equal(await sandbox.networking.getPortUrl(3000), 'http://127.0.0.1:43000');
  assert.equal(await sandbox.networking.getPortUrl(5000), null);
  assert.deepEqual(fake.opened[0].options.ports, ['3000', '4000']);
  await assert.rejects(sandbox.getPortUrl(5000), { code: 'invalid_input' });
  assert.equal(sandbox.status, 'running');
  await sandbox._destroy();
});

run('a clone is a sibling of its own', async () => {
  const sandbox = createMastraSandbox({ provider: local(), id: 'a', env: { A: '1' }, workingDirectory: 'w' });
  const clone = sandbox.clone({ env: { B: '2' } });
  assert.notEqual(clone.id, 'a');
  assert.deepEqual(clone.getEnv(), { B: '2' });
  assert.equal(clone.workingDirectory, '/workspace/w');
  assert.equal(sandbox.clone({ id: 'b' }).id, 'b');
  assert.deepEqual(calls(), []);
});

run('the capabilities of a provider are read once, and nothing stays open', () => {
  const provider = local();
  assert.equal(supports(provider, 'files'), true);
  assert.equal(supports(provider, 'nothing'), false);
  assert.equal(fake.opened.length, 1);
  assert.deepEqual(calls(), ['close']);
});
