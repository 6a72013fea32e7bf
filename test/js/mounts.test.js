// Where the machine's mounts are shared (systemd makes all of them so), nothing
// that a session mounts reaches the machine, and nothing that the machine mounts
// later reaches a session.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { childEnv } from '../helpers/child-env.js';

const run = promisify(execFile);
const helper = path.join(import.meta.dirname, '../helpers/shared-mounts.js');
const skip = process.getuid() !== 0 && 'only root can mount on the machine';

test('mounts of the machine and of its sessions keep apart', { skip }, async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mounts-'));
  chmodSync(folder, 0o755);
  try {
    const { stdout } = await run('unshare', ['-m', '--propagation', 'shared', process.execPath, helper, folder], {
      env: childEnv({ PATH: process.env.PATH, TMPDIR: folder }, { leaks: false }),
    });
    const seen = JSON.parse(stdout);
    assert.equal(seen.shared, true);
    assert.equal(seen.sessions.length, 3);
    for (const session of seen.sessions) assert.deepEqual(session, { during: [], inside: '0', left: [] });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
