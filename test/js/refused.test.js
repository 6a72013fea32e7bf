// Wrong input on the real addon: an error at the user's call that names what is
// wrong, and nothing started: no process, no folder.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';

import * as core from '@mastra/core/workspace';
import { createSandbox, isSandboxError, supports, withSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';
import { createMastraSandbox, createMastraWorkspace, SandboxSdkFilesystem } from 'sandbox-sdk-native/mastra';

const outer = fs.mkdtempSync(path.join(tmpdir(), 'refused-'));
const scratch = path.join(outer, 'tmp');
const { TMPDIR } = process.env;
before(() => {
  fs.mkdirSync(scratch);
  process.env.TMPDIR = scratch;
  fs.writeFileSync(path.join(outer, 'file'), '');
  fs.symlinkSync('nowhere', path.join(outer, 'dangling'));
});
after(() => {
  if (TMPDIR === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = TMPDIR;
  fs.rmSync(outer, { recursive: true });
});

const children = () => fs.readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8');

/** `call` throws invalid_input, which matches, and leaves nothing. */
function refused(call, pattern) {
  const entries = fs.readdirSync(outer);
  assert.throws(call, error => {
    assert.ok(isSandboxError(error, 'invalid_input'), `${error.name} ${error.code}: ${error.message}`);
    assert.match(error.message, pattern);
    return true;
  });
  assert.equal(children(), '');
  assert.deepEqual(fs.readdirSync(outer), entries);
  assert.deepEqual(fs.readdirSync(scratch), []);
}

// Wrong options of local(), refused by it or, where the machine must be looked
// at, by the call that uses it.
const machine = path.join(outer, 'file');
for (const [options, pattern] of [
  [5, /must be an object/],
  [null, /must be an object/],
  [{ isolation: 'high' }, /isolation must be .*"full".*not "high"/],
  [{ isolation: 5 }, /isolation/],
  [{ network: 'on' }, /network must be/],
  [{ network: [5] }, /network/],
  [{ readOnlyPaths: ['rel'] }, /readOnlyPaths must be an absolute path/],
  [{ readOnlyPaths: '/usr' }, /readOnlyPaths must be an array/],
  [{ readWritePaths: [''] }, /readWritePaths/],
  [{ shell: 'bash' }, /shell must be an absolute path/],
  [{ env: { 'A=B': '1' } }, /"A=B" is not a variable name/],
  [{ env: { 'A\0': '1' } }, /not a variable name/],
  [{ env: { '': '1' } }, /not a variable name/],
  [{ env: { A: {} } }, /env\.A must be a string/],
  [{ env: { A: 'x\0y' } }, /env\.A must not contain a NUL/],
  [{ env: [] }, /env must be an object/],
  [{ limits: { processes: -1 } }, /limits\.processes/],
  [{ limits: { files: 5 } }, /limits has no "files"/],
  [{ limits: 5 }, /limits must be an object/],
  [{ directory: 5 }, /directory must be a string/],
  [{ directory: '' }, /directory must not be empty/],
  [{ directory: 'a\0b' }, /NUL/],
  [{ agentOs: {} }, /agentOs.*network.*limits/s],
  [{ directroy: '/tmp' }, /has no "directroy"/],
  [{ ports: [0] }, /1 to 65535/],
  [{ ports: 3000 }, /ports must be an array/],
]) {
  test(`local(${JSON.stringify(options)})`, () => refused(() => local(options), pattern));
}

for (const [name, options, pattern] of [
  ['a file', { directory: machine }, /directory.*is not a folder/],
  ['a dangling link', { directory: path.join(outer, 'dangling') }, /directory.*link to something that does not exist/],
  ['a missing parent', { directory: path.join(outer, 'no/such') }, /directory.*(parent|does not exist)/],
  ['below a file', { directory: path.join(machine, 'x') }, /directory/],
  ['the whole machine', { directory: '/' }, /directory/],
  ['a root that is a file', { root: machine }, /root.*is not a folder/],
  ['a shell that is missing', { shell: '/no/such/shell' }, /shell.*\/no\/such\/shell/],
  ['a shell that is a folder', { shell: '/tmp' }, /shell/],
  ['a path that is missing', { readOnlyPaths: ['/no/such/path'] }, /readOnlyPaths.*\/no\/such\/path/],
  ['both directory and root', { directory: path.join(outer, 'x'), root: path.join(outer, 'y') }, /directory.*root|root.*directory/],
]) {
  test(`on this machine: ${name}`, () => {
    const provider = local(options);
    const id = options.root ? 'x' : undefined;
    refused(() => createMastraSandbox({ provider, id }), pattern);
    refused(() => createMastraWorkspace({ provider, id }), pattern);
    refused(() => createSandbox({ provider, id }), pattern);
  });
}

test('on this machine: a folder that this user may not read', { skip: process.getuid() === 0 && 'root reads every folder' }, () => {
  const directory = path.join(outer, 'closed');
  fs.mkdirSync(directory, { mode: 0 });
  refused(() => createMastraSandbox({ provider: local({ directory }) }), /directory.*(read|permission|access)/i);
  fs.chmodSync(directory, 0o555);
  refused(() => createMastraSandbox({ provider: local({ directory: path.join(directory, 'new') }) }), /directory.*cannot be made/);
  fs.rmdirSync(directory);
});

test('ids', () => {
  const provider = local();
  for (const id of ['', '  ', '.', '..', '../x', 'a/b', '/abs', 'a\\b', 'a\0b', 'a\nb', 'x'.repeat(300), 'é'.repeat(150), 5, null, {}]) {
    for (const name of ['id', 'identity']) {
      refused(() => createMastraSandbox({ provider, [name]: id }), new RegExp(name));
      refused(() => createSandbox({ provider, [name]: id }), new RegExp(name));
    }
  }
});

test('options of a sandbox', () => {
  const provider = local();
  for (const [options, pattern] of [
    [{ cwd: 'relative' }, /cwd must be an absolute path/],
    [{ cwd: '/' }, /cwd/],
    [{ cwd: 5 }, /cwd/],
    [{ cwd: '/a\0b' }, /NUL/],
    [{ workingDirectory: '../..' }, /workingDirectory/],
    [{ workingDirectory: 5 }, /workingDirectory/],
    [{ env: { 'A=': '1' } }, /not a variable name/],
    [{ env: { A: [] } }, /env\.A/],
    [{ ports: [70000] }, /ports/],
    [{ onFirstCreate: 5 }, /onFirstCreate must be a function/],
    [{ provider: {} }, /provider must be what local\(\)/],
    [{ provider: 'local' }, /provider/],
    [{ directory: '/tmp' }, /has no "directory"/],
  ]) {
    for (const make of [createMastraSandbox, createMastraWorkspace, createSandbox]) refused(() => make({ provider, ...options }), pattern);
  }
  for (const [options, pattern] of [
    [{ onStart: 5 }, /onStart/],
    [{ onStop: {} }, /onStop/],
    [{ onDestroy: 'x' }, /onDestroy/],
    [{ instructions: 5 }, /instructions/],
    [{ name: 5 }, /name/],
  ]) {
    for (const make of [createMastraSandbox, createMastraWorkspace]) refused(() => make({ provider, ...options }), pattern);
  }
  for (const [options, pattern] of [
    [{ workspace: { mounts: {} } }, /mounts is not supported.*emulates no mounts/],
    [{ workspace: { lsp: true } }, /lsp.*dangerouslyAllowHostLsp/],
    [{ workspace: { lsp: {} } }, /lsp/],
    [{ workspace: { filesystem: {} } }, /workspace\.filesystem/],
    [{ workspace: { sandbox: {} } }, /workspace\.sandbox/],
    [{ workspace: 5 }, /workspace must be an object/],
    [{ workspace: { dangerouslyAllowHostLsp: 'yes', lsp: true } }, /true or false/],
    [{ filesystem: { readOnly: 'yes' } }, /readOnly/],
    [{ filesystem: { textExtensions: 'md' } }, /textExtensions/],
    [{ filesystem: { onInit: 5 } }, /onInit/],
    [{ filesystem: 5 }, /filesystem must be an object/],
  ]) {
    refused(() => createMastraWorkspace({ provider, ...options }), pattern);
  }
  refused(() => createMastraWorkspace(), /provider/);
  refused(() => createMastraWorkspace(5), /must be an object/);
  refused(() => createSandbox(), /provider/);
});

test('what a newcomer writes by mistake is told what to write', async () => {
  const workspace = createMastraWorkspace({ provider: local() });
  refused(() => supports(workspace, 'files'), /workspace\.sandbox/);
  refused(() => new SandboxSdkFilesystem({}), /sandbox must be what createMastraSandbox\(\)/);
  refused(() => new SandboxSdkFilesystem({ sandbox: new core.LocalSandbox() }), /createMastraSandbox\(\)/);
  await withSandbox({ provider: local(), workingDirectory: 'sub' }, async sandbox => {
    const says = async (call, code, pattern) =>
      assert.rejects(call, error => isSandboxError(error, code) && (assert.match(error.message, pattern), true));
    await says(sandbox.run('ls', ['-l']), 'invalid_input', /\["ls", "-l"\]/);
    await says(sandbox.processes.start('ls', ['-l']), 'invalid_input', /one array/);
    const at = sandbox.cwd.replace(/\/sub$/, '');
    await says(sandbox.files.read('none'), 'not_found', new RegExp(`^${at}/sub/none does not exist`));
    await says(sandbox.files.list(`${at}/none`), 'not_found', new RegExp(`^${at}/none does not exist`));
    await says(sandbox.files.mkdir('a/b', { recursive: false }), 'not_found', new RegExp(`^The folder ${at}/sub/a does not exist`));
    await says(sandbox.files.write('/usr/x', ''), 'permission', new RegExp(`^/usr/x .* The workspace is ${at}\\.$`));
  });
  await workspace.destroy();
});

test('arguments of calls: refused before the sandbox starts', async () => {
  const sandbox = createMastraSandbox({ provider: local() });
  const wrong = async (call, pattern) => {
    await assert.rejects(call, error => {
      assert.match(`${error.code} ${error.message}`, pattern);
      return true;
    });
    assert.equal(children(), '', String(pattern));
    assert.equal(sandbox.status, 'pending');
  };
  for (const [args, pattern] of [
    [[''], /invalid_input command must not be empty/],
    [[5], /invalid_input command must be a string/],
    [['a\0'], /NUL/],
    [['a', 'b'], /args must be an array/],
    [['a', [null]], /each argument must be a string/],
    [['a', [], { timeout: -1 }], /timeout must be a number of milliseconds.*not -1/],
    [['a', [], { timeout: '5' }], /timeout/],
    [['a', [], { timeout: NaN }], /timeout/],
    [['a', [], { env: { 'X=Y': '1' } }], /not a variable name/],
    [['a', [], { env: { X: Symbol('x') } }], /env\.X/],
    [['a', [], { cwd: 5 }], /cwd must be a string/],
    [['a', [], { cwd: '../..' }], /leaves the workspace/],
    [['a', [], { onStdout: 'x' }], /must be a function/],
    [['a', [], { abortSignal: {} }], /AbortSignal/],
    [['a', [], { maxRetainedBytes: -1 }], /maxRetainedBytes/],
  ]) {
    await wrong(() => sandbox.executeCommand(...args), pattern);
    if (Array.isArray(args[1] ?? []) && !args[1]?.length) await wrong(() => sandbox.processes.spawn(args[0], args[2]), pattern);
  }
  await wrong(() => sandbox.getPortUrl(3000), /invalid_input port 3000 is not declared/);
  await wrong(() => sandbox.getPortUrl('x'), /invalid_input/);
  await wrong(() => sandbox.writeFiles({}), /array/);
  await wrong(() => sandbox.writeFiles([{ path: 'a', content: 'x', mode: 0o4755 }]), /INVALID_ARGUMENT/);
  await wrong(() => sandbox.sandboxSdk.run('a', { timeout: -1 }), /timeout/);
  await wrong(() => sandbox.sandboxSdk.run([]), /empty/);
  await wrong(() => sandbox.sandboxSdk.processes.start('a', { env: { '': 'x' } }), /not a variable name/);
  await wrong(() => sandbox.sandboxSdk.files.write('', 'x'), /path/);
  await wrong(() => sandbox.sandboxSdk.files.write('a', 5), /data/);
  await wrong(() => sandbox.sandboxSdk.files.write('a', 'x', { mode: 0o7777 }), /mode/);
  assert.throws(() => sandbox.setEnv({}), { code: 'invalid_input' });
  assert.throws(() => sandbox.setEnv(() => ({ 'A=': '1' })), { code: 'invalid_input' });
  await sandbox._destroy();
});

test('paths of the filesystem', async () => {
  const workspace = createMastraWorkspace({ provider: local() });
  const files = workspace.filesystem;
  for (const at of [5, undefined, null, {}, ['a']]) {
    for (const call of ['readFile', 'writeFile', 'appendFile', 'deleteFile', 'mkdir', 'rmdir', 'readdir', 'stat', 'walk', 'realpath']) {
      await assert.rejects(files[call](at, 'x'), /path must be a string/, `${call} ${at}`);
    }
    await assert.rejects(files.copyFile('a', at ?? null), /path must be a string/);
    await assert.rejects(files.moveFile(at, 'a'), /path must be a string/);
    assert.equal(await files.exists(at), false);
  }
  await workspace.destroy();
});
