// Commands and processes as the shim passes them on and hands them back. On the
// fake addon; what the engine itself does is tested elsewhere.
import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { after, before, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import * as core from '@mastra/core/workspace';

import { skip } from './with-fake.js';
import { withinLimit } from '../helpers/limit.js';

const { argvFor, isProgram, quote } = await import('../../js/command.js');
const { createSandbox, isSandboxError, withSandbox } = await import('../../js/index.js');
const { local } = await import('../../js/local.js');
const { createMastraSandbox, SandboxSdkProcessHandle } = await import('../../js/mastra/index.js');
const { fake } = await import('./fake-native.js');

let sandbox;
before(async () => {
  if (skip) return;
  sandbox = createMastraSandbox({ provider: local({ env: { BASE: 'base' } }), env: { A: 'overlay', B: 'overlay' } });
  await sandbox.executeCommand('mkdir -p sub "a b"');
});
after(() => sandbox?._destroy());
beforeEach(() => (fake.specs.length = 0));

const run = (name, work) => test(name, { skip }, work);
const spec = () => fake.specs.at(-1);

test('argv: programs run as they are, everything else in a shell', () => {
  const sh = '/bin/sh';
  assert.deepEqual(argvFor(sh, 'echo hi'), [sh, '-c', 'echo hi']);
  assert.deepEqual(argvFor(sh, '-x; echo'), [sh, '-c', '--', '-x; echo']);
  assert.deepEqual(argvFor(sh, '+x'), [sh, '-c', '--', '+x']);
  assert.deepEqual(argvFor(sh, 'git', ['a b', '{}', '+', '!', '']), ['git', 'a b', '{}', '+', '!', '']);
  assert.deepEqual(argvFor(sh, 'cd', ['x']), [sh, '-c', 'cd x']);
  assert.deepEqual(argvFor(sh, 'FOO=1 env', ['a b']), [sh, '-c', "FOO=1 env 'a b'"]);
  assert.deepEqual(argvFor(sh, 'ls | wc', ["it's"]), [sh, '-c', "ls | wc 'it'\\''s'"]);
  assert.equal(quote('a/b-c_d=e:f@g.h'), 'a/b-c_d=e:f@g.h');
  for (const word of ['FOO=1', 'a b', '~/x', '$X', 'a;b', 'source', '[[', 'a\nb', '']) assert.equal(isProgram(word), false, word);
  for (const word of ['git', './a', '/bin/x', 'g++', 'python3.11', 'test', 'echo']) assert.equal(isProgram(word), true, word);
});

run('the result has every key, and the command as Mastra writes it', async () => {
  const result = await sandbox.executeCommand('sh', ['-c', 'echo out; echo err >&2; exit 3']);
  assert.equal(typeof result.executionTimeMs, 'number');
  delete result.executionTimeMs;
  assert.deepEqual(result, {
    success: false,
    exitCode: 3,
    stdout: 'out\n',
    stderr: 'err\n',
    killed: false,
    timedOut: false,
    stdoutTruncated: false,
    stderrTruncated: false,
    stdoutDroppedBytes: 0,
    stderrDroppedBytes: 0,
    command: "sh -c 'echo out; echo err >&2; exit 3'",
  });
  assert.deepEqual(
    [spec().stdin, spec().collect, spec().retain, spec().listenStdout, spec().timeout],
    [undefined, true, Infinity, 0, 0],
  );
  assert.deepEqual(await sandbox.processes.list(), []);
});

run('cwd in every spelling', async () => {
  const at = async cwd => {
    await sandbox.executeCommand('true', [], { cwd }).catch(() => {});
    return spec().cwd;
  };
  for (const root of [undefined, '', '.', '/', '/workspace', '/workspace/', 'sub/..']) assert.equal(await at(root), '/workspace', root);
  for (const sub of ['sub', './sub/', '/workspace/sub', '/sub', '/workspace/x/../sub', '/workspace//sub']) {
    assert.equal(await at(sub), '/workspace/sub', sub);
  }
  assert.equal(await at('/tmp'), '/tmp');
  assert.equal(await at('/no/such'), '/workspace/no/such');
  await assert.rejects(sandbox.executeCommand('true', [], { cwd: 'nope' }), error => {
    return error instanceof core.SandboxExecutionError && /"\/workspace\/nope" does not exist/.test(error.message);
  });
  await assert.rejects(sandbox.processes.spawn('true', { cwd: 'nope' }), /does not exist/);
});

run('environment: base, provider, overlay, call; undefined removes', async () => {
  const env = async options => {
    await sandbox.executeCommand('true', [], options);
    return Object.fromEntries(spec().env.map(one => one.split('=')));
  };
  const plain = await env();
  assert.deepEqual([plain.BASE, plain.A, plain.B, 'HOME' in plain], ['base', 'overlay', 'overlay', true]);
  const list = spec().env;
  await env();
  assert.equal(spec().env, list, 'the list is made anew for each command');
  const own = await env({ env: { A: 'call', B: undefined, HOME: undefined, N: 5 } });
  assert.deepEqual([own.A, own.B, own.HOME, own.N], ['call', undefined, undefined, '5']);
  process.env.HOST_SECRET = 'x';
  assert.equal((await env()).HOST_SECRET, undefined);
  delete process.env.HOST_SECRET;

  const copy = sandbox.getEnv();
  copy.A = 'changed';
  assert.equal(sandbox.getEnv().A, 'overlay');
  sandbox.setEnv(before => ({ ...before, C: 'new' }));
  assert.equal((await env()).C, 'new');
  await (await sandbox.processes.spawn('true', { env: { A: 'call' } })).wait();
  const spawned = spec().env.filter(one => /^(A|C)=/.test(one));
  assert.deepEqual(spawned, ['A=call', 'C=new']);
  sandbox.setEnv(() => ({}));
  const left = await env();
  assert.deepEqual([left.A, left.C, left.BASE], [undefined, undefined, 'base']);
  assert.throws(() => sandbox.setEnv(() => ({ 'A=': 'x' })), { code: 'invalid_input' });
  assert.throws(() => sandbox.setEnv({}), { code: 'invalid_input' });
  sandbox.setEnv(() => ({ A: 'overlay', B: 'overlay' }));
});

run('abort: before, during, after', async () => {
  const gone = AbortSignal.abort();
  const result = await sandbox.executeCommand('echo x', [], { abortSignal: gone });
  assert.deepEqual([fake.specs.length, result.exitCode, result.killed, result.success], [0, 137, true, false]);
  const controller = new AbortController();
  const running = sandbox.executeCommand('echo part; sleep 60', [], { abortSignal: controller.signal, onStdout: () => controller.abort() });
  const { exitCode, killed, stdout } = await running;
  assert.deepEqual([exitCode, killed, stdout], [137, true, 'part\n']);
  const later = new AbortController();
  assert.equal((await sandbox.executeCommand('true', [], { abortSignal: later.signal })).exitCode, 0);
  later.abort();
  const fresh = createMastraSandbox({ provider: local() });
  assert.equal((await fresh.executeCommand('true', [], { abortSignal: gone })).exitCode, 137);
  assert.equal(fresh.status, 'pending');
});

run('a timeout says so on stderr, to listeners, too', async () => {
  let heard;
  const result = await withinLimit(timeout => {
    heard = '';
    return sandbox.executeCommand('echo a >&2; sleep 60', [], { timeout, onStderr: text => (heard += text) });
  }, one => one.stderr.startsWith('a'));
  assert.deepEqual([result.exitCode, result.timedOut, result.killed], [124, true, true]);
  assert.equal(result.stderr, `a\n\nProcess timed out after ${result.limit}ms`);
  assert.equal(heard, result.stderr);
  const handle = await sandbox.processes.spawn('sleep 60', { timeout: 100 });
  const waited = await handle.wait();
  assert.deepEqual([waited.exitCode, waited.timedOut, handle.stderr], [124, true, '\nProcess timed out after 100ms']);
});

run('callbacks that throw or reject do no harm, keep their context and are reported once', async () => {
  const storage = new AsyncLocalStorage();
  const seen = new Set();
  const warnings = [];
  const loud = createMastraSandbox({ provider: local() });
  loud.__setLogger({ debug() {}, info() {}, warn: text => warnings.push(text), error() {}, trackException() {} });
  const result = await storage.run('mine', () =>
    loud.executeCommand('echo a; sleep 0.05; echo b; echo c >&2', [], {
      onStdout() {
        seen.add(storage.getStore());
        throw new Error('thrown');
      },
      onStderr: async () => {
        throw new Error('rejected');
      },
    }),
  );
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['a\nb\n', 'c\n', 0]);
  await sleep(10);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0], /callback failed/);
  assert.deepEqual([...seen], ['mine']);
  await loud._destroy();
});

run('a handle: output, stdin, exit', async () => {
  const handle = await sandbox.processes.spawn('cat; echo bye; exit 5');
  assert.ok(handle instanceof core.ProcessHandle && handle instanceof SandboxSdkProcessHandle);
  assert.match(handle.pid, /^\d+$/);
  assert.equal(handle.exitCode, undefined);
  assert.equal(handle.command, 'cat; echo bye; exit 5');
  await handle.sendStdin('héllo\n');
  await handle.closeStdin();
  await handle.closeStdin();
  await assert.rejects(handle.sendStdin('x'), { code: 'ERR_STREAM_WRITE_AFTER_END' });
  const heard = [];
  const one = await handle.wait({ onStdout: text => heard.push(text) });
  assert.deepEqual(one, await handle.wait());
  assert.deepEqual([one.exitCode, one.success, one.stdout, one.killed, one.timedOut], [5, false, 'héllo\nbye\n', false, false]);
  assert.equal(Object.keys(one).length, 11);
  assert.equal(handle.exitCode, 5);
  await assert.rejects(handle.sendStdin('x'), { message: `Process ${handle.pid} has already exited with code 5` });
  await assert.rejects(handle.closeStdin(), /already exited with code 5/);
  assert.equal(await handle.kill(), false);
});

run('exitCode changes by itself; get gives an ended handle once', async () => {
  const handle = await sandbox.processes.spawn('exit 7');
  while (handle.exitCode === undefined) await sleep(5);
  assert.equal(handle.exitCode, 7);
  const listed = async () => (await sandbox.processes.list()).filter(one => one.pid === handle.pid);
  assert.deepEqual(await listed(), [{ pid: handle.pid, command: 'exit 7', running: false, exitCode: 7 }]);
  assert.equal(await sandbox.processes.get(handle.pid), handle);
  assert.equal(await sandbox.processes.get(handle.pid), undefined);
  assert.deepEqual(await listed(), []);
});

run('kill: of a handle, of the manager', async () => {
  const handle = await sandbox.processes.spawn('sleep 60');
  assert.deepEqual(await Promise.all([handle.kill(), handle.kill()]), [true, true]);
  const { exitCode, killed } = await handle.wait();
  assert.deepEqual([exitCode, killed, await handle.kill()], [137, true, false]);
  const other = await sandbox.processes.spawn('sleep 60');
  assert.equal(await sandbox.processes.kill(other.pid), true);
  assert.equal(other.exitCode, 137);
  assert.equal(await sandbox.processes.kill(other.pid), false);
  assert.equal(await sandbox.processes.kill('999999'), false);
  const waited = await sandbox.processes.spawn('sleep 60');
  assert.equal((await waited.wait({ abortSignal: AbortSignal.timeout(30) })).killed, true);
  const aborted = await sandbox.processes.spawn('sleep 60', { abortSignal: AbortSignal.timeout(30) });
  assert.equal((await aborted.wait()).exitCode, 137);
});

run('stdinMode ignore', async () => {
  const handle = await sandbox.processes.spawn('cat', { stdinMode: 'ignore' });
  const none = { message: `Process ${handle.pid} does not have stdin available` };
  await Promise.all([assert.rejects(handle.sendStdin('x'), none), assert.rejects(handle.closeStdin(), none)]);
  assert.equal((await handle.wait()).exitCode, 0);
});

run('retention', async () => {
  const handle = await sandbox.processes.spawn('printf 0123456789; printf x >&2', { maxRetainedBytes: 4 });
  const result = await handle.wait();
  assert.deepEqual(
    [handle.stdout, handle.stdoutTruncated, handle.stdoutDroppedBytes, handle.stderr, handle.stderrTruncated, result.stdoutDroppedBytes],
    ['6789', true, 6, 'x', false, 6],
  );
  const none = await sandbox.executeCommand('printf abc', [], { maxRetainedBytes: 0 });
  assert.deepEqual([none.stdout, none.stdoutDroppedBytes], ['', 3]);
});

run('callbacks given to spawn may use the handle it returns', async () => {
  const pids = [];
  let handle;
  handle = await sandbox.processes.spawn('echo a; echo b', { onStdout: () => pids.push(handle.pid) });
  await handle.wait();
  assert.ok(pids.length > 0 && pids.every(pid => pid === handle.pid));
});

run('a program that cannot be run has a handle, too', async () => {
  const heard = [];
  const handle = await sandbox.processes.spawn('no-such x', {
    originalInvocation: { command: 'no-such', args: ['x'] },
    onStderr: text => heard.push(text),
  });
  assert.equal((await handle.wait()).exitCode, 127);
  assert.equal(typeof handle.pid, 'string');
  assert.equal(await sandbox.processes.get(handle.pid), handle);
});

run('reader and writer are byte streams', async () => {
  const handle = await sandbox.processes.spawn('cat');
  const { reader, writer } = handle;
  assert.equal(handle.reader, reader);
  writer.write(Buffer.from([0xff, 0, 0xc3]));
  writer.end('é');
  const chunks = [];
  for await (const chunk of reader) chunks.push(chunk);
  assert.deepEqual(Buffer.concat(chunks), Buffer.from([0xff, 0, 0xc3, 0xc3, 0xa9]));
  await handle.wait();
  assert.equal(handle.writer.writableFinished, true);
});

run('a reader nobody reads slows the command down; going on loses nothing', async () => {
  const handle = await sandbox.processes.spawn('head -c 3000000 /dev/zero');
  const { reader } = handle;
  await sleep(150);
  assert.equal(handle.exitCode, undefined);
  assert.ok(reader.readableLength < 1_000_000, `${reader.readableLength} bytes piled up`);
  let total = 0;
  for await (const chunk of reader) total += chunk.length;
  assert.equal(total, 3_000_000);
  const given = await sandbox.processes.spawn('head -c 3000000 /dev/zero');
  given.reader.destroy();
  assert.equal((await given.wait()).exitCode, 0);
});

run('a writer whose command has ended does not end Node', async () => {
  const handle = await sandbox.processes.spawn('exec 0<&-; sleep 0.1');
  const { writer } = handle;
  await handle.wait();
  const error = await new Promise(resolve => writer.write('x', resolve));
  assert.match(error.message, /already exited/);
});

run('writeFiles: places, modes, abort', async () => {
  await sandbox.writeFiles([
    { path: 'w/a', content: 'a' },
    { path: '/workspace/w/b', content: Buffer.from('b'), mode: 0o700 },
  ]);
  assert.equal((await sandbox.executeCommand('cat w/a w/b; stat -c %a w/b')).stdout, 'ab700\n');
  await assert.rejects(sandbox.writeFiles([{ path: 'w/c', content: 'c', mode: 0 }]), { code: 'INVALID_ARGUMENT' });
  await assert.rejects(
    sandbox.writeFiles([{ path: 'w/c', content: 'c' }], { abortSignal: AbortSignal.abort('why') }),
    error => (core.SandboxAbortError ? error instanceof core.SandboxAbortError && error.cause === 'why' : error.code === 'ABORTED'),
  );
  assert.equal((await sandbox.executeCommand('test -e w/c')).exitCode, 1);
});

run('the normalised sandbox: run', async () => {
  const sdk = await createSandbox({ provider: local(), env: { A: '1' } });
  const text = async (...args) => (await sdk.run(...args)).stdout;
  assert.equal(await text('echo $A'), '1\n');
  assert.equal(await text(['echo', '$A b']), '$A b\n');
  assert.equal(await text('cat', { stdin: 'in' }), 'in');
  assert.equal(await text('cat', { stdin: (async function* () { yield 'a'; yield Buffer.from('b'); })() }), 'ab');
  assert.equal(await text('cat'), '');
  assert.equal(await text('pwd', { cwd: '/tmp' }), '/tmp\n');
  const failed = await sdk.run('exit 9');
  assert.deepEqual([failed.exitCode, failed.success], [9, false]);
  assert.equal((await sdk.run('sleep 60', { timeout: 50 })).timedOut, true);
  assert.equal((await sdk.run('sleep 60', { signal: AbortSignal.timeout(50) })).killed, true);
  assert.equal((await sdk.run('true', { signal: AbortSignal.abort() })).exitCode, 137);
  await assert.rejects(sdk.run('true', { cwd: 'nope' }), error => isSandboxError(error, 'not_found'));
  let heard = '';
  await sdk.run('echo a; echo b >&2', { onStdout: t => (heard += t), onStderr: t => (heard += t) });
  assert.equal([...heard.replaceAll('\n', '')].sort().join(''), 'ab');
  await sdk.stop();
  await sdk.stop();
  await assert.rejects(sdk.run('true'), error => isSandboxError(error, 'conflict'));
});

const within = (options, work) => () => withSandbox({ provider: local(), ...options }, work);

run('the normalised sandbox: processes', within({}, async sdk => {
  const child = await sdk.processes.start('echo up; cat');
  assert.match(child.pid, /^\d+$/);
  while (!child.stdout) await sleep(5);
  assert.deepEqual((await child.output()).stdout, 'up\n');
  assert.deepEqual(await child.status(), { running: true });
  await child.write('x');
  await child.closeStdin();
  assert.equal((await child.wait()).stdout, 'up\nx');
  assert.deepEqual(await child.status(), { running: false, exitCode: 0, killed: false, timedOut: false });
  await assert.rejects(child.write('y'), error => isSandboxError(error, 'conflict'));
  assert.equal(await child.kill(), false);
  const other = await sdk.processes.start(['sleep', '60'], { stdin: false });
  assert.equal(await other.kill(), true);
  assert.equal(other.exitCode, 137);
}));

run('the normalised sandbox: files', within({ workingDirectory: 'w' }, async sdk => {
  const kinds = {
    text: 'é',
    buffer: Buffer.from('é'),
    view: new Uint8Array([0, 0xc3, 0xa9]).subarray(1),
    arrayBuffer: new TextEncoder().encode('é').buffer,
    dataView: new DataView(new TextEncoder().encode('é').buffer),
    blob: new Blob(['é']),
    stream: new Blob(['é']).stream(),
    list: [Buffer.from([0xc3]), Buffer.from([0xa9])],
    generator: (function* () { yield 'é'; })(),
    async: (async function* () { yield new Uint8Array([0xc3]); yield new Uint8Array([0xa9]); })(),
  };
  for (const [name, value] of Object.entries(kinds)) {
    await sdk.files.write(`k/${name}`, value);
    assert.equal(await sdk.files.text(`k/${name}`), 'é', name);
    assert.deepEqual(Buffer.from(await sdk.files.read(`/workspace/w/k/${name}`)), Buffer.from('é'), name);
  }
  assert.deepEqual((await sdk.files.list('k')).map(entry => entry.name).sort(), Object.keys(kinds).sort());
  assert.equal(await sdk.files.exists('k'), true);
  await sdk.files.mkdir('m/n');
  await sdk.files.remove('k');
  assert.deepEqual((await sdk.files.list()).map(entry => [entry.name, entry.type, entry.path]), [['m', 'directory', 'm']]);
  await sdk.files.remove('nope', { force: true });
  for (const [call, code] of [
    [() => sdk.files.remove('nope'), 'not_found'],
    [() => sdk.files.read('nope'), 'not_found'],
    [() => sdk.files.write('m', 'x'), 'invalid_input'],
    [() => sdk.files.read('../../x'), 'permission'],
  ]) {
    await assert.rejects(call, error => isSandboxError(error, code) && error.provider === 'local');
  }
  await assert.rejects(sdk.files.write('n', 'x', { mode: 0o4755 }), error => isSandboxError(error, 'invalid_input'));
  assert.equal(await sdk.files.exists('/etc/passwd'), true);
  await sdk.files.write('x', '1', { overwrite: false });
  await assert.rejects(sdk.files.write('x', '2', { overwrite: false }), error => isSandboxError(error, 'conflict'));
}));
