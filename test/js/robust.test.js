// What users get wrong, throw or leave alone harms neither Node nor the sandbox.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

import { createSandbox, isSandboxError, withSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';

import { provider as providerOf, where } from '../helpers/providers.js';
import { until, using } from '../helpers/workspace.js';

const MB = 1024 * 1024;
const provider = providerOf();
const mine = new Error('mine');
const invalid = (promise, pattern = /./) =>
  assert.rejects(promise, error => isSandboxError(error, 'invalid_input') && pattern.test(error.message));
const conflict = promise =>
  assert.rejects(promise, { name: 'SandboxError', code: 'conflict', message: /inside onFirstCreate of .* call it after/ });
const children = () =>
  readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(/\s+/).filter(Boolean).length;

test('callbacks that throw or reject are reported once, as a warning', async () => {
  const heard = [];
  const hear = warning => heard.push(warning);
  process.on('warning', hear);
  try {
    await withSandbox({ provider }, async sandbox => {
      const callbacks = {
        onStdout() {
          throw mine;
        },
        onStderr: async () => {
          throw mine;
        },
      };
      const command = 'echo a; echo b >&2; sleep 0.1; echo c; echo d >&2';
      const result = await sandbox.run(command, callbacks);
      assert.deepEqual([result.exitCode, result.stdout, result.stderr], [0, 'a\nc\n', 'b\nd\n']);
      const started = await sandbox.processes.start(command, callbacks);
      assert.equal((await started.wait()).stdout, 'a\nc\n');
    });
    await sleep(10);
  } finally {
    process.off('warning', hear);
  }
  const ours = heard.filter(({ name }) => name === 'SandboxWarning');
  assert.equal(ours.length, 1);
  assert.match(ours[0].message, /failed: mine; later/);
});

test('a logger that throws about a callback that throws', using({}, async ({ sandbox }) => {
  await sandbox.start();
  sandbox.__setLogger({ ...sandbox.logger, debug() {}, warn: () => assert.fail('the logger') });
  const onStdout = () => {
    throw mine;
  };
  assert.equal((await sandbox.executeCommand('echo a', [], { onStdout })).stdout, 'a\n');
}));

test('a reader that nobody reads does not hold up wait()', using({}, async ({ sandbox }) => {
  const spawn = async (command, options) => {
    // A reader gets what comes after it was first asked for.
    const handle = await sandbox.processes.spawn(`read go; ${command}`, options);
    const { reader } = handle;
    await handle.sendStdin('go\n');
    return { handle, reader };
  };
  const much = await spawn('head -c 50000000 /dev/zero');
  assert.equal((await much.handle.wait()).exitCode, 0);
  assert.equal(much.reader.destroyed, true);
  assert.match(much.reader.errored.message, /fell behind/);
  await assert.rejects(async () => {
    for await (const _ of much.reader);
  }, /fell behind/);

  const some = await spawn('head -c 8000000 /dev/zero');
  assert.equal((await some.handle.wait()).exitCode, 0);
  let total = 0;
  for await (const chunk of some.reader) total += chunk.length;
  assert.equal(total, 8_000_000);

  let heard = 0;
  const listened = await spawn('head -c 50000000 /dev/zero', { onStdout: text => (heard += text.length) });
  await until(() => listened.handle.exitCode === 0);
  await until(() => heard === 50_000_000);
}));

test('a reader that is read keeps its back-pressure while somebody waits', using({}, async ({ sandbox }) => {
  const handle = await sandbox.processes.spawn('read go; head -c 40000000 /dev/zero');
  const { reader } = handle;
  await handle.sendStdin('go\n');
  const ended = handle.wait();
  let total = 0;
  for await (const chunk of reader) {
    total += chunk.length;
    if (total < 4 * MB) await sleep(1);
    assert.ok(handle.reader.readableLength < 4 * MB);
  }
  assert.equal(total, 40_000_000);
  assert.equal((await ended).exitCode, 0);
}));

test('a paused reader: the end of the process is seen, and kill ends one that is blocked', using({}, async ({ sandbox }) => {
  const paused = async command => {
    const handle = await sandbox.processes.spawn(command);
    handle.reader.on('data', () => {}).pause();
    return handle;
  };
  assert.equal((await (await paused('head -c 100000 /dev/zero')).wait()).exitCode, 0);
  const blocked = await paused('yes');
  const ended = blocked.wait();
  await sleep(100);
  assert.equal(await blocked.kill(), true);
  assert.equal((await ended).exitCode, 137);
  const freed = await paused('head -c 5000000 /dev/zero');
  freed.reader.resume();
  assert.equal((await freed.wait()).exitCode, 0);
}));

test('what would wait for itself inside onFirstCreate is a conflict', async () => {
  const shared = providerOf();
  const refused = [];
  const tried = async (name, work) => refused.push([name, await work().then(() => 'done', error => error.code)]);
  const sandbox = await createSandbox({
    provider: shared,
    id: 'self',
    identity: 'template',
    async onFirstCreate(inner) {
      await tried('stop', () => inner.stop());
      await tried('destroy', () => inner.destroy());
      await tried('same id', () => createSandbox({ provider: shared, id: 'self' }));
      await tried('same identity', () =>
        createSandbox({ provider: shared, identity: 'template', onFirstCreate: () => {} }));
      await tried('nested', () =>
        withSandbox({ provider: shared, onFirstCreate: () => inner.stop() }, () => {}));
      await tried('another', () => withSandbox({ provider: shared, id: 'another' }, other => other.run('true')));
      await inner.files.write('made', 'x');
    },
  });
  assert.deepEqual(Object.fromEntries(refused), {
    stop: 'conflict',
    destroy: 'conflict',
    'same id': 'conflict',
    'same identity': 'conflict',
    nested: 'conflict',
    another: 'done',
  });
  assert.equal(await sandbox.files.text('made'), 'x');
  await sandbox.destroy();
});

test('the same on the Mastra surface', async () => {
  let go;
  let later;
  const gone = new Promise(resolve => (go = resolve));
  const workspace = createMastraWorkspace({
    provider: providerOf(),
    async onFirstCreate() {
      const { sandbox } = workspace;
      for (const name of ['start', '_start', 'stop', '_stop', 'destroy', '_destroy']) await conflict(sandbox[name]());
      await conflict(sandbox.sandboxSdk.destroy());
      assert.equal((await sandbox.executeCommand('echo fine')).stdout, 'fine\n');
      later = gone.then(() => sandbox._stop());
    },
  });
  await workspace.init();
  assert.equal(workspace.sandbox.status, 'running');
  // The context of the hook outlives it, the refusal does not.
  go();
  await later;
  assert.equal(workspace.sandbox.status, 'stopped');
  await workspace.destroy();
});

test('destroy() removes what stop() keeps, and withSandbox what it made', async () => {
  const shared = providerOf();
  const before = children();
  const one = await createSandbox({ provider: shared, id: 'named' });
  await one.files.write('a', 'x');
  await one.stop();
  const two = await createSandbox({ provider: shared, id: 'named' });
  assert.equal(await two.files.text('a'), 'x');
  await two.stop();
  await two.destroy();
  await two.destroy();
  assert.equal(two.status, 'destroyed');
  await assert.rejects(two.run('true'), { code: 'conflict' });
  const three = await createSandbox({ provider: shared, id: 'named' });
  assert.equal(await three.files.exists('a'), false);
  await withSandbox({ provider: shared, id: 'named' }, sandbox => sandbox.files.write('b', 'y'));
  assert.equal(await three.files.text('b'), 'y');
  await three.destroy();
  for (let i = 0; i < 5; i++) await withSandbox({ provider: shared, id: `user-${i}` }, sandbox => sandbox.run('true'));
  if (where === 'local') await until(() => children() <= before);
});

test('destroy() after stop() with a root', async () => {
  const root = mkdtempSync(path.join(tmpdir(), 'robust-'));
  try {
    const rooted = local({ root });
    await withSandbox({ provider: rooted, id: 'kept' }, sandbox => sandbox.files.write('a', 'x'));
    const found = await createSandbox({ provider: rooted, id: 'kept' });
    assert.equal(await found.files.text('a'), 'x');
    await found.stop();
    await found.destroy();
    assert.deepEqual(readdirSync(root).filter(name => name.startsWith('kept')), []);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
});

test('stdin of run()', async () => {
  await withSandbox({ provider }, async sandbox => {
    const half = async function* () {
      yield 'half of ';
      throw mine;
    };
    await assert.rejects(sandbox.run('cat > got; sleep 60', { stdin: half() }), error => error === mine);
    await invalid(sandbox.run('cat', { stdin: [5] }), /a stream must give/);
    for (const stdin of [5, {}, () => {}, Symbol('x'), new Proxy(new Uint8Array(2), {})]) {
      await invalid(sandbox.run('touch started', { stdin }), /stdin must be a string/);
      await invalid(sandbox.processes.start('touch started', { stdin }), /stdin must be a string/);
    }
    await invalid(sandbox.run('touch started', { stdin: true }), /processes\.start\(\)/);
    assert.equal(await sandbox.files.exists('started'), false);
    assert.equal((await sandbox.run('head -c 1', { stdin: Buffer.alloc(4 * MB, 'a') })).stdout, 'a');
    assert.equal((await sandbox.run('cat', { stdin: ['a', Buffer.from('b'), new Blob(['c'])] })).stdout, 'abc');
    const process = await sandbox.processes.start('sleep 60', { stdin: half() });
    assert.equal((await process.wait()).killed, true);
  });
});

const heirs = [Uint8Array, ArrayBuffer, DataView, Blob].map(one => Object.create(one.prototype));
const impostors = [new Proxy(new Uint8Array(2), {}), ...heirs];
const transferred = new Uint8Array(8);
structuredClone(transferred.buffer, { transfer: [transferred.buffer] });
const noText = [undefined, null, 5, Symbol('x'), Object.create(null), {}, { toString: () => assert.fail('asked') }, ...impostors, transferred];

test('content that is neither text nor bytes writes nothing', using({}, async ({ sandbox, filesystem }) => {
  for (const content of noText) {
    await invalid(sandbox.sandboxSdk.files.write('f', content));
    await invalid(sandbox.writeFiles([{ path: 'f', content: 'x' }, { path: 'g', content }]));
    for (const call of ['writeFile', 'appendFile']) {
      await assert.rejects(filesystem[call]('f', content), { name: 'FilesystemError', code: 'invalid_input' });
    }
  }
  assert.equal(await filesystem.exists('f'), false);
  await filesystem.writeFile('f', new Uint16Array([0x6261]));
  assert.equal(await filesystem.readFile('f', { encoding: 'utf8' }), 'ab');
}));

test('input that is neither text nor bytes', using({}, async ({ sandbox }) => {
  const handle = await sandbox.processes.spawn('cat');
  const process = await sandbox.sandboxSdk.processes.start('cat');
  for (const data of noText) {
    await invalid(handle.sendStdin(data));
    await invalid(process.write(data));
  }
  for (const one of [handle, process]) {
    await (one.sendStdin ? one.sendStdin('a') : one.write('a'));
    await one.closeStdin();
    assert.equal((await one.wait()).stdout, 'a');
  }
}));

test('arguments of wrong types', using({}, async ({ sandbox, filesystem }) => {
  const sdk = sandbox.sandboxSdk;
  for (const files of [null, [null], [undefined], [5], ['x'], [{}], [{ path: Symbol('x'), content: '' }], [{ path: '', content: '' }]]) {
    await invalid(sandbox.writeFiles(files));
  }
  for (const mode of [Symbol('x'), 10n, 'x', {}, Object.create(null), NaN]) {
    await assert.rejects(sandbox.writeFiles([{ path: 'm', content: 'x', mode }]), { code: 'INVALID_ARGUMENT' });
    await invalid(sdk.files.write('m', 'x', { mode }));
  }
  for (const expectedMtime of [10n, Symbol('x'), {}, Object.create(null), true, new Date(NaN), 'x']) {
    await assert.rejects(filesystem.writeFile('m', 'x', { expectedMtime }), { name: 'FilesystemError', code: 'invalid_input' });
  }
  for (const extension of [5, [null], [Symbol('x')], {}]) {
    await assert.rejects(filesystem.readdir('.', { extension }), { name: 'FilesystemError', code: 'invalid_input' });
  }
  for (const wrong of [Symbol('x'), Object.create(null), 5]) {
    await assert.rejects(filesystem.readFile(wrong), { name: 'FilesystemError', code: 'invalid_input' });
    await invalid(sdk.files.list(wrong));
  }
  for (const wrong of [5, 'x', Symbol('x'), { onStdout: 5 }, { abortSignal: {} }]) {
    await invalid(sandbox.processes.spawn('true', wrong));
    const handle = await sandbox.processes.spawn('true');
    await invalid(handle.wait(wrong));
    assert.equal((await handle.wait(null)).exitCode, 0);
  }
  assert.equal((await (await sandbox.processes.spawn('true', null)).wait()).exitCode, 0);
  assert.equal((await sandbox.executeCommand('true', null, null)).exitCode, 0);
  for (const wrong of [5, 'x', Symbol('x'), []]) {
    await invalid(sandbox.executeCommand('true', [], wrong));
    await invalid(sandbox.executeCommand('true', [], { env: wrong }));
  }
  for (const wrong of [10n, Symbol('x'), Object.create(null)]) {
    for (const call of [
      () => filesystem.readFile('m', { encoding: wrong }),
      () => filesystem.readdir('.', { recursive: true, maxDepth: wrong }),
      () => filesystem.walk('.', { maxDepth: wrong }),
      () => filesystem.grep(wrong),
      () => filesystem.grep({ pattern: wrong, path: '.' }),
      () => filesystem.grep({ pattern: 'x', path: '.', contextLines: wrong }),
    ]) {
      await assert.rejects(call, { name: 'FilesystemError', code: 'invalid_input' });
    }
  }
  assert.equal(await filesystem.exists('m'), false);
}));

test('a signal whose addEventListener throws starts nothing', using({}, async ({ sandbox }) => {
  const signal = {
    aborted: false,
    addEventListener() {
      throw mine;
    },
    removeEventListener() {},
  };
  await sandbox.start();
  await invalid(sandbox.executeCommand('touch a', [], { abortSignal: signal }));
  await invalid(sandbox.processes.spawn('touch b', { abortSignal: signal }));
  await invalid(sandbox.sandboxSdk.run('touch c', { signal }));
  await invalid(sandbox.sandboxSdk.processes.start('touch d', { signal }));
  assert.equal((await sandbox.executeCommand('ls')).stdout, '');
}));

test('input that nobody waits for, and a kill', async () => {
  const script = `
    import { createSandbox } from 'sandbox-sdk-native';
    import { local } from 'sandbox-sdk-native/local';
    import { createMastraSandbox } from 'sandbox-sdk-native/mastra';
    const mastra = createMastraSandbox({ provider: local() });
    const handle = await mastra.processes.spawn('sleep 60');
    handle.sendStdin(Buffer.alloc(4 << 20));
    await handle.kill();
    await handle.wait();
    handle.sendStdin('x');
    handle.closeStdin();
    const process = await mastra.sandboxSdk.processes.start('sleep 60');
    process.write(Buffer.alloc(4 << 20));
    await process.kill();
    process.write('x');
    process.closeStdin();
    await new Promise(resolve => setTimeout(resolve, 50));
    await mastra._destroy();
    console.log('alive');
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
    cwd: new URL('../..', import.meta.url),
  });
  assert.equal(stdout, 'alive\n');
  await withSandbox({ provider }, async sandbox => {
    const handle = await sandbox.processes.start('sleep 60');
    const sent = handle.write(Buffer.alloc(4 << 20));
    await handle.kill();
    await assert.rejects(sent, { name: 'SandboxError', code: 'conflict' });
  });
});

test('options that nobody knows, or that throw when they are read', async () => {
  const throwing = {
    get cwd() {
      throw mine;
    },
  };
  const revoked = Proxy.revocable({}, {});
  revoked.revoke();
  for (const options of [throwing, revoked.proxy]) {
    for (const make of [() => local(options), () => createSandbox(options), () => createMastraWorkspace(options)]) {
      assert.throws(make, error => isSandboxError(error, 'invalid_input') && !/mine is/.test(error.message));
    }
  }
  assert.throws(() => local({ limits: { get memory() { throw mine; } } }), { code: 'invalid_input', message: /limits cannot be read: mine/ });
  await withSandbox({ provider }, async sandbox => {
    for (const call of [options => sandbox.run('touch a', options), options => sandbox.processes.start('touch a', options)]) {
      await invalid(call(throwing), /cannot be read: mine/);
      await invalid(call({ timeuot: 5 }), /has no "timeuot"; it knows cwd, env/);
    }
    await invalid(sandbox.run('touch a', { pty: true }), /run\(\) has no "pty"/);
    await invalid(sandbox.files.write('a', 'x', { get mode() { throw mine; } }), /cannot be read/);
    assert.equal(await sandbox.files.exists('a'), false);
    assert.deepEqual(Object.keys(sandbox.metadata).filter(name => name.startsWith('env.')), []);
  });
});

test('what isolation "none" cannot hold is refused', async () => {
  await assert.rejects(async () => createSandbox({ provider: local({ isolation: 'none', network: 'deny' }) }), {
    code: 'invalid_input',
    message: /network "deny" needs isolation/,
  });
  await withSandbox({ provider: local({ isolation: 'none', limits: { processes: 100 } }) }, sandbox => {
    assert.equal(sandbox.metadata.network, 'allow');
    assert.equal(sandbox.metadata['limits.processes'], undefined);
    assert.match(sandbox.metadata.degraded, /limits\.processes is not enforced/);
  });
});
