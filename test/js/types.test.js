// The hand-written types against Mastra's: no error outside of node_modules
// (Mastra's own have some), none missing where surface.ts expects one.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const top = fileURLToPath(new URL('../..', import.meta.url));

const require = createRequire(import.meta.url);
const wanted = require('../../package.json').devDependencies['@mastra/core'];
const skip = require('@mastra/core/package.json').version !== wanted && 'the types are those of the newest @mastra/core';

test('types', { skip }, () => {
  const { stdout, status } = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'test/types'], {
    cwd: top,
    encoding: 'utf8',
  });
  assert.notEqual(status, null);
  assert.deepEqual(stdout.split('\n').filter(line => /^(js|test)\//.test(line)), []);
  assert.match(stdout, /^([./\w]*\bnode_modules\/|$)/, 'tsc did not run');
});
