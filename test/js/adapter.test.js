// The Mastra adapter on the real addon, from the outside.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';

import * as core from '@mastra/core/workspace';
import { createSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';
import { createMastraSandbox, createMastraWorkspace } from 'sandbox-sdk-native/mastra';

const scratch = mkdtempSync(path.join(tmpdir(), 'adapter-'));
after(() => rmSync(scratch, { recursive: true, force: true }));

/** Runs `work` with a workspace that is destroyed afterwards. */
function using(options, work) {
  return async t => {
    const workspace = createMastraWorkspace({ provider: local(), ...options });
    try {
      await work(workspace, t);
    } finally {
      await workspace.destroy();
    }
  };
}

const out = async (workspace, ...args) => (await workspace.sandbox.executeCommand(...args)).stdout;

async function toolCall(workspace, name, input) {
  const tools = await core.createWorkspaceTools(workspace);
  return tools[`mastra_workspace_${name}`].execute(input, { workspace });
}

test('a directory that was given: its host path is a spelling, too', async () => {
  const directory = path.join(scratch, 'given');
  const provider = local({ directory });
  const one = createMastraWorkspace({ provider });
  assert.deepEqual(await one.sandbox.start(), { outcome: 'created' });
  await one.filesystem.writeFile(path.join(directory, 'a'), '1');
  assert.equal(readFileSync(path.join(directory, 'a'), 'utf8'), '1');
  assert.equal((await one.filesystem.stat(path.join(directory, 'a'))).path, '/a');
  assert.equal(one.filesystem.resolveAbsolutePath('/a'), path.join(directory, 'a'));
  assert.equal(await out(one, 'pwd', [], { cwd: directory }), '/workspace\n');
  assert.equal(one.filesystem.basePath, directory);
  await one.destroy();
  assert.ok(existsSync(directory));
  const two = createMastraSandbox({ provider });
  assert.deepEqual(await two.start(), { outcome: 'connected' });
  await two._destroy();
});

test('a root keeps a session for the next one of its id', async () => {
  const root = path.join(scratch, 'root');
  const make = () => createMastraWorkspace({ provider: local({ root }), id: 'a session' });
  assert.throws(() => createMastraWorkspace({ provider: local({ root }) }), { code: 'invalid_input', message: /root needs an id/ });
  const one = await createSandbox({ provider: local({ root }), id: 'a session' });
  await one.files.write('a', 'kept');
  const busy = make();
  await assert.rejects(busy.init(), error => error instanceof core.SandboxError && /in use/.test(error.message));
  await busy.destroy();
  await one.stop();
  const two = make();
  assert.equal(await two.filesystem.readFile('a', { encoding: 'utf8' }), 'kept');
  assert.equal(readdirSync(root).length, 1);
  await two.destroy();
  assert.deepEqual(readdirSync(root), []);
});

test('a temporary workspace has no host path for Mastra', using({}, async workspace => {
  await workspace.init();
  assert.equal(workspace.filesystem.resolveAbsolutePath('/a'), undefined);
}));

test('stat.path means the same file when it is passed back', using({}, async ({ filesystem }) => {
  for (const name of ['a', 'dir/b', 'workspace/c', 'workspace', 'é ñ\n"', '/workspace/workspace/d']) {
    await filesystem.rmdir('workspace', { recursive: true, force: true }).catch(() => filesystem.deleteFile('/workspace/workspace'));
    await filesystem.writeFile(name, name);
    const { path: spelled } = await filesystem.stat(name);
    assert.ok(spelled.startsWith('/'));
    assert.equal(await filesystem.readFile(spelled, { encoding: 'utf8' }), name);
    assert.equal((await filesystem.stat(spelled)).path, spelled);
    assert.equal(await filesystem.realpath(name), spelled);
  }
  assert.deepEqual(
    [(await filesystem.stat('/')).path, (await filesystem.stat('')).type, (await filesystem.stat('/workspace')).path],
    ['/', 'directory', '/'],
  );
}));

test('every failure of a file is one of Mastra’s classes', using({}, async ({ filesystem: fs, sandbox }) => {
  await fs.writeFile('f', 'x');
  await fs.writeFile('d/x', 'x');
  await sandbox.executeCommand('ln -s /etc/passwd out; ln -s nowhere dangling; mkfifo pipe');
  const stale = new Date(5);
  for (const [call, type, more] of [
    [() => fs.readFile('no'), core.FileNotFoundError, { path: 'no', code: 'ENOENT' }],
    [() => fs.readFile('f/x'), core.FileNotFoundError],
    [() => fs.readFile('d'), core.IsDirectoryError],
    [() => fs.readFile('out'), core.PermissionError, { operation: 'readFile' }],
    [() => fs.readFile('../x'), core.PermissionError],
    [() => fs.readFile('dangling'), core.FileNotFoundError],
    [() => fs.readFile('pipe'), core.FilesystemError],
    [() => fs.writeFile('d', 'x'), core.IsDirectoryError],
    [() => fs.writeFile('f/x', 'x'), core.NotDirectoryError],
    [() => fs.writeFile('f', 'y', { overwrite: false }), core.FileExistsError],
    [() => fs.writeFile('no/deep/x', 'y', { recursive: false }), core.DirectoryNotFoundError, { path: 'no/deep' }],
    [() => fs.writeFile('f', 'y', { expectedMtime: stale }), core.StaleFileError ?? core.FilesystemError, core.StaleFileError && { expectedMtime: stale }],
    [() => fs.appendFile('d', 'x'), core.IsDirectoryError],
    [() => fs.deleteFile('no'), core.FileNotFoundError],
    [() => fs.deleteFile('d'), core.IsDirectoryError],
    [() => fs.copyFile('no', 'x'), core.FileNotFoundError, { path: 'no' }],
    [() => fs.copyFile('d', 'x'), core.IsDirectoryError, { path: 'd' }],
    [() => fs.copyFile('f', 'd/x', { overwrite: false }), core.FileExistsError, { path: 'd/x' }],
    [() => fs.moveFile('no', 'x'), core.FileNotFoundError],
    [() => fs.moveFile('f', 'd/x', { overwrite: false }), core.FileExistsError, { path: 'd/x' }],
    [() => fs.mkdir('f'), core.FileExistsError],
    [() => fs.mkdir('a/b', { recursive: false }), core.DirectoryNotFoundError, { path: 'a' }],
    [() => fs.rmdir('no'), core.DirectoryNotFoundError, { path: 'no' }],
    [() => fs.rmdir('f'), core.NotDirectoryError],
    [() => fs.rmdir('d'), core.DirectoryNotEmptyError],
    [() => fs.rmdir('/', { recursive: true }), core.PermissionError],
    [() => fs.readdir('no'), core.DirectoryNotFoundError, { path: 'no' }],
    [() => fs.readdir('f'), core.NotDirectoryError],
    [() => fs.walk('no'), core.DirectoryNotFoundError],
    [() => fs.stat('no'), core.FileNotFoundError],
    [() => fs.stat('f/x'), core.FileNotFoundError],
    [() => fs.realpath('no'), core.FileNotFoundError],
  ]) {
    await assert.rejects(call, error => {
      assert.ok(error instanceof type, `${call}: ${error.name}: ${error.message}`);
      for (const key in more) assert.deepEqual(error[key], more[key], `${call}: ${key}`);
      return true;
    });
  }
  for (const name of ['no', 'f/x', 'out', '../x', 'dangling', 'd/../../x']) assert.equal(await fs.exists(name), false, name);
  await fs.rmdir('no', { force: true });
  await fs.deleteFile('no', { force: true });
}));

test('read-only: every change is refused before anything is looked at', using({ filesystem: { readOnly: true } }, async ({ filesystem: fs }) => {
  for (const [name, ...args] of [
    ['writeFile', '../x', 'x'], ['appendFile', 'a', 'x'], ['deleteFile', 'a'], ['copyFile', 'a', 'b'],
    ['moveFile', 'a', 'b'], ['mkdir', 'a'], ['rmdir', 'a'],
  ]) {
    await assert.rejects(fs[name](...args), error => error instanceof core.WorkspaceReadOnlyError && error.message.endsWith(name));
  }
  assert.match(fs.getInstructions(), /read-only/);
  assert.equal(fs.getInfo().readOnly, true);
}));

test('reading: encodings, listings, walk, times', using({}, async ({ filesystem: fs }) => {
  await fs.writeFile('bytes', Buffer.from([0xff, 0, 0x41]));
  assert.deepEqual(await fs.readFile('bytes'), Buffer.from([0xff, 0, 0x41]));
  assert.deepEqual(
    [await fs.readFile('bytes', { encoding: 'hex' }), await fs.readFile('bytes', { encoding: 'utf-8' })],
    ['ff0041', '\uFFFD\0A'],
  );
  await assert.rejects(fs.readFile('bytes', { encoding: 'nope' }), TypeError);
  await fs.writeFile('a/b/c.ts', 'x');
  await fs.writeFile('a/.h/d.md', 'x');
  const names = async (...args) => (await fs.readdir(...args)).map(entry => entry.name);
  assert.deepEqual(await names('a'), ['.h', 'b']);
  assert.deepEqual(await names('a', { recursive: true }), ['.h', '.h/d.md', 'b', 'b/c.ts']);
  assert.deepEqual(await names('a', { recursive: true, maxDepth: 0 }), ['.h', 'b']);
  assert.deepEqual(await names('a', { recursive: true, extension: 'ts' }), ['.h', 'b', 'b/c.ts']);
  assert.deepEqual(await fs.walk('a'), [
    { name: 'b', path: 'b', type: 'directory' },
    { name: 'c.ts', path: 'b/c.ts', type: 'file' },
  ]);
  assert.deepEqual((await fs.walk('a', { maxDepth: 1, includeHidden: true })).map(entry => entry.path), ['.h', 'b']);
  const { modifiedAt, createdAt, size, mimeType, name } = await fs.stat('a/b/c.ts');
  assert.deepEqual([size, mimeType, name, modifiedAt instanceof Date, createdAt instanceof Date], [1, 'application/typescript', 'c.ts', true, true]);
  await fs.writeFile('a/b/c.ts', 'y', { expectedMtime: modifiedAt });
}));

test('grep: whatever a file holds, each of its lines is searched as it is', using({}, async workspace => {
  const { filesystem } = workspace;
  const pieces = ['ab', 'aB', 'a', 'b', '\n', '\n', '\n\n', '\r\n', ' ', 'é', '\ufeff', '\0', '\u2028', '\xff'];
  const files = {};
  for (let i = 0; i < 60; i++) {
    const text = Array.from({ length: (i * 7) % 40 }, (_, j) => pieces[(i * 31 + j * j * 7 + j * i) % pieces.length]).join('');
    files[`r${String(i).padStart(2, '0')}.txt`] = Buffer.from(text, i % 9 === 0 ? 'latin1' : 'utf8');
  }
  for (const name in files) await filesystem.writeFile(`random/${name}`, files[name]);
  for (const pattern of ['ab', 'ab$', '^ab', 'a.*b', 'b\\s', '(?=ab)', 'ab|\\0', '[^a]b']) {
    for (const caseSensitive of [true, false]) {
      const regex = new RegExp(pattern, caseSensitive ? '' : 'i');
      const wanted = Object.keys(files).flatMap(name =>
        files[name].toString().split('\n').flatMap((text, at) => {
          const found = regex.exec(text);
          return found ? [[name, at + 1, found.index, text]] : [];
        }),
      );
      const results = await filesystem.grep({ pattern, path: 'random', caseSensitive });
      const seen = results.flatMap(({ path, matches }) => matches.map(({ line, column, text }) => [path.split('/').at(-1), line, column, text]));
      assert.deepEqual(seen, wanted, pattern);
    }
  }
}));

test('grep: equal to a search by hand, and a pattern that never ends is ended', using({}, async workspace => {
  await workspace.filesystem.writeFile('a.md', 'x\né😀 needle needle\n');
  const options = { pattern: 'needle', path: '.', caseSensitive: true, includeHidden: false };
  assert.deepEqual(await workspace.filesystem.grep(options), [
    { path: 'a.md', matches: [{ line: 2, column: 'é😀 needle'.indexOf('needle'), text: 'é😀 needle needle' }] },
  ]);
  assert.match(await toolCall(workspace, 'grep', { pattern: '(?<=é.. )needle' }), /a\.md:2:5/);
}));

test('media reach the model as media', using({}, async (workspace, t) => {
  const [tool] = Object.values(await core.createWorkspaceTools(workspace));
  if (!tool.toModelOutput) return t.skip('this @mastra/core sends text only');
  const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
  await workspace.filesystem.writeFile('a.png', png);
  const result = await toolCall(workspace, 'read_file', { path: 'a.png' });
  assert.match(JSON.stringify(result), /image\/png/);
  assert.ok(!JSON.stringify(result).includes('\uFFFD'));
}));

test('git as the factory calls it', using({}, async workspace => {
  const git = async (...args) => {
    const result = await workspace.sandbox.executeCommand('git', args, {
      env: { GIT_CONFIG_COUNT: '1', GIT_CONFIG_KEY_0: 'user.name', GIT_CONFIG_VALUE_0: "O'Neil é", GIT_TERMINAL_PROMPT: '0' },
    });
    assert.equal(result.exitCode, 0, result.stderr);
    return result.stdout;
  };
  await git('init', '-q', '-b', 'main', 'repo with space');
  await workspace.filesystem.writeFile('repo with space/a\nb', 'x');
  await git('-C', 'repo with space', 'add', '--', 'a\nb');
  await git('-C', 'repo with space', '-c', 'user.email=a@b', 'commit', '-q', '-m', "it's $HOME `id` !\n\n{} + é");
  assert.equal(await git('-C', '/workspace/repo with space', 'log', '-1', '--format=%an|%B'), "O'Neil é|it's $HOME `id` !\n\n{} + é\n\n");
  const { stdout } = await workspace.sandbox.executeCommand('find', ['repo with space', '-mindepth', '1', '-maxdepth', '1', '-exec', 'echo', '--', '{}', '+']);
  assert.match(stdout, /^-- repo with space\//);
  await workspace.sandbox.executeCommand('rm', ['-rf', '--', 'repo with space']);
  assert.equal(await workspace.filesystem.exists('repo with space'), false);
}));

test('an identity keeps modes, links and bytes', async () => {
  const provider = local();
  let count = 0;
  const make = () =>
    createMastraWorkspace({
      provider,
      identity: 'i',
      async onFirstCreate(sandbox) {
        count++;
        await sandbox.files.write('bin/run', '#!/bin/sh\necho ran\n', { mode: 0o755 });
        await sandbox.run('ln -s bin/run link; ln bin/run hard; mkdir -p -m 700 e/.h; head -c 3000000 /dev/urandom > big; sha1sum big > sum');
      },
    });
  const all = [make(), make()];
  await Promise.all(all.map(workspace => workspace.init()));
  for (const workspace of all) {
    const text = await out(workspace, './link; ls -A e; stat -c %a bin/run; sha1sum -c sum; stat -c %h hard');
    assert.equal(text, 'ran\n.h\n755\nbig: OK\n2\n');
  }
  assert.equal(count, 1);
  await Promise.all(all.map(workspace => workspace.destroy()));
});

test('without isolation commands see the real path; both spellings are understood', using(
  { provider: local({ isolation: 'none' }), workingDirectory: 'app/x' },
  async workspace => {
    await workspace.init();
    const real = (await out(workspace, 'pwd; echo hi > f')).trim();
    assert.equal(real, workspace.sandbox.workingDirectory);
    assert.equal(await workspace.filesystem.readFile('/app/x/f', { encoding: 'utf8' }), 'hi\n');
    for (const cwd of [real, '/workspace/app/x', '/app/x', '.']) assert.equal(await out(workspace, 'pwd', [], { cwd }), `${real}\n`);
    await workspace.sandbox.sandboxSdk.files.write(`${real}/g`, 'x');
    assert.equal(await out(workspace, 'cat g'), 'x');
    assert.match(workspace.getInstructions(), /not isolated/);
  },
));

test('a sandbox killed from outside is made anew by the next command', using({ provider: local({ directory: path.join(scratch, 'killed') }) }, async workspace => {
  await workspace.init();
  await workspace.filesystem.writeFile('a', 'kept');
  let running;
  await new Promise(resolve => (running = workspace.sandbox.executeCommand('echo up; sleep 60', [], { onStdout: resolve })));
  for (const pid of readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ')) process.kill(Number(pid), 'SIGKILL');
  const { killed, success } = await running;
  assert.deepEqual([killed, success], [true, false]);
  assert.equal(await out(workspace, 'cat a'), 'kept');
}));

test('limits are the resources that Mastra shows', async () => {
  const limits = { memory: 512 * 1024 ** 2, workspaceSize: 100 * 1024 ** 2 };
  await using({ provider: local({ limits }) }, async workspace => {
    await workspace.init();
    assert.deepEqual(workspace.sandbox.getInfo().resources, { memoryMB: 512, cpuCores: undefined, diskMB: 100 });
  })();
  await using({}, async ({ sandbox }) => assert.equal(sandbox.getInfo().resources, undefined))();
});

test('20 MB of output arrive whole; 50 commands at once keep apart', using({}, async workspace => {
  const big = await workspace.sandbox.executeCommand("head -c 20000000 /dev/zero | tr '\\0' a");
  assert.deepEqual([big.stdout.length, big.stdoutTruncated], [20_000_000, false]);
  const all = await Promise.all(Array.from({ length: 50 }, (_, i) => workspace.sandbox.executeCommand('echo $N; exit $N', [], { env: { N: String(i) } })));
  all.forEach((result, i) => assert.deepEqual([result.stdout, result.exitCode], [`${i}\n`, i]));
}));

test('auto-indexed folders may be missing or there', async () => {
  const make = () => createMastraWorkspace({ provider: local({ directory: path.join(scratch, 'index') }), workspace: { bm25: true, autoIndexPaths: ['/docs', 'notes'] } });
  const one = make();
  await one.init();
  await one.filesystem.writeFile('docs/a.md', 'the quick brown fox');
  await one.destroy();
  const two = make();
  await two.init();
  const [found] = await two.search('fox');
  assert.match(found.id, /docs\/a\.md/);
  await two.destroy();
});

test('two workspaces in one process do not see each other', async () => {
  const [one, two] = [1, 2].map(() => createMastraWorkspace({ provider: local() }));
  await one.filesystem.writeFile('a', '1');
  assert.equal(await two.filesystem.exists('a'), false);
  assert.equal((await two.sandbox.executeCommand('ls')).stdout, '');
  await one.destroy();
  assert.equal((await two.sandbox.executeCommand('echo still')).stdout, 'still\n');
  await two.destroy();
});

test('modes of files that are written', using({}, async workspace => {
  await workspace.sandbox.writeFiles([{ path: 'a', content: 'x', mode: 0o640 }, { path: '/tmp/b', content: 'y' }]);
  assert.equal(await out(workspace, 'stat -c %a a; cat /tmp/b'), '640\ny');
  await assert.rejects(workspace.sandbox.sandboxSdk.files.write('/usr/x', 'y'), { code: 'permission' });
}));
