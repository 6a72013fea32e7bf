// The Mastra entry point: a Workspace whose file tools and commands share one
// sandbox, or that sandbox alone.
import { invalid } from '../errors.js';
import { leaseOptions } from '../lease.js';
import { checkBoolean, checkNames, checkObject } from '../options.js';
import { core } from './core.js';
import { SandboxSdkFilesystem } from './filesystem.js';
import { SandboxSdkSandbox } from './sandbox.js';

export { isSandboxError, SandboxError, sandboxErrorCodes } from '../errors.js';
export { SandboxSdkProcessHandle, SandboxSdkProcessManager } from './processes.js';
export { SandboxSdkFilesystem, SandboxSdkSandbox };

const sandboxOptionNames = [...leaseOptions, 'name', 'instructions', 'onStart', 'onStop', 'onDestroy'];
const REMOTE_LOCK_MS = 120_000;
const filesystemNames = ['id', 'readOnly', 'instructions', 'onInit', 'onDestroy', 'textExtensions'];

/** A Mastra sandbox on `options.provider`. Starts nothing; wrong options throw. */
export function createMastraSandbox(options) {
  const given = checkObject(options, 'the options of createMastraSandbox()');
  checkNames(given, sandboxOptionNames, 'createMastraSandbox()');
  return new SandboxSdkSandbox(given);
}

/** A Mastra Workspace on `options.provider`. Starts nothing; wrong options throw. */
export function createMastraWorkspace(options) {
  const { filesystem, workspace, ...sandboxOptions } = checkObject(options, 'the options of createMastraWorkspace()');
  checkNames(sandboxOptions, [...sandboxOptionNames, 'filesystem', 'workspace'], 'createMastraWorkspace()');
  const files = checkObject(filesystem, 'filesystem');
  checkNames(files, filesystemNames, 'filesystem');
  const settings = checkWorkspace(workspace);
  const sandbox = createMastraSandbox(sandboxOptions);
  return new core.Workspace({
    ...patient(settings, sandboxOptions.provider),
    filesystem: new SandboxSdkFilesystem({ ...files, sandbox }),
    sandbox,
  });
}

// A write may wait for the start of a sandbox at a service.
function patient(settings, provider) {
  if (!provider.remote || settings.tools?.writeLockTimeoutMs !== undefined) return settings;
  return { ...settings, tools: { ...settings.tools, writeLockTimeoutMs: REMOTE_LOCK_MS } };
}

function checkWorkspace(value) {
  const { dangerouslyAllowHostLsp, ...settings } = checkObject(value, 'workspace');
  checkBoolean(dangerouslyAllowHostLsp, 'workspace.dangerouslyAllowHostLsp');
  for (const name of ['filesystem', 'sandbox']) {
    if (settings[name] === undefined) continue;
    throw invalid(`workspace.${name} is what createMastraWorkspace() makes; leave it out`);
  }
  if (settings.mounts !== undefined) {
    throw invalid(
      'workspace.mounts is not supported: this adapter emulates no mounts. Commands and file tools share one ' +
        'filesystem already; for FUSE mounts use a Mastra provider that has them.',
    );
  }
  if (settings.lsp && !dangerouslyAllowHostLsp) {
    throw invalid(
      'workspace.lsp makes Mastra load modules from the agent’s files into this process, outside the sandbox: ' +
        'leave it out, or set workspace.dangerouslyAllowHostLsp to true if you trust the workspace.',
    );
  }
  return settings;
}
