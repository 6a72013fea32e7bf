// A worker that ends while a call of the addon reads its options, or at any other
// moment: the process goes on, and nothing is done that was not asked for.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { childEnv } from '../helpers/child-env.js';

const script = fileURLToPath(new URL('../helpers/worker-cuts.js', import.meta.url));

test('a worker that ends in the middle of a call', () => {
  const directory = fs.mkdtempSync('/tmp/worker-cuts-');
  try {
    const env = childEnv({ PATH: process.env.PATH }, { leaks: false });
    const { stdout, stderr, signal } = spawnSync(process.execPath, [script, directory], { env, encoding: 'utf8', timeout: 120_000 });
    assert.equal(stdout, 'over\n', `${signal ?? ''} ${stderr}`);
  } finally {
    fs.rmSync(directory, { recursive: true, force: true });
  }
});
