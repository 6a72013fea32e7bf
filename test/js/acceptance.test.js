// The acceptance list of Mastra's contract, driven through Mastra's own tool
// factory: what a model sees of files, commands and the sandbox's life.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import * as core from '@mastra/core/workspace';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { provider, where } from '../helpers/providers.js';
import { out, toolsOf, until, using } from '../helpers/workspace.js';

const needsMtime = { skip: !core.StaleFileError && 'this @mastra/core has no expectedMtime' };
// `stdinMode` came in the same version of Mastra.
const sendsNoInput = core.UnsupportedGrepPatternError !== undefined;
const text = result => (typeof result === 'string' ? result : JSON.stringify(result));
const isMastras = error => Object.values(core).some(value => typeof value === 'function' && value.prototype instanceof Error && error instanceof value);

/** What the model is told, whether the tool answers or throws. */
async function told(call) {
  try {
    return text(await call);
  } catch (error) {
    assert.ok(isMastras(error), `${error.name}: ${error.message} is no error of Mastra's`);
    return error.message;
  }
}

/** A tool's writer that keeps what commands print as they run. */
function listener() {
  const seen = { stdout: [], stderr: [], exit: [] };
  const custom = async ({ type, data }) => {
    const stream = /^data-sandbox-(\w+)$/.exec(type)?.[1];
    if (stream in seen) seen[stream].push(data.output ?? data);
  };
  return { seen, writer: { custom } };
}

test('files: nothing outside is reached or told of, and every failure is one of Mastra’s', using({}, async workspace => {
  const tools = await toolsOf(workspace);
  await workspace.sandbox.executeCommand('ln -s /etc etc; ln -s /etc/passwd passwd; ln -s /nowhere/x gone; mkfifo pipe; mkdir dir; echo in > dir/in');
  const outside = ['../x', '/../../etc/passwd', 'etc/passwd', 'passwd', 'gone', '/workspace/etc/hostname', 'dir/../../x'];
  for (const path of outside) {
    for (const [name, input] of [
      ['read_file', {}], ['write_file', { content: 'x' }], ['edit_file', { old_string: 'root', new_string: 'x' }],
      ['mkdir', {}], ['file_stat', {}], ['list_files', {}], ['grep', { pattern: 'root' }],
    ]) {
      if (!tools[name]) continue;
      const answer = await told(tools[name]({ path, ...input }));
      assert.doesNotMatch(answer, /root:x:|Wrote|Replaced|E[A-Z]{4,}:|^\S+\.js:\d/m, `${name} ${path}: ${answer}`);
    }
  }
  for (const [name, input, answer] of [
    ['read_file', { path: 'none' }, /not found|no such/i],
    ['read_file', { path: 'dir' }, /directory/i],
    ['read_file', { path: 'pipe' }, /FIFO|not a regular file/i],
    ['write_file', { path: 'dir', content: 'x' }, /directory/i],
    ['write_file', { path: 'dir/in', content: 'x', overwrite: false }, /exists/i],
    ['edit_file', { path: 'none', old_string: 'a', new_string: 'b' }, /not found|no such/i],
    ['delete', { path: 'none' }, /not found|no such/i],
    ['delete', { path: 'dir' }, /not empty/i],
    ['delete', { path: '/', recursive: true }, /root/i],
    ['file_stat', { path: 'none' }, /not found|no such/i],
  ]) assert.match(await told(tools[name](input)), answer, name);
  assert.equal(await out(workspace, 'cat dir/in'), 'in\n');
}));

test('commands: how each ends is what the model reads', using({}, async workspace => {
  const { sandbox } = workspace;
  const tools = await toolsOf(workspace);
  const run = async input => text(await tools.execute_command(input));
  await sandbox.executeCommand('touch plain');
  for (const [command, code] of [['exit 42', 42], ['no-such-program', 127], ['./plain', 126], ['kill -TERM $$', 143], ['kill -KILL $$', 137]]) {
    assert.match(await run({ command }), new RegExp(`Exit code: ${code}$`), command);
  }
  // In seconds: one is plenty, unless the machine is very busy.
  let stubborn;
  for (const timeout of [1, 5, 30]) {
    stubborn = await run({ command: "trap '' TERM; echo part; while :; do sleep 0.1; done", timeout });
    if (/\bpart\n/.test(stubborn)) break;
  }
  assert.match(stubborn, /\bpart\n[^]*(timed out|124)/);

  // The call ends while what it left behind still runs.
  for (const command of ['sleep 1001 & echo ok', 'setsid sleep 1001 & echo ok', '(setsid sh -c "sleep 1001" &) ; echo ok']) {
    assert.equal((await run({ command })).trim(), 'ok', command);
    await until(async () => /^\d+\n$/.test(await out(workspace, "pgrep -f '^sleep 1001'")), command);
    await sandbox.executeCommand('pkill -x sleep');
  }
  assert.match(await run({ command: '(while :; do echo t; echo x >> hb; sleep 0.1; done) & echo ok' }), /(^|\n)ok(\n|$)/);
  const size = async () => Number(await out(workspace, 'wc -c < hb'));
  const first = await size();
  await until(async () => (await size()) > first);

  assert.doesNotMatch(await run({ command: 'cat; read x; grep y' }), /Error|timed out/);
  sandbox.setEnv(env => ({ ...env, SET: 'yes', GONE: 'no' }));
  sandbox.setEnv(env => ({ ...env, GONE: undefined }));
  assert.equal((await run({ command: 'echo $SET ${GONE-unset}' })).trim(), 'yes unset');

  if (!tools.get_process_output) return;
  const output = async pid => text(await tools.get_process_output({ pid }));
  const reads = sendsNoInput ? 'cat' : 'cat </dev/null';
  const [pid] = /\d+/.exec(await run({ command: `${reads}; echo ended; sleep 1002`, background: true }));
  await until(async () => /ended/.test(await output(pid)));
  const handle = await sandbox.processes.spawn('cat; echo over; exec sleep 1002');
  await handle.sendStdin('typed\n');
  await handle.closeStdin();
  await until(async () => /typed\nover/.test(await output(handle.pid)));
  for (const one of [pid, handle.pid]) assert.match(text(await tools.kill_process({ pid: one })), /kill/i);
}));

test('times: two writes 20 ms apart differ; of two writers with one expected time one wins', needsMtime, using({}, async workspace => {
  const { filesystem: files } = workspace;
  const plain = await toolsOf(workspace);
  for (let round = 0; round < 3; round++) {
    await plain.write_file({ path: 'f', content: 'first' });
    const { modifiedAt } = await files.stat('f');
    await sleep(20);
    await plain.write_file({ path: 'f', content: 'second' });
    const { modifiedAt: __expectedMtime } = await files.stat('f');
    assert.notEqual(modifiedAt.getTime(), __expectedMtime.getTime());
    await sleep(20);
    const tools = await toolsOf(workspace, { __expectedMtime });
    const racers = ['a', 'b'].map(content => tools.write_file({ path: 'f', content }));
    racers.push(tools.edit_file({ path: 'f', old_string: 'second', new_string: 'c' }));
    const lost = (await Promise.allSettled(racers)).filter(one => one.status === 'rejected');
    // An edit that came late found the other's text, which is no race.
    const stale = lost.filter(({ reason }) => reason instanceof core.StaleFileError);
    assert.ok(stale.length >= 1 && stale.length === lost.length && lost.length <= 2, `round ${round}: ${lost.map(one => one.reason)}`);
    assert.ok(['a', 'b', 'c'].includes(await files.readFile('f', { encoding: 'utf-8' })));
    const { reason } = stale[0];
    assert.equal(reason.expectedMtime.getTime(), __expectedMtime.getTime());
    assert.notEqual(reason.actualMtime.getTime(), __expectedMtime.getTime());
  }
}));

test('a workspace whose tools are made and described is not started by that', using({}, async workspace => {
  await core.createWorkspaceTools(workspace);
  workspace.getInstructions();
  await workspace.sandbox.getInfo();
  assert.equal(await workspace.sandbox.networking.getPortUrl(3000), null);
  assert.equal(workspace.sandbox.status, 'pending');
}));

test('ten tools at once start one sandbox', async () => {
  let made = 0;
  const workspace = createMastraWorkspace({ provider: provider(), onFirstCreate: () => void made++ });
  const tools = await toolsOf(workspace);
  const calls = Array.from({ length: 10 }, (_, i) =>
    i % 2 ? tools.execute_command({ command: `echo ${i}` }) : tools.write_file({ path: `f${i}`, content: 'x' }));
  await Promise.all(calls);
  assert.equal(made, 1);
  assert.equal((await out(workspace, 'ls | wc -l')).trim(), '5');
  await workspace.destroy();
});

test('a hook that fails is an error the model reads; the next call tries again', async () => {
  let broken = true;
  const workspace = createMastraWorkspace({
    provider: provider(),
    onFirstCreate() {
      if (broken) throw new Error('no luck today');
    },
  });
  const tools = await toolsOf(workspace);
  assert.match(await told(tools.execute_command({ command: 'echo x' })), /no luck today/);
  broken = false;
  assert.equal(text(await tools.execute_command({ command: 'echo x' })).trim(), 'x');
  await workspace.destroy();
  assert.equal(workspace.sandbox.status, 'destroyed');
});

test('a writer that throws or rejects ends neither Node nor the command', using({}, async workspace => {
  for (const custom of [
    async ({ type }) => {
      if (/std/.test(type)) throw new Error('mine');
    },
    ({ type }) => {
      if (/std/.test(type)) throw new Error('mine');
    },
  ]) {
    const tools = await toolsOf(workspace, { writer: { custom } });
    const answer = text(await tools.execute_command({ command: 'echo a; echo b >&2; sleep 0.1; echo c; exit 3' }));
    assert.match(answer, /a\nc[^]*b[^]*Exit code: 3/);
  }
}));

test('much output arrives whole; fifty commands at once keep apart', using({}, async workspace => {
  const { seen, writer } = listener();
  const tools = await toolsOf(workspace, { writer });
  const size = where === 'local' ? 20_000_000 : 2_000_000;
  await tools.execute_command({ command: `yes xxxxxxx | head -c ${size}; yes yyyyyyy | head -c 1000000 >&2` });
  assert.equal(seen.stdout.reduce((sum, part) => sum + part.length, 0), size);
  assert.equal(seen.stderr.reduce((sum, part) => sum + part.length, 0), 1_000_000);
  assert.deepEqual([seen.exit.length, seen.exit[0].exitCode], [1, 0]);
  const plain = await toolsOf(workspace);
  const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => plain.execute_command({ command: `echo ${i}; exit $((${i} % 2))` })));
  answers.forEach((answer, i) => assert.match(text(answer), new RegExp(`^${i}\n${i % 2 ? '\\s*Exit code: 1' : ''}$`.replace('\n$', '\n?$'))));
}));
