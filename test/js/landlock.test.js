// Level landlock: in simulated containers, on kernels that know less, by name;
// what works in daily use, and what an attacker reaches.
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { createSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';
import { native } from '../../js/native.js';
import { childEnv } from '../helpers/child-env.js';
import { freePort } from '../helpers/port.js';
import { until } from '../helpers/workspace.js';

const here = import.meta.dirname;
const tree = path.join(here, '../..');
const tools = path.join(tree, 'build/native');
const root = process.getuid() === 0;
const run = promisify(execFile);
const declared = await freePort();

spawnSync('make', ['-s', '-f', '.ci/native.mk', 'helpers'], { cwd: tree, stdio: 'inherit' });

// Tools of a home folder keep commands at the ids of their owner; without them
// they get ids of their own.
const plainPath = '/usr/local/bin:/usr/bin:/bin';

/** Runs helpers/confined.js as on another machine; -> what it saw. */
async function on(machine, request, { PATH = plainPath } = {}) {
  const folder = mkdtempSync(path.join(tmpdir(), 'landlock-'));
  try {
    const { stdout } = await run(
      path.join(tools, 'dockerlike'),
      [...machine, process.execPath, path.join(here, '../helpers/confined.js'), JSON.stringify(request)],
      { env: childEnv({ PATH, TMPDIR: folder, HOME: process.env.HOME ?? folder }, { leaks: false }), timeout: 120_000 },
    );
    const seen = JSON.parse(stdout);
    assert.deepEqual(readdirSync(folder), [], 'something was left');
    return seen;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const machines = [
  ['stock Docker', ['--docker']],
  ['user namespaces refused', ['--no-userns']],
  ['mounting refused', ['--no-mount']],
  ['loopback refused, as on Ubuntu 24.04', ['--no-loopback']],
];
if (root) machines.push(['Docker with masked /proc', ['--docker', '--masked-proc']], ['only /proc masked', ['--masked-proc']]);

for (const [name, machine] of machines) {
  test(`auto takes level landlock: ${name}`, async () => {
    const seen = await on(machine, { commands: ['echo $((6*7)); pwd; echo "$SANDBOX_WORKSPACE"'] });
    assert.equal(seen.error, undefined);
    assert.equal(seen.metadata.level, 'landlock');
    assert.match(seen.metadata.degraded, /command lines are visible/);
    assert.ok(seen.instructions.includes('command lines are visible'));
    const inside = seen.metadata.workspaceInside;
    assert.equal(seen.results[0].stdout, `42\n${inside}\n${inside}\n`);
    assert.equal(seen.metadata.cwd, inside);
    assert.deepEqual(seen.spellings, ['one', 'one', 'one', 'one']);
    assert.equal(seen.cwd, inside);
    assert.equal(seen.absolute, 'one');
    assert.equal(seen.foreign, 'permission');
  });
  test(`full refuses there: ${name}`, async () => {
    const seen = await on(machine, { options: { isolation: 'full' } });
    assert.equal(seen.metadata, undefined);
    assert.match(seen.error.message, /could not be set up/);
  });
}

const daily = {
  git: [
    'git init -q r && cd r && git config user.email a@b.c && git config user.name n && echo a > f && git add f && ' +
      'git commit -qm m && git log --format=%s',
    'm',
  ],
  npm: ['mkdir p && cd p && npm init -y >/dev/null && npm pkg get version', '"1.0.0"'],
  'node with a server on a declared port': [
    `node -e "const s=require('http').createServer((q,r)=>r.end('up')).listen(${declared},async()=>{` +
      `console.log(await (await fetch('http://localhost:${declared}')).text());s.close()})"`,
    'up',
  ],
  'node with another port': [
    `node -e "require('http').createServer().listen(${declared + 1}).on('error',e=>console.log(e.code))"`,
    'EACCES',
  ],
  'network interfaces': ['node -p "Object.keys(os.networkInterfaces()).length > 0"', 'true'],
  'python with multiprocessing': ['python3 -c "import multiprocessing as m; print(m.Pool(2).map(abs, [-1]))"', '[1]'],
  'python with shared memory': [
    'python3 -c "from multiprocessing import shared_memory as s; m=s.SharedMemory(create=True,size=9); m.buf[0]=7; ' +
      'n=s.SharedMemory(m.name); print(n.buf[0]); n.close(); m.close(); m.unlink()"',
    '7',
  ],
  'a terminal': ["python3 -c \"import pty; pty.spawn(['echo', 'in a pty'])\"", 'in a pty'],
  'a terminal of its own': ['script -qec "test -t 0 && echo yes" /dev/null </dev/null', 'yes'],
  'bash and jobs': ['sleep 100 & kill $!; wait $!; echo $?', '143'],
  pipes: ['seq 1000 | sort -rn | head -1', '1000'],
  'attributes of own files': [
    'touch -d 2020-01-01 a; chmod 640 a; cp -a a b; chown $(id -u) b; stat -c "%a %y" b | cut -c1-14',
    '640 2020-01-01',
  ],
  archives: ['mkdir t; echo x > t/x; chmod 700 t/x; tar cf t.tar t; rm -r t; tar xpf t.tar; stat -c %a t/x', '700'],
  'set-id bits are dropped': ['touch s; chmod 4755 s; stat -c %a s', '755'],
  'file watches': [
    "node -e \"const w=fs.watch('.',(e,f)=>{if(f==='w'){console.log(f);w.close()}});setTimeout(()=>fs.writeFileSync('w','1'),50)\"",
    'w',
  ],
  'temporary files': ['f=$(mktemp) && echo x > "$f" && cat "$f"', 'x'],
  home: ['cd && echo y > f && cat f', 'y'],
};

const bearers = [['with ids of others', { PATH: process.env.PATH }], ['with ids of their own, as root', {}]];
for (const [name, env] of root ? bearers : bearers.slice(0, 1)) {
  test(`daily work, commands ${name}`, async () => {
    const seen = await on(['--docker'], { options: { ports: [declared] }, commands: Object.values(daily).map(([line]) => line) }, env);
    assert.equal(seen.metadata?.level, 'landlock', JSON.stringify(seen.error));
    Object.entries(daily).forEach(([what, [, want]], i) => {
      const { stdout, stderr } = seen.results[i];
      assert.equal(stdout.trim(), want, `${what}: ${stderr}`);
    });
  });
}

test('commands can signal each other, and not the launcher', async () => {
  const seen = await on(['--docker'], {
    commands: [
      'sleep 300 >/dev/null 2>&1 & echo $! > pid',
      'kill $(cat pid) && echo sent',
      'kill -9 $PPID; kill -STOP $PPID; kill -9 -1; echo alive',
      'echo on',
    ],
  });
  assert.equal(seen.results[1].stdout, 'sent\n');
  assert.equal(seen.results[2].stdout, 'alive\n');
  assert.equal(seen.results[3].stdout, 'on\n');
});

for (const abi of [1, 2, 3, 4, 5, 6]) {
  test(`a kernel with Landlock ABI ${abi}`, async () => {
    const seen = await on(['--no-userns', '--abi', String(abi)], {
      options: { ports: [declared] },
      commands: [
        'mkdir a b; echo x > a/f; mv a/f b/f; cat b/f',
        'sleep 100 & kill $!; wait $!; echo $?',
        `node -e "const s=net.createServer(c=>c.end('up')).on('error',e=>console.log(e.code)).listen(${declared},()=>net.connect(${declared}).on('data',d=>{console.log(''+d);s.close()}))"`,
        'echo long > t; truncate -s 2 t; cat t; python3 -c "import os; os.truncate(\'t\', 1)"; cat t',
      ],
    });
    assert.equal(seen.metadata?.landlockAbi, String(abi), JSON.stringify(seen.error));
    const [moved, killed, server, cut] = seen.results;
    assert.equal(moved.stdout, 'x\n', moved.stderr);
    assert.equal(killed.stdout, '143\n', killed.stderr);
    assert.equal(server.stdout, abi >= 4 ? 'up\n' : 'EACCES\n', server.stderr);
    assert.equal(cut.stdout, 'lol', cut.stderr.slice(0, 400));
    assert.equal(/no network sockets/.test(seen.metadata.degraded), abi < 4);
    assert.equal(/cannot be renamed/.test(seen.metadata.degraded), abi < 2);
  });
}

for (const missing of ['openat2', 'close_range', 'clone3', 'pidfd_open', 'memfd_exec', 'fchmodat2']) {
  test(`a kernel without ${missing}`, async () => {
    const seen = await on(['--no-userns', '--without', missing], { commands: ['echo x > f; chmod 600 f; stat -c %a f'] });
    assert.equal(seen.results[0]?.stdout, '600\n', JSON.stringify(seen.error));
  });
}

test('a kernel without Landlock: refused, with both reasons', async () => {
  const seen = await on(['--docker', '--without', 'landlock'], { commands: ['echo ran'] });
  assert.equal(seen.metadata, undefined);
  assert.match(seen.error.message, /namespaces.*Level "landlock" does not work here either.*Linux 5\.13/s);
});

// The table in README.md: none of these at this level.
const attack = path.join(tools, 'attack');
const kernels = [[], ['--abi', '5'], ['--abi', '3'], ['--abi', '1'], ['--without', 'openat2']];
for (const more of kernels) {
  for (const [name, env] of root ? bearers : bearers.slice(0, 1)) {
    test(`attacks, commands ${name} ${more.join(' ')}`, async () => {
      const options = { ports: [declared], readOnlyPaths: [tools] };
      const seen = await on(['--docker', ...more], { options, attack }, env);
      assert.match(seen.attacks?.at(-1) ?? '', /^done \d+$/, JSON.stringify(seen));
      assert.deepEqual(seen.attacks.slice(0, -1), []);
      assert.equal(seen.secret, 'do-not-leak-me\n');
      assert.deepEqual(seen.outside, ['secret', 'socket', 'writable']);
      assert.deepEqual(seen.left, []);
    });
  }
}

test('the attacks do work without isolation', async (t) => {
  if (root) return t.skip('would change this machine');
  const seen = await on([], { options: { isolation: 'none' }, attack });
  for (const name of ['read secret', 'chmod', 'signal of host', 'ptrace of host', 'shmget', 'tcp', 'abstract socket']) {
    assert.ok(seen.attacks.includes(name), `${name} of ${seen.attacks}`);
  }
  await run(attack, ['forget', String(seen.pid)]);
});

const codes = { namespaces: 4, uid_map: 5, proc: 11, loopback: 15, binds: 9, workspace: 2, landlock: 20 };
function open(folder, isolation, step) {
  return native().open('local', {
    id: `step-${step}`,
    isolation,
    host: { path: process.env.PATH, home: '/nonexistent', execPath: process.execPath, tmpdir: folder },
    test: { failStep: codes[step] },
  });
}

async function withFolder(use) {
  const folder = mkdtempSync(path.join(tmpdir(), 'ladder-'));
  try {
    await use(folder);
    assert.deepEqual(readdirSync(folder), []);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

for (const step of ['namespaces', 'uid_map', 'proc', 'loopback']) {
  test(`a refusal at step ${step} leads to level landlock, and nothing else does`, async () => {
    await withFolder(async (folder) => {
      const sandbox = open(folder, 'auto', step);
      await sandbox.create();
      assert.equal(sandbox.facts().level, 'landlock');
      await sandbox.close();
      const strict = open(folder, 'full', step);
      await assert.rejects(strict.create(), { code: 'unavailable', step });
      await strict.close();
    });
  });
}

for (const step of ['workspace', 'binds']) {
  test(`a failure of this one sandbox at step ${step} is an error`, async () => {
    await withFolder(async (folder) => {
      const sandbox = open(folder, 'auto', step);
      await assert.rejects(sandbox.create(), { code: 'unavailable', step });
      await sandbox.close();
    });
  });
}

test('a fork bomb is held and ends with the session', async (t) => {
  if (!root) return t.skip('only ids of their own are counted alone');
  const { PATH } = process.env;
  process.env.PATH = plainPath;
  const sandbox = await createSandbox({ provider: local({ isolation: 'landlock', limits: { processes: 200 } }) });
  process.env.PATH = PATH;
  const uid = Number((await sandbox.run('id -u')).stdout);
  const owned = (name) => {
    try {
      return statSync(`/proc/${name}`).uid === uid;
    } catch {
      return false;
    }
  };
  const count = () => readdirSync('/proc').filter((name) => /^\d+$/.test(name) && owned(name)).length;
  await sandbox.processes.start(
    'python3 -c "import os,time,signal\nsignal.signal(15,signal.SIG_IGN)\nwhile 1:\n try: os.fork()\n except OSError: time.sleep(0.01)"',
  );
  await until(() => count() >= 150);
  assert.ok(uid > 65536);
  assert.ok(count() <= 210);
  await sandbox.stop();
  assert.equal(count(), 0);
});
