// Prints ms from the creation of Mastra's workspace to the end of a first command.
import { tmpdir } from 'node:os';
import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
const folder = mkdtempSync(path.join(tmpdir(), 'bench-'));
const core = await import('@mastra/core/workspace');
const start = performance.now();
const workspace = new core.Workspace({
  filesystem: new core.LocalFilesystem({ basePath: folder }),
  sandbox: new core.LocalSandbox({ workingDirectory: folder }),
});
await workspace.init();
await workspace.sandbox.executeCommand('echo hello');
console.log(performance.now() - start);
await workspace.destroy();
rmSync(folder, { recursive: true, force: true });
