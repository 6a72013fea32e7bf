// A set-up step that fails gives one error with step, errno and remedy, and no
// command runs.
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { native } from '../../js/native.js';

const steps = [
  'config', 'workspace', 'idmap', 'namespaces', 'uid_map', 'setid', 'lifeline', 'root', 'binds', 'files', 'proc', 'dev',
  'mount_workspace', 'pivot', 'loopback', 'hostname', 'capabilities', 'rlimits', 'no_new_privs', 'landlock', 'seccomp', 'ready',
];
const EPERM = 1;

function open(folder, step) {
  return native().open('local', {
    id: `step-${step}`,
    isolation: 'full', // "auto" goes on to level landlock: landlock.test.js
    host: { path: process.env.PATH, home: '/nonexistent', execPath: process.execPath, tmpdir: folder },
    test: { failStep: step, failErrno: EPERM },
  });
}

for (const [index, name] of steps.entries()) {
  test(`set-up step ${name}`, async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'steps-'));
    const sandbox = open(folder, index + 1);
    try {
      await assert.rejects(sandbox.create(), (error) => {
        assert.equal(error.code, 'unavailable');
        assert.equal(error.step, name);
        assert.equal(error.errno, 'EPERM');
        assert.match(error.message, /[a-z]{4}.*\.$/s);
        return true;
      });
      assert.throws(() => sandbox.spawn({ argv: ['true'], cwd: '/', env: [] }, { onExit() {} }), {
        code: 'unavailable',
      });
    } finally {
      await sandbox.close();
      assert.deepEqual(readdirSync(folder), []);
      rmSync(folder, { recursive: true });
    }
  });
}
