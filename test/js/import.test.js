// What an import costs, and what is said where the addon is not beside it.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import module from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';

const root = path.join(import.meta.dirname, '../..');
const skip = module.registerHooks === undefined && 'needs module.registerHooks (Node 22.15)';

const counting = `
const { registerHooks } = require('node:module');
const loaded = [];
registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) });
process.on('exit', () => console.log(JSON.stringify(loaded)));
`;

/** Names of the package's files that a program reads, node:os and the like left out. */
function loadedBy(program, folder) {
  fs.writeFileSync(path.join(folder, 'counting.cjs'), counting);
  const args = ['-r', path.join(folder, 'counting.cjs'), '--input-type=module', '-e', program];
  const { stdout, stderr, status } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  assert.equal(stderr, '');
  return JSON.parse(stdout.trim().split('\n').at(-1)).filter(url => url.startsWith('file:')).map(url => path.basename(url));
}

function inFolder(work) {
  return () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'import-'));
    try {
      return work(folder);
    } finally {
      fs.rmSync(folder, { recursive: true, force: true });
    }
  };
}

test('a provider loads what its options need, and no addon', { skip }, inFolder(folder => {
  const common = ['errors.js', 'native.js', 'network.js', 'options.js', 'provider.js'];
  assert.deepEqual(loadedBy("import 'sandbox-sdk-native/e2b';", folder).sort(), [...common, 'computer.js', 'e2b.js', 'secret.js'].sort());
  assert.deepEqual(loadedBy("import 'sandbox-sdk-native/local';", folder).sort(), [...common, 'limits.js', 'local.js'].sort());
}));

test('a command on this machine needs no HTTP, no search and no desktop', { skip }, inFolder(folder => {
  const program = `
    import { withSandbox } from 'sandbox-sdk-native';
    import { local } from 'sandbox-sdk-native/local';
    await withSandbox({ provider: local() }, sandbox => sandbox.run('true'));`;
  const loaded = loadedBy(program, folder);
  assert.ok(loaded.includes('sandbox.js'), loaded.join());
  for (const name of ['transport.js', 'grep.js', 'template.js', 'changes.js', 'listing.js', 'computer.js', 'secret.js', 'e2b.js']) assert.ok(!loaded.includes(name), name);
}));

// Node looks for the nearest one for every module that it loads: this is nearer than
// the package's own, and says nothing else.
test('js/package.json says what that of the package says', () => {
  const read = file => JSON.parse(fs.readFileSync(path.join(root, file), 'utf8'));
  const { type, sideEffects } = read('package.json');
  assert.deepEqual(read('js/package.json'), { type, sideEffects });
});

test('the Mastra entry loads what every workspace needs', { skip }, inFolder(folder => {
  const loaded = loadedBy("import 'sandbox-sdk-native/mastra';", folder);
  for (const name of ['secret.js', 'snapshots.js', 'limits.js', 'network.js', 'process.js', 'grep.js', 'addon.node']) assert.ok(!loaded.includes(name), name);
  assert.equal(loaded.filter(name => name === 'sandbox.js').length, 1, 'that of the other surface, too');
  const program = `
    import { createMastraSandbox } from 'sandbox-sdk-native/mastra';
    import { local } from 'sandbox-sdk-native/local';
    const sandbox = createMastraSandbox({ provider: local() });
    sandbox.getInfo();
    await sandbox._start();
    await sandbox.executeCommand('true');
    sandbox.getInfo();
    await sandbox._destroy();`;
  assert.equal(loadedBy(program, folder).filter(name => name === 'sandbox.js').length, 1, 'that of the other surface, for getInfo()');
}));

test('packed by a bundler, without its addon: the error says what to tell the bundler', { skip: process.arch !== 'x64' && 'of x64' }, inFolder(folder => {
  fs.cpSync(path.join(root, 'js'), path.join(folder, 'js'), { recursive: true });
  fs.writeFileSync(path.join(folder, 'package.json'), '{"type":"module"}');
  const program = "import { native } from './js/native.js'; native();";
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { cwd: folder, encoding: 'utf8' });
  assert.notEqual(status, 0);
  assert.match(stderr, /does not find its addon\.node.*name sandbox-sdk-native as external/);
}));

// Node has no require() for a module that an import is still loading.
test('what is loaded on first use may be asked for together', () => {
  const program = `
    import { createMastraSandbox } from 'sandbox-sdk-native/mastra';
    import { local } from 'sandbox-sdk-native/local';
    const sandbox = createMastraSandbox({ provider: local({ ports: [3000] }), onFirstCreate: sdk => sdk.run('true') });
    const starting = sandbox._start();
    const all = [
      starting,
      sandbox.processes.spawn('true').then(handle => handle.wait()),
      sandbox.getPortUrl(3000),
      sandbox.writeFiles([{ path: 'a', content: 'b' }]),
      sandbox.sandboxSdk.run('true'),
      Promise.resolve().then(() => sandbox.sandboxSdk.files.exists('a')),
      starting.then(() => [sandbox.getInstructions(), sandbox.sandboxSdk.files.list('.')][1]),
    ];
    await Promise.all(all);
    await sandbox._destroy();`;
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { cwd: root, encoding: 'utf8' });
  assert.equal(stderr, '');
  assert.equal(status, 0);
});

// Whoever awaits at the top level lets the modules that come after wait unevaluated.
test('what is loaded on first use does not depend on who else loads it', inFolder(folder => {
  const write = (name, text) => fs.writeFileSync(path.join(folder, name), text);
  fs.mkdirSync(path.join(folder, 'node_modules'));
  fs.symlinkSync(root, path.join(folder, 'node_modules/sandbox-sdk-native'));
  write('package.json', '{"type":"module"}');
  write('agent.js', `
    import { createMastraSandbox } from 'sandbox-sdk-native/mastra';
    import { local } from 'sandbox-sdk-native/local';
    export const sandbox = createMastraSandbox({ provider: local({ ports: [3000] }) });
    await sandbox._start();
    const other = process.argv[2] === 'import' && import('sandbox-sdk-native');
    await null;
    if (!(await sandbox.networking.getPortUrl(3000))) throw new Error('no URL');
    const handle = await sandbox.processes.spawn('echo hi');
    if ((await handle.wait()).stdout !== 'hi\\n') throw new Error('no output');
    await sandbox.getPortUrl(3000);
    await sandbox.writeFiles([{ path: 'a', content: 'b' }]);
    await other;`);
  write('main.js', `
    import { sandbox } from './agent.js';
    import { supports } from 'sandbox-sdk-native';
    if (!supports(sandbox, 'ports')) throw new Error('no ports');
    await sandbox._destroy();`);
  for (const how of ['static', 'import']) {
    const { status, stderr } = spawnSync(process.execPath, ['main.js', how], { cwd: folder, encoding: 'utf8' });
    assert.equal(stderr, '', how);
    assert.equal(status, 0, how);
  }
}));
