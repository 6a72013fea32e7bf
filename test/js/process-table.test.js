// Commands and background processes, case by case, on the real addon.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import * as core from '@mastra/core/workspace';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { provider, where } from '../helpers/providers.js';
import { until, withinLimit } from '../helpers/workspace.js';

let workspace;
let sandbox;
const run = (...args) => sandbox.executeCommand(...args);
const spawn = (...args) => sandbox.processes.spawn(...args);
const stdout = async (...args) => (await run(...args)).stdout;

before(async () => {
  workspace = createMastraWorkspace({ provider: provider() });
  await workspace.init();
  ({ sandbox } = workspace);
  await run('mkdir -p sub; touch plain; ln -s sub to-sub; ln -s /etc to-etc');
});
after(() => workspace.destroy());

/** Whether the file that a heartbeat appends to goes on growing. */
async function alive(file) {
  const size = async () => Number(await stdout(`wc -c < ${file}`));
  const first = await size();
  return until(async () => (await size()) > first).then(() => true);
}
async function dead(file) {
  const size = () => stdout(`wc -c < ${file}; sleep 0.25; wc -c < ${file}`);
  await until(async () => new Set((await size()).trim().split('\n')).size === 1);
}
const heartbeat = file => `while :; do echo x >> ${file}; sleep 0.05; done`;

describe('exit codes', () => {
  for (const [command, code] of [
    ['true', 0],
    ['exit 42', 42],
    ['FOO=bar sh -c \'exit $((${#FOO} + 1))\'', 4],
    ['cd sub && [ "$(pwd)" = /workspace/sub ]', 0],
    ['export X=1; test "$X" = 1', 0],
    ['no-such-program', 127],
    ['./plain', 126],
    ['./sub', 126],
    ['kill -TERM $$', 143],
    ['kill -KILL $$', 137],
    ["sh -c 'kill -KILL $$'; exit $?", 137],
    ["sh -c 'kill -SEGV $$' 2>/dev/null; exit $?", 139],
  ]) {
    test(command, async () => {
      const result = await run(command);
      assert.equal(result.exitCode, code, result.stderr);
      assert.equal(result.success, code === 0);
      // A service's shell tells a signal as 128 + n only.
      if (where === 'local') assert.equal(result.killed, /\$\$$/.test(command));
      assert.equal(result.timedOut, false);
      const handle = await spawn(command);
      assert.equal((await handle.wait()).exitCode, code);
      await until(() => handle.exitCode === code);
    });
  }

  test('argv without a shell: missing and not executable', async () => {
    assert.equal((await run('no-such-program', ['x'])).exitCode, 127);
    assert.equal((await run('./plain', ['x'])).exitCode, 126);
    assert.equal(await stdout('printf', ['%s|', 'a b', '$HOME', '', "it's", '{}', '!', '+', 'x\ny', '*', '--']), "a b|$HOME||it's|{}|!|+|x\ny|*|--|");
  });
});

describe('working directory', () => {
  for (const [cwd, shown] of [
    [undefined, '/workspace'],
    ['.', '/workspace'],
    ['/', '/workspace'],
    ['/workspace', '/workspace'],
    ['/workspace/', '/workspace'],
    ['sub', '/workspace/sub'],
    ['./sub/', '/workspace/sub'],
    ['/sub', '/workspace/sub'],
    ['/workspace/sub', '/workspace/sub'],
    ['sub/../sub', '/workspace/sub'],
    ['to-sub', '/workspace/sub'],
    ['to-etc', '/etc'],
    ['/tmp', '/tmp'],
    ['/usr/bin', '/usr/bin'],
  ]) {
    test(String(cwd), async () => {
      assert.equal(await stdout('pwd -P', [], { cwd }), `${shown}\n`);
      assert.equal((await (await spawn('pwd -P', { cwd })).wait()).stdout, `${shown}\n`);
    });
  }

  test('missing, a file, outside: an error that says so, and nothing runs', async () => {
    for (const [cwd, message] of [['none', /"\/workspace\/none" does not exist/], ['plain', /"\/workspace\/plain" is not a (directory|folder)/], ['../..', /leaves the workspace/]]) {
      await assert.rejects(run('touch ran', [], { cwd }), message);
      await assert.rejects(spawn('touch ran', { cwd }), message);
      await assert.rejects(sandbox.sandboxSdk.run('touch ran', { cwd }), message);
    }
    assert.equal(await workspace.filesystem.exists('ran'), false);
  });
});

describe('environment', () => {
  test('undefined removes, call wins over overlay, nothing of the host', async () => {
    process.env.HOST_SECRET = 'leak';
    sandbox.setEnv(() => ({ A: 'overlay', B: 'overlay' }));
    const line = 'echo [$A][$B][$HOME][$HOST_SECRET]';
    assert.match(await stdout(line), /^\[overlay\]\[overlay\]\[\/.+\]\[\]$/m);
    const env = { A: 'call', B: undefined, HOME: undefined };
    assert.equal(await stdout(line, [], { env }), '[call][][][]\n');
    assert.equal((await (await spawn(line, { env })).wait()).stdout, '[call][][][]\n');
    sandbox.setEnv(before => ({ ...before, A: undefined }));
    assert.match(await stdout(line), /^\[\]\[overlay\]/);
    sandbox.setEnv(() => ({}));
    assert.match(await stdout(line), /^\[\]\[\]/);
    assert.equal(await stdout('printf %s "$V"', [], { env: { V: 'a "b"\n\'c\' $d é' } }), 'a "b"\n\'c\' $d é');
    delete process.env.HOST_SECRET;
  });
});

describe('stdin', () => {
  test('executeCommand and stdinMode ignore: end-of-file at once', async () => {
    assert.equal(await stdout('cat; echo end'), 'end\n');
    const handle = await spawn('cat; sleep 60', { stdinMode: 'ignore' });
    await assert.rejects(handle.sendStdin('x'), { message: `Process ${handle.pid} does not have stdin available` });
    await handle.kill();
  });

  test('closeStdin, writer.end, and writes after them', async () => {
    const one = await spawn('wc -c');
    await one.sendStdin('héllo');
    await one.closeStdin();
    await one.closeStdin();
    await assert.rejects(one.sendStdin('x'), { code: 'ERR_STREAM_WRITE_AFTER_END' });
    const { stdout: counted, exitCode } = await one.wait();
    assert.deepEqual([counted.trim(), exitCode], ['6', 0]);
    await assert.rejects(one.sendStdin('x'), { message: `Process ${one.pid} has already exited with code 0` });
    await assert.rejects(one.closeStdin(), { message: `Process ${one.pid} has already exited with code 0` });
    const two = await spawn('od -An -tx1');
    two.writer.write(Buffer.from([0xff, 0, 0x0a]));
    two.writer.end(Buffer.from([0xc3]));
    assert.equal((await two.wait()).stdout, ' ff 00 0a c3\n');
  });
});

describe('streams', () => {
  test('separate, exact, with NUL, CR and bytes that are not UTF-8; split characters are put together', async () => {
    const heard = ['', ''];
    const listen = { onStdout: text => (heard[0] += text), onStderr: text => (heard[1] += text) };
    const command = "printf 'a\\342'; sleep 0.1; printf '\\200\\224b\\0c\\r\\n\\377'; printf 'e\\r\\n\\303' >&2";
    const result = await run(command, [], listen);
    assert.deepEqual([result.stdout, result.stderr], ['a—b\0c\r\n\uFFFD', 'e\r\n\uFFFD']);
    assert.deepEqual(heard, [result.stdout, result.stderr]);
    const waited = await (await spawn(command)).wait();
    assert.deepEqual([waited.stdout, waited.stderr], [result.stdout, result.stderr]);
  });

  test('chunks come before the end', async () => {
    const first = await new Promise(resolve => {
      const running = run('echo first; read x; sleep 60', [], { onStdout: text => resolve({ text, running }), abortSignal: AbortSignal.timeout(20_000) }).catch(() => {});
      running.then(() => resolve({ text: 'ended' }));
    });
    assert.notEqual(first.text, 'ended');
  });

  test('throwing and rejecting callbacks end neither Node nor the command', async () => {
    const bad = { onStdout: () => { throw new Error('thrown'); }, onStderr: async () => { throw new Error('rejected'); } };
    const { stdout: all, exitCode } = await run('seq 3; echo e >&2; sleep 0.1; seq 3; exit 5', [], bad);
    assert.deepEqual([all, exitCode], ['1\n2\n3\n1\n2\n3\n', 5]);
    const handle = await spawn('seq 3; exit 6', bad);
    assert.equal((await handle.wait(bad)).exitCode, 6);
  });
});

describe('retention', () => {
  test('the newest is kept, with the four fields', async () => {
    const handle = await spawn("printf 'é123456789'; printf x >&2", { maxRetainedBytes: 4 });
    const result = await handle.wait();
    for (const source of [handle, result]) {
      assert.deepEqual(
        [source.stdout, source.stdoutTruncated, source.stdoutDroppedBytes, source.stderr, source.stderrTruncated, source.stderrDroppedBytes],
        ['6789', true, 7, 'x', false, 0],
      );
    }
    const cut = await (await spawn("printf 'aééé'", { maxRetainedBytes: 3 })).wait();
    assert.deepEqual([cut.stdout, cut.stdoutDroppedBytes], ['é', 5]);
    const none = await (await spawn('printf abc', { maxRetainedBytes: 0 })).wait();
    assert.deepEqual([none.stdout, none.stdoutTruncated, none.stdoutDroppedBytes], ['', true, 3]);
    const by = await (await spawn("head -c 3000000 /dev/zero | tr '\\0' a")).wait();
    assert.deepEqual([by.stdout.length, by.stdoutTruncated, by.stdoutDroppedBytes], [1_048_576, true, 3_000_000 - 1_048_576]);
    await assert.rejects(spawn('touch ran', { maxRetainedBytes: -1 }), { name: 'RangeError', message: /maxRetainedBytes must be a non-negative integer or Infinity/ });
  });
});

describe('the end', () => {
  const keys = ['success', 'exitCode', 'stdout', 'stderr', 'executionTimeMs', 'killed', 'timedOut', 'stdoutTruncated', 'stderrTruncated', 'stdoutDroppedBytes', 'stderrDroppedBytes'];

  test('every result has every key', async () => {
    assert.deepEqual(Object.keys(await run('true')).sort(), [...keys, 'command'].sort());
    assert.deepEqual(Object.keys(await (await spawn('true')).wait()).sort(), [...keys].sort());
    assert.deepEqual(Object.keys(await run('true', [], { abortSignal: AbortSignal.abort() })).sort(), [...keys, 'command'].sort());
  });

  test('a timeout: 124, both flags, the output so far, a word on stderr', async () => {
    const result = await withinLimit(timeout => run('echo part; sleep 60', [], { timeout }), one => one.stdout);
    assert.deepEqual([result.exitCode, result.timedOut, result.killed, result.stdout], [124, true, true, 'part\n']);
    assert.ok(result.stderr.includes(`Process timed out after ${result.limit}ms`), result.stderr);
    const unwatched = await spawn('sleep 60', { timeout: 100 });
    await until(() => unwatched.exitCode === 124);
    for (const timeout of [0, undefined]) assert.equal((await run('sleep 0.1; echo x', [], { timeout })).stdout, 'x\n');
  });

  test('a timeout ends what ignores TERM, and its whole tree', async () => {
    const line = `trap '' TERM; (setsid sh -c "trap '' TERM; ${heartbeat('hb-tree')}" &); ${heartbeat('hb-main')}`;
    const beat = () => stdout('cat hb-tree hb-main');
    const result = await withinLimit(async timeout => ({ ...(await run(line, [], { timeout })), beat: await beat() }), one => one.beat);
    assert.deepEqual([result.exitCode, result.timedOut], [124, true]);
    await dead('hb-main');
    await dead('hb-tree');
  });

  test('abort: before, during, after', async () => {
    const early = await run('touch ran', [], { abortSignal: AbortSignal.abort() });
    assert.deepEqual([early.killed, early.success, await workspace.filesystem.exists('ran')], [true, false, false]);
    const controller = new AbortController();
    const during = await run('echo part; sleep 60', [], { abortSignal: controller.signal, onStdout: () => controller.abort() });
    assert.deepEqual([during.exitCode, during.killed, during.timedOut, during.stdout], [137, true, false, 'part\n']);
    const later = new AbortController();
    const handle = await spawn('echo done', { abortSignal: later.signal });
    await handle.wait();
    later.abort();
    assert.equal(handle.exitCode, 0);
    const waiting = await spawn('sleep 60');
    const stop = new AbortController();
    const waited = waiting.wait({ abortSignal: stop.signal });
    stop.abort();
    assert.equal((await waited).killed, true);
    const spawned = await spawn('touch ran; sleep 60', { abortSignal: AbortSignal.abort() });
    assert.equal((await spawned.wait()).killed, true);
  });

  test('a child that holds stdout keeps nobody waiting, and goes on', async () => {
    const { stdout: ok } = await run('(while :; do echo t; echo x >> hb; sleep .1; done) & echo ok');
    assert.match(ok, /^(t\n)*ok\n(t\n)*$/);
    assert.equal(await alive('hb'), true);
    for (const command of ['sleep 60 & echo x', 'nohup sleep 60 >/dev/null 2>&1 & echo x', 'setsid sleep 60 & echo x', '(sleep 60 &) ; echo x', 'sleep 60 <&0 & seq 200000 >/dev/null; echo x']) {
      assert.equal(await stdout(command, [], { timeout: 30_000 }), 'x\n', command);
      assert.equal((await (await spawn(command, { timeout: 30_000 })).wait()).stdout, 'x\n', command);
    }
    const many = await stdout('sleep 60 & seq 1 200000');
    assert.ok(many.endsWith('\n200000\n') && many.length === 1_288_895);
  });

  test('kill takes the tree; its result after and before the end', async () => {
    const handle = await spawn(`(${heartbeat('hb-a')}) | cat & (setsid sh -c '${heartbeat('hb-b')}' &); echo up; wait`);
    await until(() => handle.stdout.includes('up'));
    await alive('hb-a');
    await alive('hb-b');
    assert.deepEqual(await Promise.all([handle.kill(), handle.kill()]), [true, true]);
    const { exitCode, killed } = await handle.wait();
    assert.deepEqual([exitCode, killed, await handle.kill()], [137, true, false]);
    await dead('hb-a');
    await dead('hb-b');
  });

  test('a timeout of one command leaves the others alone', async () => {
    const other = await spawn(heartbeat('hb-other'));
    await run('sleep 60', [], { timeout: 100 });
    assert.equal(await alive('hb-other'), true);
    assert.equal(other.exitCode, undefined);
    await other.kill();
  });
});

describe('the process manager', () => {
  test('list, get, kill, release', async () => {
    const { processes } = sandbox;
    const handle = await spawn('sleep 60');
    assert.match(handle.pid, /^\d+$/);
    const [listed] = (await processes.list()).filter(one => one.pid === handle.pid);
    assert.deepEqual([listed.command, listed.running, listed.exitCode], ['sleep 60', true, undefined]);
    assert.equal(await processes.get(handle.pid), handle);
    // At a service the pid is that of the kit's shell around it.
    if (where === 'local') await until(async () => (await stdout(`tr '\\0' ' ' < /proc/${handle.pid}/cmdline`)) === 'sleep 60 ');
    assert.equal(await processes.kill(handle.pid), true);
    assert.equal(await processes.kill(handle.pid), false);
    assert.equal(await processes.kill('999999'), false);
    assert.equal(await processes.get(handle.pid), undefined);
    const ended = await spawn('exit 7');
    await until(() => ended.exitCode === 7);
    assert.equal(await processes.get(ended.pid), ended);
    assert.equal(await processes.get(ended.pid), undefined);
    assert.equal(ended.command, 'exit 7');
    if (!core.SandboxProcessManager.prototype.release) return;
    const released = await spawn('sleep 60');
    processes.release(released.pid);
    assert.equal(await processes.get(released.pid), undefined);
    await released.kill();
  });

  test('a hundred commands leave nothing behind in it', async () => {
    const before = (await sandbox.processes.list()).length;
    for (let i = 0; i < 100; i++) await run('true');
    assert.equal((await sandbox.processes.list()).length, before);
  });
});

describe('arguments', () => {
  test('one MiB in all arrives; one of more than 128 KiB is refused with its size', async () => {
    const args = Array.from({ length: 10 }, (_, i) => String(i).repeat(100_000));
    assert.equal((await stdout('printf', ['%s', ...args])).length, 1_000_000);
    const long = 'x'.repeat(200_000);
    for (const failed of [run('printf', ['%s', long]), spawn('printf x', { originalInvocation: { command: 'printf', args: [long] } }), run(`echo ${long}`)]) {
      const answer = await failed.then(async result => (result.wait ? await result.wait() : result), error => error);
      const said = answer instanceof Error ? answer.message : `${answer.exitCode} ${answer.stderr}`;
      assert.match(said, /(argument|command).*(long|128|131072|limit)/i);
    }
  });

  test('an empty command is refused', async () => {
    for (const command of ['', '   ']) await assert.rejects(run(command), /must not be empty/);
  });
});

test('input that a command ends on was sent', async () => {
  const all = Array.from({ length: 60 }, async () => {
    const handle = await spawn('read line; echo "got $line"');
    await handle.sendStdin('x\n');
    assert.equal((await handle.wait()).stdout, 'got x\n');
  });
  await Promise.all(all);
});
