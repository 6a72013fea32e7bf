// The Local code blocks of the product's Mastra page, with a scripted model in
// place of the named one.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Agent } from '@mastra/core/agent';
import { Workspace, WORKSPACE_TOOLS, createWorkspaceTools } from '@mastra/core/workspace';
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

test('use only the sandbox adapter', async () => {
  const sandbox = createMastraSandbox({ provider: local() });
  const workspace = new Workspace({ sandbox });
  await workspace.init();
  const { stdout } = await workspace.sandbox.executeCommand('echo', ['only the sandbox']);
  assert.equal(stdout, 'only the sandbox\n');
  await workspace.destroy();
});

test('access the normalized sandbox', async () => {
  const workspace = createMastraWorkspace({ provider: local() });
  await workspace.init();
  await workspace.sandbox.sandboxSdk.files.write('READY', 'yes\n');
  assert.equal(await workspace.filesystem.readFile('/READY', { encoding: 'utf-8' }), 'yes\n');
  await workspace.destroy();
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
