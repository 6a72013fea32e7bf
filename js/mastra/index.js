// The Mastra entry point.
export { isSandboxError, SandboxError, sandboxErrorCodes } from '../errors.js';
export { SandboxSdkFilesystem } from './filesystem.js';
export { SandboxSdkProcessHandle } from './process-handle.js';
export { SandboxSdkProcessManager } from './process-manager.js';
export { SandboxSdkSandbox } from './sandbox.js';
export { createMastraSandbox, createMastraWorkspace } from './workspace.js';
