// Files that the host runs later: out of the reach of commands and file tools,
// while git goes on working.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { local } from 'sandbox-sdk-native/local';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { plainEnv } from '../helpers/child-env.js';

let directory;
let workspace;

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(tmpdir(), 'protect-'));
  execFileSync(
    'sh',
    ['-ec', 'git init -q -b main; git config user.email a@b; git config user.name n; echo a > a; mkdir .vscode; echo {} > .vscode/tasks.json; git add .; git commit -qm a'],
    { cwd: directory, env: plainEnv() },
  );
});

afterEach(async () => {
  await workspace.destroy();
  fs.rmSync(directory, { recursive: true, force: true });
});

async function open(options) {
  workspace = createMastraWorkspace({ provider: local({ directory, ...options }) });
  await workspace.init();
}

async function sh(command) {
  return workspace.sandbox.executeCommand(command);
}

function guarded() {
  const files = ['.git/config', '.vscode/tasks.json', ...fs.readdirSync(path.join(directory, '.git/hooks')).map(name => `.git/hooks/${name}`)];
  return files.sort().map(file => `${file} ${fs.statSync(path.join(directory, file)).mode} ${fs.readFileSync(path.join(directory, file))}`);
}

test('commands cannot change, replace or move what is protected', async () => {
  await open();
  const before = guarded();
  const attempts = [
    'echo x > .git/hooks/pre-commit', 'echo x >> .git/hooks/pre-commit.sample', 'rm -rf .git/hooks', 'mv .git/hooks h',
    'mv .git .git2', 'mv .vscode v', 'git config core.fsmonitor x', 'rm .git/config', 'ln .git/config x && echo y >> x',
    'ln -s .git/config s && echo y >> s', 'chmod 777 .git/hooks', 'chmod 777 .git/config', 'touch .vscode/tasks.json',
    'cp a .git/config', 'mount -o remount,rw .git/hooks', 'umount .git/hooks', 'umount -l .git',
    'echo y > /proc/self/cwd/.git/config', 'python3 -c "open(\'.git/config\', \'r+\').write(\'x\')"', 'truncate -s 0 .git/config',
    'mv a .git/config', 'mkdir x && mv -T x .git/hooks',
  ];
  for (const attempt of attempts) assert.notEqual((await sh(attempt)).exitCode, 0, attempt);
  assert.deepEqual(guarded(), before);
  assert.match(workspace.sandbox.getInfo().metadata.protected, /\.git\/hooks,\.git\/config/);
});

test('git works', async () => {
  await open();
  const { exitCode, stderr } = await sh(
    'set -e; echo b > b; git add b; git commit -qm b; git checkout -qb feature; echo c >> b; git commit -qam c; ' +
      'git checkout -q main; git merge -q feature; git tag t; git stash list; git gc -q; git clone -q . /tmp/clone; git worktree list; git reset -q --hard HEAD~1; git status --short',
  );
  assert.equal(exitCode, 0, stderr);
  assert.match(execFileSync('git', ['-c', 'safe.directory=*', 'log', '--oneline'], { cwd: directory, encoding: 'utf8', env: plainEnv() }), / b\n/);
});

test('file tools say what refuses them', async () => {
  await open();
  const files = workspace.filesystem;
  const before = guarded();
  await sh('ln -s .git/config way');
  const refused = [
    files.writeFile('.git/hooks/pre-commit', 'x'), files.writeFile('/workspace/.envrc', 'x'), files.appendFile('.git/config', 'x'),
    files.deleteFile('.vscode/tasks.json'), files.rmdir('.git', { recursive: true }), files.moveFile('.git', 'g'),
    files.moveFile('a', '.git/config'), files.copyFile('a', '.idea/x'), files.mkdir('.git/hooks/sub'), files.writeFile('way', 'x'),
    workspace.sandbox.sandboxSdk.files.write('.git/config', 'x'),
    workspace.sandbox.sandboxSdk.files.write('/workspace/.git/config', 'x'),
  ];
  for (const one of await Promise.allSettled(refused)) assert.match(String(one.reason), /protect/);
  assert.deepEqual(guarded(), before);
  assert.match(await files.readFile('.git/config', { encoding: 'utf8' }), /email/);
  assert.equal(await files.exists('.envrc'), false);
});

test('a snapshot comes back around it, and it is protected again', async () => {
  await open();
  const { snapshots } = workspace.sandbox.sandboxSdk;
  const { id } = await snapshots.create();
  await sh('rm a; echo x > x');
  await snapshots.restore(id);
  assert.equal((await sh('cat a; ls')).stdout, 'a\na\n');
  assert.notEqual((await sh('echo x > .git/hooks/pre-commit')).exitCode, 0);
});

test('where commands cannot be kept from it, that is said', async () => {
  await open({ isolation: 'landlock' });
  assert.match(workspace.sandbox.getInfo().metadata.degraded, /protect holds for the file tools only/);
  assert.equal(workspace.sandbox.getInfo().metadata.protected, undefined);
  await assert.rejects(workspace.filesystem.writeFile('.git/hooks/pre-commit', 'x'), /protect/);
});

for (const isolation of ['full', 'landlock']) {
  test(`what was missing and is made is told at the end: ${isolation}`, async () => {
    await open({ isolation });
    const warned = [];
    workspace.sandbox.__setLogger?.({ debug() {}, info() {}, error() {}, trackException() {}, warn: text => warned.push(text) });
    await sh('echo x > .envrc; echo .. > .git/commondir; ln -s /nowhere .husky; echo y > unsuspicious');
    await workspace.sandbox._stop();
    if (workspace.sandbox.__setLogger) assert.match(warned.join(), /this session made \.git\/commondir, \.envrc, \.husky, which this machine may run later/);
    assert.equal(workspace.sandbox.getInfo().metadata.protectedCreated, '.git/commondir,.envrc,.husky');
    await workspace.init();
    await sh('echo again');
    await workspace.sandbox._stop();
    assert.ok(warned.filter(text => /this session made/.test(text)).length <= 1, 'it is told once');
  });
}

test('a repository that the session makes is its own, and is told at the end', async () => {
  fs.rmSync(path.join(directory, '.git'), { recursive: true });
  await open();
  await workspace.filesystem.writeFile('.git/config', 'x');
  assert.equal((await sh('rm -r .git; git init -q .; git config a.b c')).exitCode, 0);
  await assert.rejects(workspace.filesystem.writeFile('.envrc', 'x'), /protect/);
  await workspace.sandbox._stop();
  assert.match(workspace.sandbox.getInfo().metadata.protectedCreated, /\.git\/hooks,\.git\/config/);
  await workspace.destroy();
  await open();
  await assert.rejects(workspace.filesystem.writeFile('.git/config', 'x'), /protect/);
  assert.notEqual((await sh('git config a.b d')).exitCode, 0);
  await workspace.destroy();
  fs.rmSync(path.join(directory, '.git'), { recursive: true });
  await open({ protect: ['.git/config'] });
  await assert.rejects(workspace.filesystem.writeFile('.git/config', 'x'), /protect/);
});

test('a session that makes nothing of it is not warned about', async () => {
  await open();
  await sh('echo x > x; git checkout -qb b');
  await workspace.sandbox._stop();
  assert.equal(workspace.sandbox.getInfo().metadata.protectedCreated, undefined);
});

test('another list, or none', async () => {
  await open({ protect: ['a'] });
  assert.notEqual((await sh('echo x > a')).exitCode, 0);
  assert.equal((await sh('git config x.y z')).exitCode, 0);
  await workspace.destroy();
  await open({ protect: [] });
  assert.equal((await sh('echo x > a; git config x.z z')).exitCode, 0);
  for (const bad of ['/etc', '../x', 'a/../b', '', 'a//b', './a', 'a/']) {
    assert.throws(() => local({ directory, protect: [bad] }), { code: 'invalid_input' });
  }
  assert.throws(() => local({ protect: ['a'] }), { code: 'invalid_input' });
  assert.throws(() => local({ directory, protect: 'a' }), { code: 'invalid_input' });
});
