// Wrong arguments: an error where the call is, that names the thing; nothing
// has started.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { skip } from './with-fake.js';

const { createSandbox, isSandboxError, SandboxError, sandboxErrorCodes, providerFromEnvironment, withSandbox } =
  await import('../../js/index.js');
const { local } = await import('../../js/local.js');
const { createMastraSandbox, createMastraWorkspace } = await import('../../js/mastra/index.js');
const { fake } = await import('./fake-native.js');

const bad = (call, pattern) =>
  assert.throws(call, error => isSandboxError(error, 'invalid_input') && pattern.test(error.message) && error instanceof SandboxError);

const wrongLocal = [
  [{ isolation: 'some' }, /isolation must be .*"full".*"some"/],
  [{ isolation: 5 }, /isolation/],
  [{ network: 'maybe' }, /network must be "deny", "allow"/],
  [{ network: [''] }, /network/],
  [{ directory: 5 }, /directory must be a string/],
  [{ directory: '' }, /directory must not be empty/],
  [{ directory: 'a\0b' }, /NUL/],
  [{ readOnlyPaths: 'a' }, /readOnlyPaths must be an array/],
  [{ readOnlyPaths: ['a'] }, /absolute/],
  [{ readWritePaths: [5] }, /readWritePaths/],
  [{ env: { 'A=B': 'x' } }, /"A=B" is not a variable name/],
  [{ env: { A: {} } }, /env\.A must be a string/],
  [{ env: [] }, /env must be an object/],
  [{ shell: 'bash' }, /shell must be an absolute path/],
  [{ limits: { processes: -1 } }, /limits\.processes/],
  [{ limits: { rabbits: 1 } }, /limits has no "rabbits"/],
  [{ ports: [0] }, /ports must be an integer from 1/],
  [{ netwrok: 'deny' }, /no "netwrok"/],
  [{ agentOs: {} }, /`network`.*`limits`/],
  ['local', /must be an object/],
];

for (const [options, pattern] of wrongLocal) {
  test(`local(${JSON.stringify(options)})`, () => bad(() => local(options), pattern));
}

const provider = local();
const wrong = [
  [{}, /provider must be/],
  [{ provider: {} }, /provider must be/],
  [{ cwd: 'relative' }, /cwd must be an absolute path/],
  [{ cwd: '/' }, /cwd must be a folder below/],
  [{ cwd: 7 }, /cwd must be a string/],
  [{ workingDirectory: '../x' }, /workingDirectory/],
  [{ id: '' }, /id must not be empty/],
  [{ id: '../x' }, /id must not contain slashes/],
  [{ id: '..' }, /id must not/],
  [{ id: 'x'.repeat(300) }, /at most 200 bytes/],
  [{ id: 'a\nb' }, /control/],
  [{ id: 5 }, /id must be a string/],
  [{ identity: '' }, /identity must not be empty/],
  [{ env: { '': 'x' } }, /not a variable name/],
  [{ env: { 'A\0': 'x' } }, /not a variable name/],
  [{ env: { A: 'x\0' } }, /env\.A/],
  [{ ports: 3000 }, /ports must be an array/],
  [{ ports: ['3000'] }, /ports/],
  [{ onFirstCreate: 'x' }, /onFirstCreate must be a function/],
];

for (const [options, pattern] of wrong) {
  const all = 'provider' in options || Object.keys(options).length === 0 ? options : { provider, ...options };
  test(`create…(${JSON.stringify(options)})`, { skip }, () => {
    bad(() => createMastraWorkspace(all), pattern);
    bad(() => createMastraSandbox(all), pattern);
    bad(() => createSandbox(all), pattern);
  });
}

test('wrong settings of the Mastra adapter', { skip }, () => {
  bad(() => createMastraWorkspace(), /provider/);
  bad(() => createMastraWorkspace({ provider, workspace: { mounts: {} } }), /mounts is not supported/);
  bad(() => createMastraWorkspace({ provider, workspace: { lsp: true } }), /dangerouslyAllowHostLsp/);
  bad(() => createMastraWorkspace({ provider, workspace: { sandbox: {} } }), /workspace\.sandbox/);
  bad(() => createMastraWorkspace({ provider, workspace: 5 }), /workspace must be an object/);
  bad(() => createMastraWorkspace({ provider, filesystem: { readOnly: 'yes' } }), /readOnly must be true or false/);
  bad(() => createMastraWorkspace({ provider, filesystem: { textExtensions: '.x' } }), /textExtensions/);
  bad(() => createMastraWorkspace({ provider, onStart: 5 }), /onStart must be a function/);
  bad(() => createMastraWorkspace({ provider, instructions: 5 }), /instructions/);
  createMastraWorkspace({ provider, workspace: { dangerouslyAllowHostLsp: true } });
});

test('what the addon refuses is thrown at the call, too', { skip }, () => {
  const file = local({ directory: '/etc/passwd' });
  bad(() => createMastraWorkspace({ provider: file }), /is a file/);
  bad(() => createSandbox({ provider: file }), /is a file/);
});

test('wrong arguments of commands', { skip }, async () => {
  const sandbox = createMastraSandbox({ provider });
  const run = (...args) => sandbox.executeCommand(...args);
  for (const [args, pattern] of [
    [[''], /must not be empty/],
    [['  '], /must not be empty/],
    [[5], /command must be a string/],
    [['a\0b'], /NUL/],
    [['a', 'b'], /args must be an array/],
    [['a', [5]], /each argument must be a string/],
    [['a', ['\0']], /NUL/],
    [['a', [], { timeout: -1 }], /timeout must be a number of milliseconds/],
    [['a', [], { timeout: 'x' }], /timeout/],
    [['a', [], { timeout: NaN }], /timeout/],
    [['a', [], { cwd: 5 }], /cwd must be a string/],
    [['a', [], { cwd: '../..' }], /leaves the workspace/],
    [['a', [], { cwd: 'a\0' }], /NUL/],
    [['a', [], { env: { 'X=': '1' } }], /not a variable name/],
    [['a', [], { onStdout: 5 }], /must be a function/],
    [['a', [], { abortSignal: {} }], /AbortSignal/],
  ]) {
    const before = fake.specs.length;
    await assert.rejects(run(...args), error => isSandboxError(error, 'invalid_input') && pattern.test(error.message));
    await assert.rejects(sandbox.processes.spawn(args[0], { ...args[2], originalInvocation: args[1]?.length ? { command: args[0], args: args[1] } : undefined }));
    assert.equal(fake.specs.length, before, 'something was started');
  }
  await assert.rejects(run('a', [], { maxRetainedBytes: -1 }), RangeError);
  await assert.rejects(sandbox.processes.spawn('a', { maxRetainedBytes: 1.5 }), RangeError);
  await assert.rejects(sandbox.getPortUrl(3000), error => isSandboxError(error, 'invalid_input') && /not declared/.test(error.message));
  await assert.rejects(sandbox.getPortUrl('x'), error => isSandboxError(error, 'invalid_input'));
  await sandbox._destroy();
});

test('wrong arguments of the normalised sandbox', { skip }, async () => {
  await withSandbox({ provider }, async sandbox => {
    const invalid = promise => assert.rejects(promise, error => isSandboxError(error, 'invalid_input'));
    await invalid(sandbox.files.write('', 'x'));
    await invalid(sandbox.files.write('a', 5));
    await invalid(sandbox.files.write('a', [5]));
    await invalid(sandbox.run([]));
    await invalid(sandbox.run(''));
    await invalid(sandbox.run('true', { timeout: -5 }));
    await invalid(sandbox.ports.expose(99999));
    await invalid(sandbox.ports.expose(3000));
    for (const name of ['', 1, 'x'.repeat(241), '\0']) {
      await assert.rejects(sandbox.snapshots.create(name), error => isSandboxError(error, 'invalid_input'));
    }
    await assert.rejects(sandbox.snapshots.restore(''), error => isSandboxError(error, 'invalid_input'));
    assert.throws(() => sandbox.raw, error => isSandboxError(error, 'unsupported') && /no provider SDK/.test(error.message));
  });
  await assert.rejects(withSandbox({ provider }, 5), error => isSandboxError(error, 'invalid_input'));
});

test('SandboxError', () => {
  assert.equal(sandboxErrorCodes.length, 12);
  const error = new SandboxError('timeout', 'too late', { retryable: true, cause: 1, provider: 'local', operation: 'run' });
  assert.deepEqual(
    [error.name, error.code, error.message, error.retryable, error.cause, error.provider, error.operation],
    ['SandboxError', 'timeout', 'too late', true, 1, 'local', 'run'],
  );
  assert.equal(isSandboxError(error), true);
  assert.equal(isSandboxError(error, 'timeout'), true);
  assert.equal(isSandboxError(error, 'conflict'), false);
  assert.equal(isSandboxError(new Error('x')), false);
  assert.equal(isSandboxError(undefined), false);
});

test('providerFromEnvironment', { skip }, async () => {
  assert.equal((await providerFromEnvironment({}, {})).name, 'local');
  assert.equal((await providerFromEnvironment(undefined, { SANDBOX_PROVIDER: 'local' })).name, 'local');
  await assert.rejects(providerFromEnvironment({}, { SANDBOX_PROVIDER: 'toString' }), error => isSandboxError(error, 'invalid_input'));
  await assert.rejects(providerFromEnvironment({ isolation: 'x' }, {}), error => isSandboxError(error, 'invalid_input'));
});
