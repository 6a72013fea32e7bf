// Imported first by a test file: runs the file again where an escape that works
// harms nothing, in a mount namespace of its own (as root), with a secret file
// open that its programs would inherit. Ends this process with what came of it.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** The number under which this process has the secret file open. */
export const inherited = 200;

function again() {
  const folder = mkdtempSync(path.join(tmpdir(), 'inherited-'));
  const secret = path.join(folder, 'secret');
  writeFileSync(secret, 'do-not-inherit-me\n');
  const mounts = process.getuid() === 0 ? ['unshare', '-m', '--propagation', 'private'] : [];
  const node = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  try {
    const { status, signal, error } = spawnSync(
      'bash',
      ['-c', `exec ${inherited}<"$0"; exec "$@"`, secret, ...mounts, ...node],
      { stdio: 'inherit', env: { ...process.env, SBX_TEST_INSIDE: '1' } },
    );
    if (error) throw error;
    if (signal) console.error(`ended by ${signal}`);
    return status ?? 1;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

if (process.env.SBX_TEST_INSIDE !== '1') process.exit(again());
delete process.env.SBX_TEST_INSIDE;
