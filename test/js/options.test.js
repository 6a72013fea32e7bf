// Every option of local() does what the README says, and sessions are found again.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { createSandbox, withSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { childEnv } from '../helpers/child-env.js';
import { out } from '../helpers/workspace.js';

const scratch = fs.mkdtempSync(path.join(tmpdir(), 'options-'));
fs.chmodSync(scratch, 0o755);
after(() => fs.rmSync(scratch, { recursive: true, force: true }));
const folder = (name, mode = 0o755) => {
  const made = path.join(scratch, name);
  fs.mkdirSync(made);
  fs.chmodSync(made, mode);
  return made;
};

/** A test body with a sandbox of local(options). */
function given(options, work) {
  return async () => {
    const sandbox = await createSandbox({ provider: local(typeof options === 'function' ? options() : options) });
    try {
      await work(sandbox);
    } finally {
      await sandbox.stop();
    }
  };
}
const text = async (sandbox, line, options) => (await sandbox.run(line, options)).stdout.trim();

test('readOnlyPaths: readable at the same place, not writable', async () => {
  const shown = folder('shown', 0o777);
  fs.writeFileSync(path.join(shown, 'a'), 'of the host', { mode: 0o666 });
  await given({ readOnlyPaths: [shown] }, async sandbox => {
    assert.equal(await text(sandbox, `cat ${shown}/a`), 'of the host');
    assert.notEqual((await sandbox.run(`echo x > ${shown}/a`)).exitCode, 0);
    assert.notEqual((await sandbox.run(`touch ${shown}/b`)).exitCode, 0);
    assert.equal(await text(sandbox, `ls -A ${scratch}`), 'shown');
  })();
  assert.deepEqual([fs.readFileSync(path.join(shown, 'a'), 'utf8'), fs.readdirSync(shown)], ['of the host', ['a']]);
});

test('readWritePaths: what commands write there is on the host', async () => {
  const shared = folder('shared', 0o755);
  await given({ readWritePaths: [shared] }, async sandbox => {
    assert.equal((await sandbox.run(`echo x > ${shared}/made && mkdir ${shared}/d`)).exitCode, 0);
  })();
  assert.equal(fs.readFileSync(path.join(shared, 'made'), 'utf8'), 'x\n');
  assert.equal(fs.statSync(path.join(shared, 'made')).uid, fs.statSync(shared).uid);
});

test('network: denied by default, allowed when asked for', async () => {
  const server = http.createServer((_, answer) => answer.end('from the host')).listen(0, '127.0.0.1');
  await new Promise(resolve => server.once('listening', resolve));
  const { port } = server.address();
  const get = `node -e "fetch('http://127.0.0.1:${port}').then(r => r.text()).then(t => console.log(t), e => console.log(e.cause.code))"`;
  await given({ network: 'allow' }, async sandbox => assert.equal(await text(sandbox, get), 'from the host'))();
  await given({}, async sandbox => assert.equal(await text(sandbox, get), 'ECONNREFUSED'))();
  server.close();
});

test('limits.processes: the fork that is one too many fails, the sandbox goes on', given({ limits: { processes: 20 }, shell: '/bin/sh' }, async sandbox => {
  const { stdout, stderr } = await sandbox.run('for i in $(seq 40); do sleep 5 & done; echo started; kill $(jobs -p) 2>/dev/null', { timeout: 60_000 });
  assert.match(stderr + stdout, /[Rr]esource temporarily unavailable|[Cc]annot fork|retry/);
  assert.equal(await text(sandbox, 'echo fine'), 'fine');
}));

test('shell: the one named runs command strings', given({ shell: '/bin/sh' }, async sandbox => {
  assert.equal(await text(sandbox, 'echo ${BASH_VERSION:-no bash}$0'), 'no bash/bin/sh');
}));

test('shell: bash where it is installed', { skip: !fs.existsSync('/bin/bash') && 'no bash here' }, given({}, async sandbox => {
  assert.equal(await text(sandbox, 'x=(1 2 3); echo ${#x[@]}'), '3');
}));

test('env: of every command, below the sandbox’s and the call’s own', async () => {
  const sandbox = await createSandbox({ provider: local({ env: { A: 'provider', B: 'provider', C: 'provider', N: 5 } }), env: { B: 'sandbox', C: 'sandbox' } });
  assert.equal(await text(sandbox, 'echo $A $B $C $N', { env: { C: 'call' } }), 'provider sandbox call 5');
  await sandbox.stop();
});

test('env: HOME and TMPDIR of this machine mean the session’s own, where it does not have those folders', async () => {
  const { HOME, TMPDIR } = process.env;
  const home = folder('home', 0o777);
  const line = 'touch "$HOME/a" "$TMPDIR/b" && echo "$HOME|$TMPDIR"';
  try {
    process.env.HOME = process.env.TMPDIR = home;
    const env = { HOME: home, TMPDIR: home };
    await withSandbox({ provider: local(), env }, async sandbox => {
      const { stdout, stderr } = await sandbox.run(line);
      assert.equal((await sandbox.run(line, { env })).stdout, stdout);
      assert.ok(!stdout.split(/[|\n]/).includes(home), stdout + stderr);
      assert.equal((await sandbox.run('echo $HOME', { env: { HOME: '/tmp' } })).stdout, '/tmp\n');
    });
    // Node's tmpdir() has no slash at the end, whatever the variable has.
    process.env.TMPDIR = `${home}/`;
    await withSandbox({ provider: local(), env: { HOME: `${home}/.`, TMPDIR: `${home}/` } }, async sandbox => {
      const { stdout, stderr } = await sandbox.run(line);
      assert.ok(stdout && !stdout.includes(home), stdout + stderr);
    });
    process.env.TMPDIR = 'relative';
    await assert.rejects(withSandbox({ provider: local() }, () => {}), /TMPDIR of this process must be an absolute path/);
    process.env.TMPDIR = home;
    await withSandbox({ provider: local({ readWritePaths: [home] }), env }, async sandbox => {
      assert.equal((await sandbox.run('echo "$HOME|$TMPDIR"')).stdout, `${home}|${home}\n`);
    });
  } finally {
    for (const [name, value] of Object.entries({ HOME, TMPDIR })) value === undefined ? delete process.env[name] : (process.env[name] = value);
  }
});

test('isolation: full is refused or full, none runs on the machine itself', async () => {
  await given({ isolation: 'full' }, async sandbox => {
    assert.match(await text(sandbox, 'ls /proc | grep -cE "^[0-9]+$"'), /^\d$/);
  })();
  const marker = path.join(folder('open', 0o777), 'marker');
  await given({ isolation: 'none' }, async sandbox => {
    assert.equal((await sandbox.run(`echo x > ${marker}`)).exitCode, 0);
    await sandbox.files.write('a', '1');
    assert.equal(await text(sandbox, 'cat a; exit 3'), '1');
    const server = await sandbox.processes.start('cat');
    await server.write('x');
    await server.closeStdin();
    assert.deepEqual([(await server.wait()).exitCode, server.stdout], [0, 'x']);
    assert.equal((await sandbox.run('sleep 60', { timeout: 100 })).timedOut, true);
    await assert.rejects(sandbox.files.read('../../../../etc/passwd'), { code: 'permission' });
  })();
  assert.equal(fs.readFileSync(marker, 'utf8'), 'x\n');
});

test('directory: relative is from where Node runs; what is made stays', async () => {
  const directory = path.join(scratch, 'project');
  const workspace = createMastraWorkspace({ provider: local({ directory: path.relative(process.cwd(), directory) }) });
  assert.equal(await out(workspace, 'echo x > a; pwd'), '/workspace\n');
  await workspace.destroy();
  assert.equal(fs.readFileSync(path.join(directory, 'a'), 'utf8'), 'x\n');
});

test('cwd: the workspace is where it says', async () => {
  const workspace = createMastraWorkspace({ provider: local(), cwd: '/home/agent/work' });
  await workspace.filesystem.writeFile('/home/agent/work/a', '1');
  assert.equal(await out(workspace, 'pwd; cat /home/agent/work/a'), '/home/agent/work\n1');
  assert.equal(await workspace.filesystem.readFile('/a', { encoding: 'utf-8' }), '1');
  await workspace.destroy();
});

const again = fileURLToPath(new URL('../helpers/again.js', import.meta.url));

test('root: a session is found by a new provider instance and by a new process, until it is destroyed', async () => {
  const root = path.join(scratch, 'sessions');
  const id = 'agent 7/é'.replace('/', '-');
  const open = () => createMastraWorkspace({ provider: local({ root }), id });
  const one = open();
  await one.filesystem.writeFile('a', 'first');
  await assert.rejects(open().sandbox._start(), /in use/);
  // Leaves the files: another process may have the session now.
  await one.sandbox._stop();
  const sdk = await createSandbox({ provider: local({ root }), id: 'other' });
  await sdk.files.write('b', 'of another id');
  await sdk.stop();
  assert.equal(fs.readdirSync(root).length, 2);
  const run = promisify(execFile);
  const child = async what => (await run(process.execPath, [again, root, what, 'b'], { env: childEnv({ PATH: process.env.PATH, TMPDIR: tmpdir() }) })).stdout;
  assert.equal(await child('other'), 'connected: of another id, then changed');
  const back = await createSandbox({ provider: local({ root }), id: 'other' });
  assert.equal(await back.files.text('b'), 'of another id, then changed');
  await back.stop();
  await one.destroy();
  assert.equal(fs.readdirSync(root).length, 1);
});
