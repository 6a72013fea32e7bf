// The Local code blocks of the product's Mastra page, with a scripted model in
// place of the named one.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { Agent } from '@mastra/core/agent';
import { Workspace, WORKSPACE_TOOLS, createWorkspaceTools } from '@mastra/core/workspace';
import { isSandboxError, providerFromEnvironment } from 'sandbox-sdk-native';
import { createMastraSandbox, createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { local } from 'sandbox-sdk-native/local';
import { scriptedModel } from '../examples/scripted-model.js';

const call = (tool, input) => ({ calls: [{ tool, input }] });

test('create a workspace agent', async () => {
  const workspace = createMastraWorkspace({ provider: local() });
  const agent = new Agent({
    id: 'sandbox-agent',
    name: 'Sandbox agent',
    model: scriptedModel([
      call(WORKSPACE_TOOLS.FILESYSTEM.WRITE_FILE, { path: 'hello.js', content: 'console.log(6 * 7)\n' }),
      call(WORKSPACE_TOOLS.SANDBOX.EXECUTE_COMMAND, { command: 'node hello.js' }),
      (seen) => ({ text: `It printed ${seen.at(-1).output}` }),
    ]),
    instructions: 'Work only in the attached workspace and verify changes.',
    workspace,
  });
  try {
    const result = await agent.generate('Create hello.js and run it.');
    assert.equal(result.text.trim(), 'It printed 42');
  } finally {
    await workspace.destroy();
  }
});

test('the filesystem path / is /workspace in the sandbox', async () => {
  const workspace = createMastraWorkspace({ provider: local() });
  await workspace.init();
  await workspace.filesystem.writeFile('/a.txt', 'a');
  const { stdout } = await workspace.sandbox.executeCommand('pwd; cat /workspace/a.txt');
  assert.equal(stdout, '/workspace\na');
  await workspace.destroy();
});

test('configure the Mastra workspace', async () => {
  let first = 0;
  const provider = local();
  const make = (id) =>
    createMastraWorkspace({
      provider,
      identity: 'repo-bootstrap-v1',
      filesystem: { readOnly: false },
      async onFirstCreate(sandbox) {
        first++;
        await sandbox.files.write('package.json', '{"type":"module"}\n');
      },
      workspace: {
        id,
        bm25: true,
        autoIndexPaths: ['/docs'],
        tools: {
          [WORKSPACE_TOOLS.SANDBOX.EXECUTE_COMMAND]: { requireApproval: true },
          [WORKSPACE_TOOLS.FILESYSTEM.WRITE_FILE]: { requireReadBeforeWrite: true },
        },
      },
    });
  const one = make('repo-workspace');
  const two = make('repo-workspace-2');
  await one.init();
  await two.init();
  assert.equal(first, 1, 'onFirstCreate runs once for an identity');
  for (const workspace of [one, two]) {
    assert.equal(await workspace.filesystem.readFile('package.json', { encoding: 'utf-8' }), '{"type":"module"}\n');
    const tools = await createWorkspaceTools(workspace);
    assert.equal(tools[WORKSPACE_TOOLS.SANDBOX.EXECUTE_COMMAND].requireApproval, true);
    const write = tools[WORKSPACE_TOOLS.FILESYSTEM.WRITE_FILE];
    await assert.rejects(write.execute({ path: 'package.json', content: '{}' }, { workspace }), {
      name: 'FileReadRequiredError',
    });
  }
  await Promise.all([one.destroy(), two.destroy()]);
});

test('a read-only filesystem still runs commands', async () => {
  const workspace = createMastraWorkspace({ provider: local(), filesystem: { readOnly: true } });
  await workspace.init();
  await assert.rejects(workspace.filesystem.writeFile('a', 'b'), { name: 'WorkspaceReadOnlyError' });
  const { exitCode } = await workspace.sandbox.executeCommand('echo x > a');
  assert.equal(exitCode, 0);
  assert.equal(await workspace.filesystem.readFile('a', { encoding: 'utf-8' }), 'x\n');
  const tools = await createWorkspaceTools(workspace);
  assert.equal(tools[WORKSPACE_TOOLS.FILESYSTEM.WRITE_FILE], undefined);
  await workspace.destroy();
});

// Streamed output, stdin, cancellation, time limits, look-up, stop, resume, destroy.
test('use only the sandbox adapter', async () => {
  const sandbox = createMastraSandbox({ provider: local({ ports: [3000] }), ports: [3000] });
  const workspace = new Workspace({ sandbox });
  await workspace.init();
  let streamed = '';
  const { stdout } = await workspace.sandbox.executeCommand('echo', ['only the sandbox'], { onStdout: text => (streamed += text) });
  assert.equal(stdout, 'only the sandbox\n');
  assert.equal(streamed, stdout);
  assert.deepEqual(Object.keys(await createWorkspaceTools(workspace)).filter(name => /file|grep|mkdir|delete/.test(name)), []);
  assert.doesNotMatch(sandbox.getInstructions(), /file tools/, 'there are none of ours');

  const greeting = await sandbox.processes.spawn('read name; echo hello $name; exec sleep 1000');
  await greeting.sendStdin('you\n');
  while (greeting.stdout === '') await new Promise(resolve => setTimeout(resolve, 5));
  assert.equal(greeting.stdout, 'hello you\n');
  assert.equal(await sandbox.processes.get(greeting.pid), greeting);
  assert.deepEqual((await sandbox.processes.list()).map(({ pid, running }) => [pid, running]), [[greeting.pid, true]]);
  assert.equal(await greeting.kill(), true);
  assert.equal((await greeting.wait()).killed, true);

  const late = await sandbox.executeCommand('sleep 1000', [], { timeout: 100 });
  assert.deepEqual([late.exitCode, late.timedOut], [124, true]);
  const controller = new AbortController();
  const stopping = sandbox.executeCommand('echo kept > kept; sleep 1000', [], { abortSignal: controller.signal });
  while (!(await sandbox.sandboxSdk.files.exists('kept'))) await new Promise(resolve => setTimeout(resolve, 5));
  controller.abort();
  assert.equal((await stopping).killed, true);

  await sandbox._stop();
  assert.equal(sandbox.status, 'stopped');
  assert.equal((await sandbox.executeCommand('cat kept')).stdout, 'kept\n', 'the next use resumes it');
  await workspace.destroy();
  assert.equal(sandbox.status, 'destroyed');
});

test('access ports and the normalized sandbox', async () => {
  const workspace = createMastraWorkspace({ provider: local({ ports: [4000] }), ports: [3000] });
  await workspace.init();
  for (const port of [3000, 4000]) {
    await workspace.filesystem.writeFile('/server.js', `require('http').createServer((q, a) => a.end('at ${port}')).listen(${port})`);
    const server = await workspace.sandbox.processes.spawn('node server.js');
    const url = await workspace.sandbox.getPortUrl(port);
    let text = '';
    while (text !== `at ${port}`) text = await fetch(url).then(answer => answer.text(), () => '');
    await server.kill();
  }
  await assert.rejects(workspace.sandbox.getPortUrl(5000), /port 5000 is not declared \(declared are 4000, 3000\): add it to the ports option/);
  await workspace.sandbox.sandboxSdk.files.write('READY', 'yes\n');
  assert.equal(await workspace.filesystem.readFile('/READY', { encoding: 'utf-8' }), 'yes\n');
  await workspace.destroy();
});

test('choose a provider: those of later versions say so', async () => {
  for (const name of ['daytona', 'vercel', 'upstash']) {
    const { [name]: factory } = await import(`sandbox-sdk-native/${name}`);
    assert.throws(
      () => createMastraWorkspace({ provider: factory({ runtime: 'node24' }) }),
      error => isSandboxError(error, 'unsupported') && error.message.startsWith(`${name}() is not part of this version`) && /local\(\) and e2b\(\)/.test(error.message),
    );
    await assert.rejects(providerFromEnvironment({}, { SANDBOX_PROVIDER: name }), new RegExp(`"${name}".*local, e2b`));
  }
});

// The other page's own sandbox on the server's machine, and ours in its place.
test('a sandbox callback: local, a folder for each session below a root', async t => {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'sessions-'));
  t.after(() => fs.rmSync(root, { recursive: true, force: true }));
  const callbacks = {
    directory: ctx =>
      createMastraSandbox({ id: ctx.sessionId, provider: local({ directory: path.join(root, ctx.sessionId) }), env: { HOME: os.homedir() } }),
    root: ctx => createMastraSandbox({ id: ctx.sessionId, provider: local({ root }), env: { HOME: os.homedir() } }),
  };
  for (const [name, callback] of Object.entries(callbacks)) {
    const sandbox = callback({ sessionId: `by-${name}` });
    assert.equal(sandbox.status, 'pending', 'started by its first command');
    const first = await sandbox.executeCommand('touch "$HOME/.tool" && echo work > work && pwd');
    assert.equal(first.stdout, `${sandbox.workingDirectory}\n`, first.stderr);
    await sandbox._stop();
    if (name === 'root') await sandbox._lease.leave();
    const next = callback({ sessionId: `by-${name}` });
    assert.equal((await next.executeCommand('cat', ['work'])).stdout, 'work\n');
    await next._destroy();
    await sandbox._destroy();
  }
  assert.deepEqual(fs.readdirSync(root), ['by-directory'], 'a given folder stays, one of ours goes');
});

// The E2B tab of the page, with the variables that E2B's own package reads.
test('choose a provider: E2B', async t => {
  const { startFake } = await import('../fakes/e2b.js');
  const { e2b } = await import('sandbox-sdk-native/e2b');
  const fake = await startFake();
  const names = ['E2B_API_KEY', 'E2B_API_URL', 'E2B_SANDBOX_URL'];
  const before = names.map(name => process.env[name]);
  t.after(async () => {
    names.forEach((name, i) => (before[i] === undefined ? delete process.env[name] : (process.env[name] = before[i])));
    await fake.close();
  });
  [process.env.E2B_API_KEY, process.env.E2B_API_URL, process.env.E2B_SANDBOX_URL] = [fake.apiKey, fake.url, fake.url];

  const workspace = createMastraWorkspace({ provider: e2b(), ports: [3000] });
  const agent = new Agent({
    id: 'sandbox-agent',
    name: 'Sandbox agent',
    model: scriptedModel([
      call(WORKSPACE_TOOLS.FILESYSTEM.WRITE_FILE, { path: 'hello.sh', content: 'echo $((6 * 7))\n' }),
      call(WORKSPACE_TOOLS.SANDBOX.EXECUTE_COMMAND, { command: 'sh hello.sh' }),
      (seen) => ({ text: `It printed ${seen.at(-1).output}` }),
    ]),
    instructions: 'Work only in the attached workspace and verify changes.',
    workspace,
  });
  const result = await agent.generate('Create hello.sh and run it.');
  assert.equal(result.text.trim(), 'It printed 42');

  const url = await workspace.sandbox.getPortUrl(3000);
  assert.equal(url, `https://3000-${workspace.sandbox.getInfo().metadata.sandboxId}.e2b.app`);
  await workspace.sandbox.sandboxSdk.files.write('READY', 'yes\n');
  assert.equal(await workspace.filesystem.readFile('/READY', { encoding: 'utf-8' }), 'yes\n');
  await workspace.destroy();
  assert.deepEqual([...fake.sandboxes.values()].filter(one => one.state === 'running'), []);
});

// A factory's callback, as the other page has it for its own sandboxes.
test('a sandbox callback: one sandbox of the session’s id, made when first used', async t => {
  const { startFake } = await import('../fakes/e2b.js');
  const { e2b } = await import('sandbox-sdk-native/e2b');
  const fake = await startFake();
  t.after(() => fake.close());
  const sandboxOf = ctx =>
    createMastraSandbox({ id: ctx.sessionId, provider: e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url, autoPause: true }) });
  const first = sandboxOf({ sessionId: 'session-1' });
  assert.equal(fake.sandboxes.size, 0);
  assert.equal((await first.executeCommand('echo checkout > repo; pwd')).stdout, '/workspace\n');
  const again = sandboxOf({ sessionId: 'session-1' });
  assert.equal((await again.executeCommand('cat repo')).stdout, 'checkout\n');
  assert.equal(again.getInfo().metadata.sandboxId, first.getInfo().metadata.sandboxId);
  assert.equal(fake.sandboxes.size, 1);
  await again._destroy();
});
