// Temporary folders that are gone when the process ends, whatever a test did.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { plainEnv } from '../helpers/child-env.js';

const folders = new Set();

process.on('exit', () => {
  for (const folder of folders) removeFolder(folder);
});

export function makeFolder(prefix) {
  const folder = mkdtempSync(path.join(tmpdir(), prefix));
  folders.add(folder);
  return folder;
}

/** Also where a command inside took the write permission away. */
export function removeFolder(folder) {
  folders.delete(folder);
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch {
    execFileSync('chmod', ['-R', 'u+rwX', folder], { env: plainEnv() });
    rmSync(folder, { recursive: true, force: true });
  }
}
