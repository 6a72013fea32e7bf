// Real Mastra agents on the adapter: approval, a sandbox for each user, the
// sandbox alone, several workspaces, the examples.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { Agent } from '@mastra/core/agent';
import { Mastra } from '@mastra/core/mastra';
import { InMemoryStore } from '@mastra/core/storage';
import * as contexts from '@mastra/core/request-context';
import * as core from '@mastra/core/workspace';
import { createMastraSandbox, createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { provider, where } from '../helpers/providers.js';
import { childEnv } from '../helpers/child-env.js';
import { scriptedModel } from '../examples/scripted-model.js';

const { EXECUTE_COMMAND } = core.WORKSPACE_TOOLS.SANDBOX;
const call = (tool, input) => ({ calls: [{ tool, input }] });
const run = command => call(EXECUTE_COMMAND, { command });

function agentOf(workspace, script, id = 'tester') {
  return new Agent({ id, name: id, model: scriptedModel(script), instructions: 'Work.', workspace });
}

const approves = Agent.prototype.approveToolCallGenerate !== undefined;
// Core 1.12 goes on without the workspace after an approval.
const keepsWorkspace = core.StaleFileError !== undefined;

test('a command that needs approval waits, and nothing runs until then', { skip: !approves && 'this @mastra/core approves only in streams' }, async () => {
  const shared = provider();
  const make = () => createMastraWorkspace({ provider: shared, workspace: { tools: { [EXECUTE_COMMAND]: { requireApproval: true } } } });
  for (const approve of [true, false]) {
    const workspace = make();
    await workspace.init();
    const agent = agentOf(workspace, [run('touch ran; echo done'), seen => ({ text: `it said ${JSON.stringify(seen.at(-1)?.output)}` })]);
    new Mastra({ agents: { tester: agent }, storage: new InMemoryStore(), logger: false });
    const waiting = await agent.generate('Run it.');
    assert.equal(waiting.finishReason, 'suspended');
    assert.equal(await workspace.filesystem.exists('ran'), false);
    const { runId, suspendPayload } = waiting;
    const { toolCallId } = suspendPayload;
    const answer = approve ? await agent.approveToolCallGenerate({ runId, toolCallId }) : await agent.declineToolCallGenerate({ runId, toolCallId });
    assert.equal(await workspace.filesystem.exists('ran'), approve && keepsWorkspace);
    assert.equal(/done/.test(answer.text), approve && keepsWorkspace);
    await workspace.destroy();
  }
});

const needsResolver = { skip: !('resolveSandbox' in core.Workspace.prototype) && 'this @mastra/core has no sandbox resolver' };

test('a sandbox for each user, found again by its key', needsResolver, async () => {
  const shared = provider();
  const made = [];
  const workspace = new core.Workspace({
    sandbox: ({ requestContext }) => {
      const sandbox = createMastraSandbox({ provider: shared, id: `user-${requestContext.get('user')}` });
      made.push(sandbox);
      return sandbox;
    },
    sandboxCacheKey: ({ requestContext }) => requestContext.get('user'),
  });
  const ask = async (user, command) => {
    const requestContext = new contexts.RequestContext([['user', user]]);
    const agent = agentOf(workspace, [run(command), seen => ({ text: String(seen.at(-1).output).trim() })]);
    return (await agent.generate('Run it.', { requestContext })).text;
  };
  assert.equal(await ask('ann', 'echo of ann > note; cat note'), 'of ann');
  assert.match(await ask('bob', 'cat note'), /No such file/);
  assert.equal(await ask('ann', 'cat note'), 'of ann');
  assert.deepEqual(made.map(sandbox => sandbox.id), ['user-ann', 'user-bob']);
  await Promise.all(made.map(sandbox => sandbox._destroy()));
});

test('the sandbox alone: commands and background processes, no file tools', async () => {
  const sandbox = createMastraSandbox({ provider: provider() });
  const workspace = new core.Workspace({ sandbox });
  const tools = await core.createWorkspaceTools(workspace);
  assert.ok(tools[EXECUTE_COMMAND] && !tools[core.WORKSPACE_TOOLS.FILESYSTEM.READ_FILE]);
  const agent = agentOf(workspace, [run('echo $((6 * 7))'), seen => ({ text: String(seen.at(-1).output).trim() })]);
  assert.equal((await agent.generate('Run it.')).text, '42');
  await workspace.destroy();
  assert.equal(sandbox.status, 'destroyed');
});

test('two workspaces in one process: files, processes and environments are apart', async t => {
  const shared = provider();
  const [one, two] = ['one', 'two'].map(name => createMastraWorkspace({ provider: shared, env: { NAME: name } }));
  t.after(() => Promise.all([one.destroy(), two.destroy()]));
  await Promise.all([one, two].map(workspace => workspace.init()));
  const line = 'echo $NAME > name; cat name; ls -A';
  const background = await one.sandbox.processes.spawn('exec sleep 60');
  const [first, second] = await Promise.all([one, two].map(workspace => workspace.sandbox.executeCommand(line)));
  assert.deepEqual([first.stdout, second.stdout], ['one\nname\n', 'two\nname\n']);
  assert.equal(await two.sandbox.processes.get(background.pid), undefined);
  await two.destroy();
  assert.equal(background.exitCode, undefined);
  assert.equal(await one.filesystem.readFile('name', { encoding: 'utf-8' }), 'one\n');
  await one.destroy();
  assert.equal(background.exitCode, 137);
});

test('Mastra shuts its workspaces down, also one that was never started', async () => {
  const [used, unused] = [createMastraWorkspace({ provider: provider() }), createMastraWorkspace({ provider: provider() })];
  const agents = { used: agentOf(used, [run('echo x > kept'), { text: 'ok' }], 'used'), unused: agentOf(unused, [{ text: 'ok' }], 'unused') };
  const mastra = new Mastra({ agents, logger: false });
  await agents.used.generate('Run it.');
  await mastra.shutdown();
  assert.notEqual(unused.sandbox.status, 'running');
  // Older cores destroy what they shut down.
  if (core.Workspace.prototype.stop) assert.equal(await used.filesystem.readFile('kept', { encoding: 'utf-8' }), 'x\n');
  await used.destroy();
  await unused.destroy();
});

test('what the model is told', async () => {
  const workspace = createMastraWorkspace({ provider: provider(), filesystem: { readOnly: true } });
  const told = workspace.getInstructions();
  const own = where === 'local' ? [/network is off/i, /processes \d+/] : [/network can be used/i];
  for (const fact of [/\/workspace/, /isolated/, /read-only/, ...own]) assert.match(told, fact);
  await workspace.destroy();
});

test('language servers: Mastra’s are refused, one inside is spoken to over its streams', async () => {
  assert.throws(() => createMastraWorkspace({ provider: provider(), workspace: { lsp: true } }), { code: 'invalid_input', message: /workspace\.lsp .*dangerouslyAllowHostLsp/ });
  const example = fileURLToPath(new URL('../examples/language-server.js', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [example], { env: childEnv({ PATH: process.env.PATH, TMPDIR: tmpdir() }) });
  assert.equal(stdout, "capabilities: hoverProvider\nhover: line 0: const grüße = 'hello 😀';\nserver ended with 0\n");
});
