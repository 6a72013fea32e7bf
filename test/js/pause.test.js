// Pausing a sandbox, and processes with a terminal.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSandbox, supports, withSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';
import { createMastraSandbox } from 'sandbox-sdk-native/mastra';
import { until, withinLimit } from '../helpers/workspace.js';

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

/** Waits for what `process` has printed; a failure tells it. */
async function untilPrinted(process, check) {
  await until(() => check(process.stdout)).catch(error => assert.fail(`${error.message}, in ${JSON.stringify(process.stdout)}`));
}

/** Waits until it prints no more for a while: what was on its way may still come. */
async function untilStill(process) {
  let length;
  await until(async () => {
    ({ length } = process.stdout);
    await sleep(200);
    return process.stdout.length === length;
  });
  return length;
}

const ticker = 'while :; do echo x; sleep 0.02; done';

for (const isolation of ['full', 'none']) {
  const provider = () => local({ isolation });

  test(`${isolation}: paused processes stand still, and go on`, async () => {
    await withSandbox({ provider: provider() }, async sandbox => {
      assert.ok(supports(sandbox, 'pause'));
      const process = await sandbox.processes.start(ticker);
      await until(() => process.stdout.length > 0);
      await sandbox.pause();
      await sandbox.pause();
      const length = await untilStill(process);
      await sandbox.files.write('a', 'files work');
      assert.equal(await sandbox.files.text('a'), 'files work');
      await sandbox.resume();
      await until(() => process.stdout.length > length);
      assert.equal(await process.kill(), true);
    });
  });

  test(`${isolation}: a command that waits for the end of the pause can be killed, and never starts`, async () => {
    await withSandbox({ provider: provider() }, async sandbox => {
      await sandbox.pause();
      const controller = new AbortController();
      const runs = [1, 2, 3].map(i => sandbox.run(`touch ${i}; sleep 600`, { timeout: 600_000, signal: i === 2 ? undefined : controller.signal }));
      await sleep(10);
      controller.abort();
      for (const run of [runs[0], runs[2]]) {
        const { exitCode, killed, timedOut } = await run;
        assert.deepEqual({ exitCode, killed, timedOut }, { exitCode: 137, killed: true, timedOut: false });
      }
      await sandbox.resume();
      await until(() => sandbox.files.exists('2'));
      assert.equal((await sandbox.run('ls')).stdout, '2\n');
      await sandbox.destroy();
      assert.equal((await runs[1]).killed, true);
    });
  });

  test(`${isolation}: commands and time limits wait for the end of the pause`, async () => {
    await withSandbox({ provider: provider() }, async sandbox => {
      const pausedFor = async timeout => {
        await sandbox.pause();
        const run = sandbox.run('echo later', { timeout });
        const start = sandbox.processes.start('cat');
        assert.equal(await Promise.race([run, start, sleep(timeout + 200).then(() => 'waits')]), 'waits');
        await sandbox.resume();
        assert.equal(await (await start).kill(), true);
        return run;
      };
      const { stdout, timedOut } = await withinLimit(pausedFor, result => !result.timedOut, 400);
      assert.deepEqual([stdout, timedOut], ['later\n', false]);
    });
  });

  test(`${isolation}: kill and stop work on a paused sandbox`, async () => {
    const sandbox = await createSandbox({ provider: provider() });
    const one = await sandbox.processes.start('sleep 1000 & sleep 1000');
    const two = await sandbox.processes.start(ticker);
    await sandbox.pause();
    assert.equal(await one.kill(), true);
    assert.equal(one.exitCode, 137);
    assert.equal(two.exitCode, undefined);
    await sandbox.stop();
    assert.notEqual(two.exitCode, undefined);
    await assert.rejects(sandbox.pause(), { code: 'unavailable' });
  });

  test(`${isolation}: a terminal has a size, a new one, and signals`, async () => {
    await withSandbox({ provider: provider() }, async sandbox => {
      assert.ok(supports(sandbox, 'pty'));
      const process = await sandbox.processes.start(
        'test -t 0 && test -t 2 && stty size && echo $TERM; trap "stty size" WINCH; echo ready; while :; do sleep 0.02; done',
        { pty: { cols: 100, rows: 30 } },
      );
      await untilPrinted(process, text => text.includes('ready'));
      assert.match(process.stdout, /^30 100\r\nxterm-256color\r\n/);
      await assert.rejects(process.resize(0, 10), { code: 'invalid_input' });
      await process.resize(33, 44);
      await untilPrinted(process, text => text.includes('44 33'));
      // A shell that runs a trap just then takes the first one for the trap's command.
      const ended = process.wait();
      await until(async () => {
        await process.write('\x03').catch(() => {});
        return process.exitCode !== undefined;
      });
      const result = await ended;
      assert.equal(result.exitCode, 130);
      assert.equal(result.stderr, '');
    });
  });

  test(`${isolation}: a shell at a terminal`, async () => {
    await withSandbox({ provider: provider() }, async sandbox => {
      const shell = await sandbox.processes.start(['sh', '-i'], { pty: true, env: { PS1: '$ ' } });
      await untilPrinted(shell, text => text === '$ ');
      await shell.write('echo $((6 * 7))\n');
      await untilPrinted(shell, text => text.includes('\n42'));
      await shell.write("sh -c 'echo started; exec sleep 1000'\n");
      await untilPrinted(shell, text => text.includes('\nstarted'));
      await shell.signal('INT');
      await untilPrinted(shell, text => text.endsWith('\n$ '));
      await shell.write('echo again\n');
      await untilPrinted(shell, text => text.includes('\nagain'));
      await shell.closeStdin();
      assert.equal((await shell.wait()).timedOut, false);
      assert.equal(await shell.signal('TERM'), false);
    });
  });
}

test('wrong terminals and signals are refused', async () => {
  await withSandbox({ provider: local() }, async sandbox => {
    for (const pty of [{ cols: 0 }, { rows: 1.5 }, { columns: 80 }, 'yes', { cols: 70000 }]) {
      await assert.rejects(sandbox.processes.start('true', { pty }), { code: 'invalid_input' });
    }
    const process = await sandbox.processes.start('cat');
    await assert.rejects(process.resize(10, 10), /pty/);
    await assert.rejects(process.signal('BANG'), { code: 'invalid_input' });
    assert.equal(await process.signal('SIGTERM'), true);
    assert.equal((await process.wait()).exitCode, 143);
  });
});

test('without pty there is no terminal', async () => {
  await withSandbox({ provider: local() }, async sandbox => {
    assert.equal((await sandbox.run('test -t 0 || test -t 1 || test -t 2 || tty')).exitCode, 1);
  });
});

test('a paused sandbox can be destroyed through Mastra', async () => {
  const sandbox = createMastraSandbox({ provider: local() });
  await sandbox._start();
  await sandbox.processes.spawn(ticker);
  await sandbox.sandboxSdk.pause();
  await sandbox._destroy();
  assert.equal(sandbox.status, 'destroyed');
});
