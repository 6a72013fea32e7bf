// Checked by tsc, never run: the hand-written types against Mastra's own.
import { Agent } from '@mastra/core/agent';
import {
  MastraFilesystem,
  MastraSandbox,
  ProcessHandle,
  SandboxProcessManager,
  Workspace,
  WORKSPACE_TOOLS,
} from '@mastra/core/workspace';
import type { WorkspaceFilesystem, WorkspaceSandbox } from '@mastra/core/workspace';
import {
  capabilityMode,
  createSandbox,
  isSandboxError,
  providerFromEnvironment,
  requireCapability,
  SandboxError,
  supports,
  withSandbox,
} from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { local } from 'sandbox-sdk-native/local';
import { createMastraSandbox, createMastraWorkspace } from 'sandbox-sdk-native/mastra';

const provider = local({ isolation: 'full', network: ['example.org'], limits: { processes: 100, memory: 2 ** 29, cpu: 1.5, outputRate: 1e6 }, env: { A: '1' } });

const workspace = createMastraWorkspace({
  provider,
  identity: 'repo-bootstrap-v1',
  filesystem: { readOnly: false, textExtensions: ['.cjs'] },
  env: { A: 'b', GONE: undefined },
  async onFirstCreate(sandbox) {
    await sandbox.files.write('package.json', '{"type":"module"}\n');
  },
  onStart({ sandbox, outcome }) {
    const id: string = sandbox.id;
    if (outcome === 'created') console.log(id);
  },
  instructions: ({ defaultInstructions }) => defaultInstructions,
  workspace: {
    id: 'repo-workspace',
    bm25: true,
    autoIndexPaths: ['/docs'],
    tools: {
      [WORKSPACE_TOOLS.SANDBOX.EXECUTE_COMMAND]: { requireApproval: true },
      [WORKSPACE_TOOLS.FILESYSTEM.WRITE_FILE]: { requireReadBeforeWrite: true },
    },
  },
});

export const agent = new Agent({ id: 'a', name: 'a', model: 'openai/gpt-5', instructions: 'x', workspace });
export const filesystem: WorkspaceFilesystem = workspace.filesystem;
export const sandbox: WorkspaceSandbox = workspace.sandbox;
export const bases: [MastraFilesystem, MastraSandbox] = [workspace.filesystem, workspace.sandbox];
export const manager: SandboxProcessManager = workspace.sandbox.processes;
export const alone = new Workspace({ sandbox: createMastraSandbox({ provider, ports: [3000] }) });

export async function useTerminal() {
  const sdk = workspace.sandbox.sandboxSdk;
  const shell = await sdk.processes.start('sh -i', { pty: { cols: 100, rows: 30 } });
  await shell.resize(80, 24);
  const running: boolean = await shell.signal('INT');
  await sdk.pause();
  await sdk.resume();
  const reason: string | undefined = (await shell.wait()).reason;
  return { running, reason };
}

export async function use() {
  const url: string = await workspace.sandbox.getPortUrl(3000, 'https');
  const none: string | null = await workspace.sandbox.networking.getPortUrl(3000);
  const { exitCode, killed, stdoutDroppedBytes } = await workspace.sandbox.executeCommand('echo', ['a'], { timeout: 1 });
  const flags: [number, boolean, number] = [exitCode, killed, stdoutDroppedBytes];
  const text: string = await workspace.filesystem.readFile('a', { encoding: 'utf8' });
  const bytes: Buffer = await workspace.filesystem.readFile('a');
  const handle: ProcessHandle = await workspace.sandbox.processes.spawn('sleep 1');
  const { outcome } = await workspace.sandbox.start();
  const how: 'created' | 'connected' = outcome;
  const sdk = workspace.sandbox.sandboxSdk;
  await sdk.files.write('a', new Blob(['x']), { mode: 0o600 });
  await sdk.files.write('a', new Uint8Array(1).buffer);
  await sdk.files.write('a', new Response('x').body!);
  const result = await sdk.run(['ls', '-l'], { stdin: 'x', signal: AbortSignal.timeout(1), onStdout: t => t.length });
  const child = await sdk.processes.start('cat', { stdin: false });
  const { running } = await child.status();
  workspace.sandbox.setEnv(env => ({ ...env, B: '1', A: undefined }));
  return [url, none, flags, text, bytes, handle, how, result.stdout, running];
}

export async function network() {
  local({ network: ['npm', '*.example.com:8443'] });
  local({ network: { allow: ['10.0.0.5:5432'] } });
  const box = await createSandbox({ provider, ports: [3000], onNetworkDenied: ({ host, port, reason }) => [host, port, reason] });
  await box.setNetworkPolicy('deny');
  await box.setNetworkPolicy({ allow: ['a.example'] });
  // @ts-expect-error needs a new sandbox
  await box.setNetworkPolicy('allow');
  const { url, request } = await box.ports.expose(3000);
  return [url, (await request('/', { method: 'POST' })).status];
}

export async function neutral() {
  await using box = await createSandbox({ provider, id: 'one' });
  const size: number = await withSandbox({ provider: await providerFromEnvironment() }, async s => (await s.files.read('a')).length);
  if (supports(box, 'files') && capabilityMode(provider, 'stdin') === 'native') requireCapability(workspace.sandbox, 'stdin');
  try {
    throw new SandboxError('timeout', 'x', { retryable: true });
  } catch (error) {
    if (isSandboxError(error)) return error.code === 'timeout' ? size : 0;
  }
  return 0;
}

// @ts-expect-error a provider is needed
createMastraWorkspace({});
// @ts-expect-error no such level
local({ isolation: 'some' });
// @ts-expect-error not this package's
local({ agentOs: {} });
// @ts-expect-error mounts are not emulated
createMastraWorkspace({ provider, workspace: { mounts: {} } });
// @ts-expect-error the adapter makes the filesystem
createMastraWorkspace({ provider, workspace: { filesystem } });
// @ts-expect-error ports are numbers
createMastraSandbox({ provider, ports: ['3000'] });
// @ts-expect-error not one of the twelve
new SandboxError('nope', 'x');
// @ts-expect-error a provider comes from a factory
createSandbox({ provider: 'local' });
// @ts-expect-error numbers are no file content
workspace.sandbox.sandboxSdk.files.write('a', 1);

const cloud = e2b({ apiKey: 'x', template: 'base', timeout: 1e6, metadata: { a: 'b' }, network: { allowOut: ['example.com'], denyOut: ['0.0.0.0/0'], allowPublicTraffic: false } });
createMastraWorkspace({ id: 'x', provider: cloud, ports: [3000] });
e2b({ network: 'deny' });
e2b({ network: ['npm'], env: { A: '1' } });
// @ts-expect-error not an option
e2b({ apikey: 'x' });
