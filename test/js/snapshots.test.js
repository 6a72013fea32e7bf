// Snapshots: what comes back, who finds them, and that none is half there.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createSandbox, isSandboxError, supports } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';
import { createMastraSandbox, createMastraWorkspace } from 'sandbox-sdk-native/mastra';

const victim = fileURLToPath(new URL('../helpers/snapshot-victim.js', import.meta.url));
const code = want => error => isSandboxError(error, want) || assert.fail(error);

let folder;
let open;

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(tmpdir(), 'snapshots-'));
  open = [];
});

afterEach(async () => {
  for (const sandbox of open) await sandbox.stop();
  fs.rmSync(folder, { recursive: true, force: true });
});

async function start(options) {
  const sandbox = await createSandbox({ provider: local(), ...options });
  open.push(sandbox);
  return sandbox;
}

async function out(sandbox, command) {
  const { stdout, stderr, exitCode } = await sandbox.run(command);
  assert.equal(exitCode, 0, stderr);
  return stdout;
}

const tree = 'find . -mindepth 1 -printf "%p %y %m %n %l %T@\\n" | sort; find . -type f -exec md5sum {} + | sort';

function places() {
  const directory = path.join(folder, 'project');
  const options = { directory, protect: [] };
  return {
    'a temporary folder': {},
    'a root': { id: 'mine', provider: local({ root: path.join(folder, 'root') }) },
    'a directory': { provider: local(options) },
    'level landlock': { provider: local({ isolation: 'landlock' }) },
    'a root at level landlock': { id: 'll', provider: local({ root: path.join(folder, 'root'), isolation: 'landlock' }) },
    'no isolation': { provider: local({ ...options, isolation: 'none' }) },
  };
}

for (const name of Object.keys(((folder = '/'), places()))) {
  test(`a snapshot comes back in ${name}`, async () => {
    const sandbox = await start(places()[name]);
    await out(
      sandbox,
      'mkdir -p a/b; echo one > a/one; ln a/one two; ln -s a/one l; mkfifo p; chmod 700 a; chmod 640 a/one; ' +
        'truncate -s 100G hole; touch -d 2001-02-03T04:05:06.789 a/b; printf x > "$(printf "n\\n\\351")"',
    );
    await out(sandbox, 'rm hole; truncate -s 3M hole');
    const before = await out(sandbox, tree);
    const made = await sandbox.snapshots.create('first of all');
    assert.equal(made.name, 'first of all');
    assert.ok(made.bytes < 1e6 && made.createdAt instanceof Date);
    const server = await sandbox.processes.start('sleep 100');
    await out(sandbox, 'rm -rf a two; mkdir -p a/other; echo x > new; chmod 500 a/other');
    await sandbox.snapshots.restore(made.id);
    assert.equal((await server.wait()).killed, true);
    assert.equal(await out(sandbox, tree), before);
    await sandbox.files.write('a/again', 'x');
    assert.equal(await out(sandbox, 'cat a/again; rm a/again'), 'x');
    await sandbox.snapshots.delete(made.id);
    await assert.rejects(sandbox.snapshots.restore(made.id), code('not_found'));
    assert.deepEqual(await sandbox.snapshots.list(), []);
    assert.equal(supports(sandbox, 'snapshots'), true);
  });
}

test('names are names and never paths', async () => {
  const root = path.join(folder, 'root');
  const sandbox = await start({ id: 'x', provider: local({ root }) });
  await out(sandbox, 'echo mine > file');
  const names = ['../../escaped', '/etc/passwd', '..', '.', 'a/b', 'ü 世界', 'snapshot', '%2e', '\u001b[31mred\r', '.new-1'];
  for (const name of names) {
    const { id } = await sandbox.snapshots.create(name);
    assert.match(id, /^[A-Za-z0-9_%-]+$/);
    await sandbox.snapshots.restore(id);
  }
  const kept = await sandbox.snapshots.list();
  assert.deepEqual(kept.map(one => one.name).sort(), [...names].sort());
  assert.deepEqual(fs.readdirSync(folder), ['root']);
  assert.equal(fs.readdirSync(path.join(root, '.snapshots')).length, names.length);
  for (const id of ['../../escaped', '/etc/passwd', '..', 'a.tar', '', 'x\0']) {
    await assert.rejects(sandbox.snapshots.restore(id), code('invalid_input'));
    await assert.rejects(sandbox.snapshots.delete(id), code('invalid_input'));
  }
  for (const one of kept) await sandbox.snapshots.delete(one.id);
});

test('others of the provider instance, and with a root later ones, find it', async () => {
  const provider = local();
  const [one, two] = [await start({ provider }), await start({ provider })];
  await out(one, 'echo from one > file');
  const { id } = await one.snapshots.create();
  await two.snapshots.restore(id);
  assert.equal(await two.files.text('file'), 'from one\n');
  assert.deepEqual(await (await start()).snapshots.list(), []);
  const root = path.join(folder, 'root');
  const first = await start({ provider: local({ root }), id: 'a' });
  await first.files.write('file', 'kept');
  await first.snapshots.create('base');
  await first.stop();
  const later = await start({ provider: local({ root }), id: 'b' });
  await later.snapshots.restore('base');
  assert.equal(await later.files.text('file'), 'kept');
});

test('a store that others can write to is not trusted', async () => {
  const root = path.join(folder, 'root');
  const sandbox = await start({ provider: local({ root }), id: 'a' });
  const { id } = await sandbox.snapshots.create('x');
  fs.chmodSync(path.join(root, '.snapshots'), 0o777);
  await assert.rejects(sandbox.snapshots.restore(id), code('provider_error'));
  await assert.rejects(sandbox.snapshots.create('y'), code('provider_error'));
});

test('what cannot be kept is said, and a broken archive changes nothing', async () => {
  const root = path.join(folder, 'root');
  const sandbox = await start({ provider: local({ root }), id: 'a' });
  await sandbox.files.write('file', 'kept');
  const { id } = await sandbox.snapshots.create('x');
  const archive = path.join(root, '.snapshots', `${id}.tar`);
  fs.truncateSync(archive, 700);
  await assert.rejects(sandbox.snapshots.restore(id), /damaged/);
  assert.equal(await out(sandbox, 'ls -A'), 'file\n');
});

test('a session that ends meanwhile ends, and so does the snapshot', async () => {
  const provider = local();
  const sandbox = await createSandbox({ provider });
  await out(sandbox, 'for i in $(seq 400); do echo $i > $i; done');
  const { id } = await sandbox.snapshots.create();
  const both = [sandbox.snapshots.create().catch(error => error), sandbox.snapshots.restore(id).catch(error => error)];
  await sandbox.stop();
  await Promise.all(both);
});

for (const way of ['create', 'restore']) {
  test(`a process killed during ${way} leaves one state or the other`, async () => {
    const root = path.join(folder, 'root');
    const first = await createSandbox({ provider: local({ root }), id: 'victim' });
    await out(first, 'for i in $(seq 60); do mkdir d$i; echo $i > d$i/f; done');
    await first.snapshots.create('kept');
    const before = await out(first, tree);
    await first.stop();
    for (let i = 0; i < 4; i++) {
      const child = spawn(process.execPath, [victim, way, root], { stdio: ['ignore', 'pipe', 'inherit'] });
      await once(child.stdout, 'data');
      await new Promise(resolve => setTimeout(resolve, 13 * i));
      child.kill('SIGKILL');
      await once(child, 'exit');
      const sandbox = await reopened(root);
      assert.equal(await out(sandbox, tree), before);
      const kept = await sandbox.snapshots.list();
      assert.deepEqual(kept.map(one => one.name), ['kept']);
      await sandbox.snapshots.restore(kept[0].id);
      assert.equal(await out(sandbox, tree), before);
      await sandbox.stop();
    }
  });
}

test('what a command puts in the place of a restore’s own folder is in no way', async () => {
  const at = '.sandbox-sdk-restore';
  const outside = path.join(folder, 'outside');
  fs.mkdirSync(path.join(outside, 'kept'), { recursive: true });
  const root = path.join(folder, 'root');
  const plants = [
    `ln -s ${outside} ${at}`, `mkfifo ${at}`, `mkdir -p ${at}/gone; ln -s ${outside} ${at}/new`,
    `mkdir -p ${at}/old ${at}/x; ln -s ${outside} ${at}/old/y; chmod 0 ${at}/x`,
  ];
  for (const plant of plants) {
    const session = () => start({ provider: local({ root }), id: 'planted' });
    let sandbox = await session();
    await out(sandbox, 'echo 1 > a');
    const { id } = await sandbox.snapshots.create();
    await out(sandbox, `echo 2 > a; ${plant}`);
    const { id: planted } = await sandbox.snapshots.create();
    await sandbox.snapshots.restore(id);
    assert.equal(await out(sandbox, 'ls -A; cat a'), 'a\n1\n', plant);
    await sandbox.snapshots.restore(planted);
    assert.equal(await out(sandbox, 'ls -A; cat a'), 'a\n2\n', plant);
    await out(sandbox, plant);
    await sandbox.stop();
    sandbox = await session();
    assert.equal(await out(sandbox, 'cat a'), '2\n', plant);
    await sandbox.destroy();
    assert.deepEqual(fs.readdirSync(root), ['.snapshots']);
  }
  assert.deepEqual(fs.readdirSync(outside), ['kept']);
});

test('a session below a root that cannot be started can be destroyed', async () => {
  const root = path.join(folder, 'root');
  const sandbox = await start({ provider: local({ root }), id: 'broken' });
  await out(sandbox, 'mkdir -p .sandbox-sdk-restore/old/a/b a/c');
  await sandbox.stop();
  await assert.rejects(start({ provider: local({ root }), id: 'broken' }), error =>
    isSandboxError(error, 'unavailable') && /interrupted restore/.test(error.message));
  await sandbox.destroy();
  assert.deepEqual(fs.readdirSync(root), []);
});

// The lock of the killed one goes with its monitor, some milliseconds later.
async function reopened(root) {
  for (;;) {
    try {
      return await createSandbox({ provider: local({ root }), id: 'victim' });
    } catch (error) {
      if (!isSandboxError(error, 'conflict')) throw error;
    }
  }
}

test('Mastra: snapshot() and the checkpoint names of options and clones', async () => {
  const root = path.join(folder, 'root');
  const provider = local({ root });
  const base = createMastraSandbox({ provider, id: 'base', checkpointName: 'warm base' });
  assert.equal(base.supportsCheckpoints, true);
  assert.equal(createMastraSandbox({ provider: local() }).supportsCheckpoints, false);
  await base.start();
  await base.writeFiles([{ path: 'deps/x', content: 'installed' }]);
  await base.snapshot();
  const clone = base.clone({ id: 'clone', checkpointName: 'of the clone', seedCheckpointName: 'warm base' });
  await clone.start();
  const cat = async sandbox => (await sandbox.executeCommand('cat', ['deps/x'])).stdout;
  assert.equal(await cat(clone), 'installed');
  await clone.writeFiles([{ path: 'deps/x', content: 'newer' }]);
  await clone.snapshot();
  await clone.stop();
  await clone.start();
  const again = clone.clone({ id: 'again' });
  await again.start();
  assert.equal(await cat(again), 'newer');
  for (const sandbox of [base, clone, again]) await sandbox._destroy();
  assert.throws(() => createMastraSandbox({ provider, checkpointName: '' }), { code: 'invalid_input' });
});

test('a snapshot without a checkpoint name does nothing', async () => {
  const workspace = createMastraWorkspace({ provider: local() });
  await workspace.init();
  assert.equal(await workspace.sandbox.snapshot(), undefined);
  assert.deepEqual(await workspace.sandbox.sandboxSdk.snapshots.list(), []);
  await workspace.destroy();
});
