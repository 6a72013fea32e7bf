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
