// .ci/fetch-deps in a tree of its own: a folder of sources is whole or not there.
// No test here reaches a network.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';

const root = path.resolve(import.meta.dirname, '../..');

function makeTree(t) {
  const tree = mkdtempSync(path.join(os.tmpdir(), 'sbx-deps-'));
  t.after(() => rmSync(tree, { recursive: true, force: true }));
  mkdirSync(path.join(tree, 'repo/.ci'), { recursive: true });
  mkdirSync(path.join(tree, 'apt'));
  cpSync(path.join(root, '.ci/fetch-deps'), path.join(tree, 'repo/.ci/fetch-deps'));
  return tree;
}

function fetchDeps(tree, env) {
  const child = spawn('bash', [path.join(tree, 'repo/.ci/fetch-deps')], {
    env: { PATH: process.env.PATH, SBX_APT_SOURCES: path.join(tree, 'apt'), ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let errors = '';
  child.stderr.on('data', (bytes) => (errors += bytes));
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, errors })));
}

function fillCache(tree) {
  const cache = path.join(tree, 'cache/sandbox-sdk-native/deps');
  cpSync(path.join(root, 'build/deps'), cache, { recursive: true });
  return cache;
}

const files = (folder) => readdirSync(folder, { recursive: true }).sort();

test('a cache is copied, also by several runs at once', async (t) => {
  const tree = makeTree(t);
  const cache = fillCache(tree);
  const env = { XDG_CACHE_HOME: path.join(tree, 'cache') };
  const runs = await Promise.all([1, 2, 3].map(() => fetchDeps(tree, env)));
  assert.deepEqual(runs, Array(3).fill({ code: 0, errors: '' }));
  const build = path.join(tree, 'repo/build');
  assert.deepEqual(files(path.join(build, 'deps')), files(cache));
  assert.deepEqual(readdirSync(build).sort(), ['deps', 'deps.lock']);
  assert.match(readFileSync(path.join(build, 'deps/cjson/cJSON.c'), 'utf8'), /^static __thread error global_error /m);
});

test('what is not whole is not used', async (t) => {
  const tree = makeTree(t);
  const cache = fillCache(tree);
  const env = { HOME: tree, XDG_CACHE_HOME: path.join(tree, 'cache') };
  const target = path.join(tree, 'repo/build/deps');
  cpSync(cache, target, { recursive: true });
  rmSync(path.join(target, 'wslay/COPYING'));
  assert.equal((await fetchDeps(tree, env)).code, 0);
  assert.deepEqual(files(target), files(cache));
  rmSync(path.join(target, 'cjson/cJSON.c'));
  rmSync(path.join(cache, 'cjson/cJSON.c'));
  assert.equal((await fetchDeps(tree, env)).code, 1);
});

test('without sources and cache it says what to do, and leaves nothing', async (t) => {
  for (const env of [{}, { HOME: '/proc/none' }, { XDG_CACHE_HOME: 'relative' }]) {
    const tree = makeTree(t);
    const { code, errors } = await fetchDeps(tree, env);
    assert.equal(code, 1);
    assert.match(errors, /needed are the sources of cJSON and wslay/);
    assert.match(errors, /sandbox-sdk-native\/deps/);
    assert.equal(existsSync(path.join(tree, 'repo/build/deps')), false);
    assert.deepEqual(readdirSync(path.join(tree, 'repo')).sort(), ['.ci', 'build']);
  }
});
