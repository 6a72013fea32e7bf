// A sandbox returned from a software-factory callback: built without I/O, set up
// by hooks, and driven by git as argument lists. Cloned from a local repository.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';

import * as core from '@mastra/core/workspace';
import { local } from 'sandbox-sdk-native/local';
import { createMastraSandbox } from 'sandbox-sdk-native/mastra';
import { plainEnv } from '../helpers/child-env.js';

const scratch = fs.mkdtempSync(path.join(tmpdir(), 'factory-'));
const origin = path.join(scratch, 'origin.git');
const author = { GIT_AUTHOR_NAME: 'A', GIT_AUTHOR_EMAIL: 'a@b', GIT_COMMITTER_NAME: 'A', GIT_COMMITTER_EMAIL: 'a@b' };
const modern = { skip: !core.MastraSandbox.prototype.setOnStart && 'this @mastra/core has no setOnStart' };

before(() => {
  fs.chmodSync(scratch, 0o755);
  const git = (...args) => execFileSync('git', args, { env: { PATH: process.env.PATH, HOME: scratch, ...author }, stdio: 'pipe' });
  const work = path.join(scratch, 'work');
  git('init', '-q', '-b', 'main', work);
  fs.writeFileSync(path.join(work, 'README.md'), 'hello\n');
  git('-C', work, 'add', '.');
  git('-C', work, 'commit', '-q', '-m', 'first');
  git('clone', '-q', '--bare', work, origin);
  // The sandbox has another user; it may push.
  execFileSync('chmod', ['-R', 'a+rwX', origin]);
});
after(() => fs.rmSync(scratch, { recursive: true, force: true }));

/** What an application passes to the factory. */
function callback({ sessionId, repoFullName }) {
  return createMastraSandbox({
    provider: local({ readWritePaths: [origin] }),
    id: sessionId,
    workingDirectory: '/workspace',
    env: { REPO: repoFullName },
  });
}

test('the factory’s git command list', modern, async () => {
  const sandbox = callback({ sessionId: 'session-1', repoFullName: 'a/b' });
  assert.ok(sandbox instanceof core.MastraSandbox);
  assert.equal(sandbox.status, 'pending');
  const wd = `${sandbox.workingDirectory}/the repo`;
  const run = async (command, args, options = {}) => {
    const env = { GIT_TERMINAL_PROMPT: '0', GIT_CONFIG_COUNT: '2', GIT_CONFIG_KEY_0: 'http.https://x/.extraHeader', GIT_CONFIG_VALUE_0: 'Authorization: Basic abc==', GIT_CONFIG_KEY_1: 'safe.directory', GIT_CONFIG_VALUE_1: '*', ...author, ...options.env };
    return sandbox.executeCommand(command, args, { timeout: 60_000, ...options, env });
  };
  const ok = async (command, ...args) => {
    const result = await run(command, args);
    assert.equal(result.exitCode, 0, `${command} ${args.join(' ')}: ${result.stderr}`);
    return result.stdout;
  };
  let setups = 0;
  sandbox.setOnStart(previous => async args => {
    if (args.outcome !== 'created') return;
    setups++;
    await ok('git', '--version');
    await ok('mkdir', '-p', wd);
    await ok('sh', '-c', `touch "${wd}/.old file" "${wd}/-x"; mkdir "${wd}/d + {}"`);
    await ok('find', wd, '-mindepth', '1', '-maxdepth', '1', '-exec', 'rm', '-rf', '--', '{}', '+');
    assert.equal(await ok('ls', '-A', wd), '');
    await ok('git', 'clone', '--depth=1', '--single-branch', '--branch', 'main', '--', `file://${origin}`, wd);
    await ok('mkdir', '-p', '.mastra-sandbox');
    await ok('sh', '-c', 'printf %s "digest!" > .mastra-sandbox/setup');
    await previous?.(args);
  });
  await Promise.all([sandbox.start(), sandbox.start()]);
  assert.equal(setups, 1);

  const probe = `test -d "${wd}/.git" && test -f ".mastra-sandbox/setup" && [ "$(cat ".mastra-sandbox/setup")" = "digest!" ]`;
  assert.equal((await sandbox.executeCommand(probe)).exitCode, 0);
  assert.equal((await sandbox.executeCommand('pwd')).stdout, '/workspace\n');
  assert.equal(await ok('git', '-C', wd, 'remote', 'get-url', 'origin'), `file://${origin}\n`);
  await ok('git', '-C', wd, 'config', 'credential.helper', '!gh auth git-credential');
  assert.equal(await ok('git', '-C', wd, 'config', 'credential.helper'), '!gh auth git-credential\n');
  assert.equal(await ok('git', '-C', wd, 'config', 'http.https://x/.extraHeader'), 'Authorization: Basic abc==\n');
  assert.equal(await ok('git', '-C', wd, 'branch', '--show-current'), 'main\n');
  const missing = await run('git', ['-C', wd, 'show-ref', '--verify', '--quiet', 'refs/heads/work+1']);
  assert.deepEqual([missing.exitCode, missing.success, missing.killed], [1, false, false]);
  await ok('git', '-C', wd, 'checkout', '-q', '-b', 'work+1');
  await sandbox.sandboxSdk.files.write('the repo/new\nfile {} +', 'x');
  await ok('git', '-C', wd, 'add', '--', 'new\nfile {} +');
  const message = "it's $HOME `id` \"quoted\" \\ !\n\n- {} + é 😀\n";
  await ok('git', '-C', wd, 'commit', '-q', '-m', message);
  assert.equal(await ok('git', '-C', wd, 'log', '-1', '--format=%B'), `${message}\n`);
  await ok('git', '-C', wd, 'push', '-q', 'origin', 'HEAD:refs/heads/work+1');
  await ok('git', '-C', wd, 'fetch', '-q', 'origin', 'main');
  assert.match(execFileSync('git', ['-c', 'safe.directory=*', '-C', origin, 'log', '-1', '--format=%B', 'work+1'], { encoding: 'utf8', env: plainEnv() }), /it's \$HOME/);
  assert.equal(await ok('sh', '-c', 'echo "$REPO"; cd "$1" && pwd', 'hook', wd), `a/b\n${wd}\n`);

  sandbox.setEnv(env => ({ ...env, GH_TOKEN: 'secret' }));
  assert.equal(await ok('sh', '-c', 'echo $GH_TOKEN $REPO'), 'secret a/b\n');
  const failed = await run('git', ['-C', wd, 'clone', 'file:///no/such', 'x']);
  assert.ok(failed.exitCode !== 0 && /not exist|not appear|not found/i.test(failed.stderr));
  assert.equal((await run('no-such-program', ['x'])).exitCode, 127);

  assert.equal(typeof sandbox.getInfo().metadata.sandboxId, 'string');
  await sandbox.snapshot?.();
  await sandbox._stop();
  assert.equal((await sandbox.executeCommand('cat', ['the repo/README.md'])).stdout, 'hello\n');
  await sandbox._destroy();
});
