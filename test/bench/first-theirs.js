// The time of this whole script is import, create, first command and end.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { LocalFilesystem, LocalSandbox, Workspace } from '@mastra/core/workspace';

const folder = mkdtempSync(path.join(tmpdir(), 'bench-'));
const workspace = new Workspace({
  filesystem: new LocalFilesystem({ basePath: folder }),
  sandbox: new LocalSandbox({ workingDirectory: folder }),
});
await workspace.init();
await workspace.sandbox.executeCommand('echo hello');
console.log(performance.now());
await workspace.destroy();
rmSync(folder, { recursive: true, force: true });
