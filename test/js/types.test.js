// The hand-written types against Mastra's: no error outside of node_modules
// (Mastra's own have some), none missing where surface.ts expects one.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const top = fileURLToPath(new URL('../..', import.meta.url));

test('types', () => {
  const { stdout, status } = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'test/types'], {
    cwd: top,
    encoding: 'utf8',
  });
  assert.notEqual(status, null);
  assert.deepEqual(stdout.split('\n').filter(line => /^(js|test)\//.test(line)), []);
  assert.match(stdout, /^(node_modules\/|$)/, 'tsc did not run');
});
