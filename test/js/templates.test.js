// Templates of an identity over an overlay: one session's files are never
// another's, and what changed is told truly.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createSandbox, isSandboxError } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';
import { until } from '../helpers/workspace.js';

async function out(sandbox, command) {
  const { stdout, stderr, exitCode } = await sandbox.run(command);
  assert.equal(exitCode, 0, stderr);
  return stdout;
}

const prepare =
  'mkdir -p a/b gone/deep; for i in 1 2 3; do echo $i > a/b/$i; echo $i > gone/deep/$i; done; echo hi > top; ' +
  'echo same > same; ln -s top l; echo x > d2f; mkdir f2d; echo y > f2d/y; mkdir again; echo 1 > again/1; ' +
  'echo 2 > again/2; mkdir -m 0 closed; echo s > secret; chmod 0 secret; chmod 4755 same; ' +
  'python3 -c "import os; os.setxattr(\'a\', \'user.overlay.opaque\', b\'y\'); ' +
  'os.setxattr(\'top\', \'user.overlay.redirect\', b\'/etc/passwd\'); ' +
  'os.setxattr(\'again\', \'user.overlay.origin\', b\'x\')" || true';

describe('a template', () => {
  const provider = local();
  let made = 0;
  let all;
  const make = () =>
    createSandbox({
      provider,
      identity: 'an identity',
      onFirstCreate(sandbox) {
        made++;
        return sandbox.run(prepare);
      },
    });

  before(async () => {
    all = await Promise.all([make(), make(), make(), make()]);
  });
  after(() => Promise.all(all.map(sandbox => sandbox.stop())));

  // Whoever comes before the template is there gets a copy.
  test('is made once, and later sessions lie on it', async () => {
    assert.equal(made, 1);
    all.push(await make(), await make(), await make());
    const list = 'find . -mindepth 1 -printf "%p %y %l %s\\n" 2>/dev/null | grep -v " d " | sort; ls | wc -l; cat a/b/* gone/deep/* top again/*';
    const want = await out(all[0], list);
    for (const sandbox of all) assert.equal(await out(sandbox, list), want);
    for (const sandbox of all.slice(-3)) {
      assert.equal(await out(sandbox, 'stat -f -c %T .'), 'overlayfs\n');
      assert.equal(await out(sandbox, 'stat -c %a%u closed secret same'), '01000\n01000\n7551000\n');
    }
  });

  test('is not visible to any session, nor are the layers', async () => {
    const sandbox = all.at(-1);
    assert.equal(await out(sandbox, 'ls -d /.sbx* 2>/dev/null || true'), '');
    assert.doesNotMatch(await out(sandbox, 'cat /proc/self/mountinfo | cut -d" " -f5'), /sbx/);
  });

  test('cannot be written, nor another session’s files', async () => {
    const [one, two] = all.slice(-2);
    const before = await out(two, 'find . -type f -readable -exec md5sum {} + | sort');
    await out(one, 'chmod -R u+rwX . ; for f in $(find . -type f); do echo evil >> $f; done; rm -rf gone; mv a/b/1 a/one; mv again moved');
    await one.files.write('top', 'evil');
    await one.files.remove('f2d');
    assert.equal(await out(two, 'find . -type f -readable -exec md5sum {} + | sort'), before);
    all.push(await make());
    assert.equal(await out(all.at(-1), 'cat top gone/deep/1; cat again/2'), 'hi\n1\n2\n');
  });

  test('file tools and commands see one tree', async () => {
    const sandbox = all.at(-1);
    await sandbox.files.write('a/b/1', 'tool');
    assert.equal(await out(sandbox, 'cat a/b/1; echo cmd > a/b/2'), 'tool');
    assert.equal(await sandbox.files.text('a/b/2'), 'cmd\n');
    await sandbox.files.remove('gone');
    assert.equal(await sandbox.files.exists('gone/deep/1'), false);
    assert.equal(await out(sandbox, 'ls -d gone 2>/dev/null || echo none'), 'none\n');
  });

  test('changes() tells what is different and what is not', async () => {
    const sandbox = await make();
    all.push(sandbox);
    assert.deepEqual(await sandbox.changes(), { changes: [], patch: '' });
    await out(
      sandbox,
      'touch same; echo new >> top; touch -d 2001-01-01 top; rm -r gone; rm a/b/2; mkdir n; echo n > n/n; ' +
        'ln -sfn other l; rm d2f; mkdir d2f; echo q > d2f/q; rm -r f2d; echo f > f2d; chmod 755 a/b/1; ' +
        'rm -r again; mkdir again; echo 1 > again/1; printf "\\0\\1" > bin; f=$(stat -c %Y a/b/3); echo 9 > a/b/3; touch -d @$f a/b/3',
    );
    const { changes, patch } = await sandbox.changes();
    assert.deepEqual(
      changes.map(({ change, type, path: where }) => `${change} ${type} ${where}`),
      [
        'modified file a/b/1', 'deleted file a/b/2', 'modified file a/b/3', 'deleted file again/2', 'added file bin',
        'deleted file d2f', 'added directory d2f', 'added file d2f/q', 'deleted directory f2d', 'added file f2d',
        'deleted file f2d/y', 'deleted directory gone', 'deleted directory gone/deep', 'deleted file gone/deep/1',
        'deleted file gone/deep/2', 'deleted file gone/deep/3', 'modified symlink l', 'added directory n', 'added file n/n',
        'modified file top',
      ],
    );
    const fresh = await make();
    all.push(fresh);
    await fresh.files.write('/tmp/patch', patch);
    await out(fresh, 'git apply /tmp/patch');
    assert.equal(await out(fresh, 'cat top a/b/3 n/n d2f/q f2d; stat -c %a a/b/1; ls again'), 'hi\nnew\n9\nn\nq\nf\n755\n1\n');
    await assert.rejects(all[0].changes(), error => isSandboxError(error, 'unsupported'));
  });

  test('a snapshot of such a session comes back in it and elsewhere', async () => {
    const sandbox = await make();
    all.push(sandbox);
    await out(sandbox, 'rm -rf gone; echo mine > top; mkdir -p a/new');
    const { id } = await sandbox.snapshots.create();
    await out(sandbox, 'chmod -R u+rwX .; rm -rf * .[!.]*; mkdir other gone');
    for (const target of [sandbox, all[0]]) {
      await target.snapshots.restore(id);
      assert.equal(await out(target, 'cat top; ls -d gone other 2>/dev/null; ls'), 'mine\na\nagain\nclosed\nd2f\nf2d\nl\nsame\nsecret\ntop\n'.replace('a\n', 'a\n'));
    }
  });
});

test('the patch of changes() applies, whatever names are in it, and leaves git’s own files alone', async () => {
  const provider = local();
  const git = 'git -c user.name=n -c user.email=e@x';
  const prepared = { provider, identity: 'repository', onFirstCreate: one => out(one, `git init -q . && echo 1 > f && git add f && ${git} commit -qm 1`) };
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'patch-'));
  const open = [await createSandbox(prepared), await createSandbox(prepared)];
  try {
    const names = ['new\nline', 'tab\tx', 'q"uote', 'b\\slash', '--- a', '\u001b[31m', 'é', ' sp ', '-n', 'd/\n+++ b/evil', 'x\n--- /dev/null\n+++ b/pwned\n@@ -0,0 +1 @@\n+pwned'];
    for (const name of names) await open[1].files.write(`/workspace/${name}`, `${name}\nno newline`);
    await out(open[1], `echo 2 >> f; ${git} commit -qam 2; mkdir -p sub/.GIT; echo x > sub/.GIT/config; git config core.pager 'touch ran'; echo '* diff=x' > .gitattributes; git config diff.x.command 'touch ran'`);
    const { changes, patch } = await open[1].changes();
    assert.ok(changes.some(one => one.path === '.git/config' && one.change === 'modified'));
    assert.ok(changes.some(one => one.path === 'sub/.GIT/config'));
    fs.writeFileSync(path.join(folder, 'f'), '1\n');
    execFileSync('git', ['apply', '-'], { cwd: folder, input: patch, stdio: ['pipe', 'ignore', 'ignore'] });
    for (const name of names) assert.equal(fs.readFileSync(path.join(folder, name), 'utf8'), `${name}\nno newline`);
    assert.equal(fs.readFileSync(path.join(folder, 'f'), 'utf8'), '1\n2\n');
    assert.deepEqual(fs.readdirSync(folder).sort(), [...names.map(name => name.split('/')[0]), '.gitattributes', 'f'].sort());
    assert.equal(await open[1].files.exists('ran'), false);
  } finally {
    for (const one of open) await one.stop();
    fs.rmSync(folder, { recursive: true });
  }
});

test('while a command swaps folders for links, changes() tells nothing of what lies outside', async () => {
  const provider = local({ readOnlyPaths: [path.join(import.meta.dirname, '../../build/native')] });
  const outside = fs.mkdtempSync(path.join(tmpdir(), 'outside-'));
  fs.chmodSync(outside, 0o755);
  fs.writeFileSync(path.join(outside, 'secret'), 'do-not-leak-me\n');
  const options = { provider, identity: 'swapped', onFirstCreate: one => out(one, 'mkdir -p d/e; echo a > d/e/secret') };
  const open = [await createSandbox(options), await createSandbox(options)];
  try {
    await out(open[1], `mkdir w; echo in > w/secret; ln -s ${outside} link; ln -s ${outside}/secret l; ln -sf ${outside}/secret d/e/secret`);
    const swapper = await open[1].processes.start([path.join(import.meta.dirname, '../../build/native/attack'), 'swap', 'w', 'link']);
    for (let i = 0; i < 12; i++) {
      const seen = await open[1].changes().catch(error => error.message);
      assert.doesNotMatch(JSON.stringify(seen), /do-not-leak/);
    }
    await swapper.kill();
  } finally {
    for (const one of open) await one.stop();
    fs.rmSync(outside, { recursive: true });
  }
});

test('below a root the files are copied; a directory that was there is left alone', async () => {
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'templates-'));
  const onFirstCreate = sandbox => sandbox.run('echo prepared > file');
  const provider = local({ root: path.join(folder, 'root') });
  const sandboxes = [];
  for (const id of ['a', 'b']) sandboxes.push(await createSandbox({ provider, id, identity: 'i', onFirstCreate }));
  assert.equal(await sandboxes[1].files.text('file'), 'prepared\n');
  const directory = path.join(folder, 'project');
  fs.mkdirSync(directory);
  sandboxes.push(await createSandbox({ provider: local({ directory }), identity: 'i', onFirstCreate }));
  assert.deepEqual(fs.readdirSync(directory), []);
  for (const sandbox of sandboxes) await sandbox.stop();
  fs.rmSync(folder, { recursive: true, force: true });
});

test('nothing of a template is left when the process is killed', async () => {
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'templates-'));
  const script =
    "import { createSandbox } from 'sandbox-sdk-native'; import { local } from 'sandbox-sdk-native/local';" +
    'const provider = local(); const make = () => createSandbox({ provider, identity: "i", onFirstCreate: s => s.run("echo x > x") });' +
    'await make(); await make(); process.kill(process.pid, "SIGKILL")';
  assert.throws(() =>
    execFileSync(process.execPath, ['--input-type=module', '-e', script], { env: { ...process.env, TMPDIR: folder }, stdio: 'ignore' }),
  );
  await until(() => fs.readdirSync(folder).length === 0);
  fs.rmdirSync(folder);
});
