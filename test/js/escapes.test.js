// The attack list, row by row: what a hostile command, file tree or server tries,
// at each level. Rows 1 to 38 are those of the design's list, the lettered ones
// came later. What the levels promise beyond them is in promises.test.js.
import { inherited } from '../helpers/private-mounts.js';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';
import { native } from '../../js/native.js';
import { attack, attempts, bait, declared, kinds, open, root, tools } from '../helpers/attempts.js';
import { childEnv } from '../helpers/child-env.js';
import { until } from '../helpers/workspace.js';

const here = import.meta.dirname;
const run = promisify(execFile);
const long = process.env.SBX_TEST_LONG === '1';
const MIB = 1024 * 1024;
const utf8 = { encoding: 'utf8' };
const secrets = { OPENAI_API_KEY: 'sk-do-not-leak-me', AWS_SECRET_ACCESS_KEY: 'aws-do-not-leak-me' };
const tunables = { GLIBC_TUNABLES: 'glibc.malloc.check=3', LD_BIND_NOW: '1', LD_LIBRARY_PATH: '/do-not-use-me' };
Object.assign(process.env, secrets);

const hasNode = 'command -v node >/dev/null';
const rows = new Map(); // number or letter -> [name, body]
const row = (key, name, body) => rows.set(String(key), [name, body]);

/** Attempts of attack.c, all of which fail, but for those that do nothing outside at that level. */
const fails = (names, harmless = {}) => context => {
  for (const name of names) {
    const answer = context.tried.get(name);
    context.claimed.add(name);
    assert.notEqual(answer, undefined, `nobody tried "${name}"`);
    const want = harmless[context.level]?.includes(name) ? 'worked' : undefined;
    if (want) assert.equal(answer, want, name);
    else assert.notEqual(answer, 'worked', name);
  }
};
const of = (...whats) => ['host', 'launcher'].flatMap(who => whats.map(what => `${what} of ${who}`));

async function ok(context, line, options) {
  const { stdout, stderr, exitCode } = await context.sandbox.executeCommand(line, [], options);
  assert.equal(exitCode, 0, `${line}: ${stdout}${stderr}`);
  return stdout;
}

/** A sandbox of its own for what would be in the way of others. */
async function alone(context, options, work, more) {
  const workspace = await open(context.kind, options, more);
  try {
    return await work({ ...context, workspace, sandbox: workspace.sandbox, files: workspace.filesystem, sdk: workspace.sandbox.sandboxSdk });
  } finally {
    await workspace.destroy();
  }
}

const read = file => {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
};
function children(pid) {
  try {
    const threads = fs.readdirSync(`/proc/${pid}/task`);
    return threads.flatMap(tid => (read(`/proc/${pid}/task/${tid}/children`) ?? '').trim().split(/\s+/).filter(Boolean).map(Number));
  } catch {
    return [];
  }
}
const below = pid => children(pid).flatMap(child => [child, ...below(child)]);
// Launchers and their PID 1s: this process starts nothing else of that name.
const launchers = () => below(process.pid).filter(pid => read(`/proc/${pid}/comm`) === 'sbx-launcher\n');

row(1, 'links that are swapped under file tools', async context => {
  const { sandbox, files, outside } = context;
  await ok(context, `rm -rf swap && mkdir -p swap/dir && echo inside > swap/dir/secret && ln -s ${outside.folder} swap/link`);
  const swapper = await sandbox.processes.spawn(`"${attack}" swap swap/dir swap/link`);
  const times = long ? 8000 : 400;
  const settled = async promise => promise.then(value => value, () => undefined);
  for (let i = 0; i < times; i++) {
    const text = await settled(files.readFile('swap/dir/secret', utf8));
    assert.ok(text === undefined || !text.includes('leak'), text);
    await settled(files.writeFile('swap/dir/secret', 'inside\n'));
    if (i % 10) continue;
    const listed = await settled(files.readdir('swap/dir'));
    assert.ok(!listed?.some(entry => entry.name === 'socket'));
    await settled(files.copyFile('swap/dir/secret', 'swap/copy'));
    await settled(files.moveFile('swap/copy', 'swap/dir/moved'));
    await settled(files.deleteFile('swap/dir/moved'));
    await settled(files.mkdir('swap/dir/made'));
    await settled(files.rmdir('swap/dir/made', { recursive: true }));
  }
  await swapper.kill();
  assert.deepEqual(fs.readdirSync(outside.folder).sort(), ['secret', 'socket', 'writable']);
  assert.equal(read(outside.secret), 'do-not-leak-me\n');
});

row(2, 'other ways to the root of the machine', fails([
  'read secret', 'list outside', 'read by /proc/self/root', 'read by /proc/1/root', 'read by ../..', 'read by root of host',
  'read by folder of host', 'symbolic link', 'shadow', 'list /root', ...of('root', 'folder'),
]));

row(3, 'environment, memory, descriptors and program of PID 1', async context => {
  fails(of('environment', 'memory', 'maps', 'program', 'open files', 'descriptor', 'name', 'out-of-memory score', 'timer slack'))(context);
  for (const pid of launchers()) {
    const environment = read(`/proc/${pid}/environ`);
    if (root) assert.equal(environment, '', `the launcher ${pid} has variables`);
    else assert.ok(environment === undefined || environment === '');
  }
});

row(4, 'processes of the machine: signals, ptrace, memory, pidfds', fails(
  [
    ...of('signal', 'thread signal', 'group signal', 'queued signal', 'ptrace', 'process_vm_readv', 'process_vm_writev', 'pidfd signal',
      'pidfd_getfd', 'comparison', 'pages', 'madvise'),
    'signal to threads of the launcher', 'host in the process list', 'command line of host', 'statistics of host',
    'owner of a descriptor host', 'owner by ioctl host', 'owner of a descriptor launcher', 'owner by ioctl launcher',
  ],
  {
    // PID 1 of a namespace hears none of them: row 32.
    full: ['signal of launcher', 'thread signal of launcher', 'queued signal of launcher', 'pidfd signal of launcher',
      'signal to threads of the launcher', 'owner of a descriptor launcher', 'owner by ioctl launcher'],
    landlock: ['host in the process list', 'command line of host', 'statistics of host'],
  },
));

row(5, 'mounts, old calls and new', fails([
  'mount', 'remount', 'bind', 'umount', 'pivot_root', 'chroot', 'open_tree', 'move_mount', 'fsopen', 'fspick', 'mount_setattr', 'open_tree_attr',
]));

row(6, 'namespaces', fails(['unshare', 'clone', 'clone3', 'setns', 'setns of PID 1', ...of('namespace')]));

row(7, 'files of the kernel: /proc/sys, sysrq, /sys', async context => {
  const values = ['/proc/sys/kernel/core_pattern', '/proc/sys/kernel/hostname'].map(read);
  fails(['sysctl', 'core_pattern', 'sysrq', 'hostname by sysctl', 'transparent huge pages', 'control group'])(context);
  for (const file of ['core_pattern', 'hostname', 'panic', 'randomize_va_space']) {
    const { exitCode } = await context.sandbox.executeCommand(`echo x > /proc/sys/kernel/${file}`);
    assert.notEqual(exitCode, 0, file);
  }
  assert.deepEqual(['/proc/sys/kernel/core_pattern', '/proc/sys/kernel/hostname'].map(read), values);
});

row(8, 'set-id programs and file capabilities', async context => {
  fails(['privileges', 'hard link of a set-id program', 'user 0', 'groups'])(context);
  assert.match(await ok(context, 'cat /proc/self/status'), /^NoNewPrivs:\t1$/m);
  if (context.level !== 'full') return;
  const mounts = (await ok(context, 'cat /proc/self/mountinfo')).trim().split('\n');
  for (const line of mounts.filter(one => !/ - (proc|devtmpfs) /.test(one))) assert.match(line, /nosuid/);
});

row(9, 'capabilities', async context => {
  fails(['sethostname', 'clock', 'lower nice', 'real time', 'kernel log', 'swap', 'module', 'kexec', 'fanotify', 'open by handle'])(context);
  const sets = (await ok(context, 'grep ^Cap /proc/self/status')).trim().split('\n');
  // A plain user cannot give up what is only a bound, and nothing can fill.
  const held = sets.filter(line => root || context.level === 'full' || !line.startsWith('CapBnd'));
  for (const line of held) assert.match(line, /\t0000000000000000$/);
});

row(10, 'keyrings', fails(['keyctl', 'add_key']));
row(11, 'io_uring, bpf, perf, userfaultfd', fails(['io_uring', 'bpf', 'perf', 'userfaultfd', 'userfaultfd whole', 'own listener']));

row(12, 'typing into terminals', async context => {
  fails(['TIOCSTI', 'TIOCLINUX', 'controlling terminal', 'terminal of the host'])(context);
  const code = 'import fcntl, sys\ntry: fcntl.ioctl(0, 0x5412, b"x"); print("typed")\nexcept OSError as e: print(e.errno)';
  const terminal = await context.sdk.processes.start(['python3', '-c', code], { pty: true });
  assert.match((await terminal.wait()).stdout, /^1\r?\n$|not found|No such file/);
});

row(13, 'Unix sockets of the machine', fails(['unix socket', 'abstract socket', 'unix datagram']));
row(14, 'loopback of the machine, TCP and UDP', fails(
  ['tcp', 'tcp to ::1', 'tcp fast open', 'mptcp', 'udp to host', 'udp', 'bind any', 'listen without bind'],
  { full: ['udp', 'bind any', 'listen without bind'] }, // of a network of its own
));

row(15, 'addresses that a proxy must not reach', async context => {
  fails(['metadata'])(context);
  const targets = [
    '127.0.0.1', 'localhost', 'LOCALHOST.', '127.1', '2130706433', '0x7f000001', '0177.0.0.1', '0.0.0.0', '[::1]', '[::]',
    '[::ffff:127.0.0.1]', '[64:ff9b::7f00:1]', '169.254.169.254', '2852039166', '10.0.0.1', '172.16.0.1', '192.168.0.1', '100.64.0.1',
    '[fd00:ec2::254]', '[fe80::1]',
  ].map(host => `${host}:${context.outside.port}`);
  const code = `
    const { port, username, password } = new URL(process.env.HTTP_PROXY);
    const ask = to => new Promise(done => require('http').request({ port, method: 'CONNECT', path: to, headers: {
      'Proxy-Authorization': 'Basic ' + btoa(username + ':' + password) } })
      .on('connect', answer => done(answer.statusCode)).on('response', answer => done(answer.statusCode)).on('error', error => done(error.code)).end());
    (async () => { for (const to of ${JSON.stringify(targets)}) console.log(to, await ask(to)); process.exit(); })()`;
  await alone(context, { network: [`*:${context.outside.port}`] }, async one => {
    if ((await one.sandbox.executeCommand(hasNode)).exitCode !== 0) return;
    const seen = await ok(one, 'node', {}).catch(() => undefined);
    assert.equal(seen, '');
    const answers = (await one.sdk.run(['node', '-e', code])).stdout.trim().split('\n');
    assert.equal(answers.length, targets.length, answers.join());
    // A kernel that cannot limit TCP has no proxy at level landlock.
    for (const answer of answers) assert.match(answer, / (403|400|EACCES)$/);
  });
});

row(16, 'socket families', fails(['vsock', 'packet', 'alg', 'netlink audit', 'raw', 'xdp']));

row(17, 'devices', async context => {
  fails([...context.tried.keys()].filter(name => name.startsWith('device ')))(context);
  fails(['block device', 'character device', 'memory device'])(context);
  if (context.level !== 'full') return;
  const names = (await ok(context, 'ls /dev')).trim().split('\n').filter(name => name !== 'mqueue');
  assert.deepEqual(names, ['fd', 'full', 'null', 'ptmx', 'pts', 'random', 'shm', 'stderr', 'stdin', 'stdout', 'tty', 'urandom', 'zero']);
});

row(18, 'descriptors of Node', async context => {
  assert.match(read(`/proc/self/fdinfo/${inherited}`), /^flags:\t0100000$/m, 'nothing to inherit');
  fails(['inherited descriptor'])(context);
  const seen = await ok(context, 'exec 3>&- ; ls -l /proc/self/fd');
  assert.doesNotMatch(seen, /secret|socket:/);
  for (const pid of root ? launchers() : []) {
    const opened = fs.readdirSync(`/proc/${pid}/fd`).map(fd => fs.readlinkSync(`/proc/${pid}/fd/${fd}`));
    assert.ok(!opened.some(one => one.endsWith('/secret')), opened.join());
  }
});

row(19, 'secrets in the environment', async context => {
  const seen = await ok(context, 'env; cat /proc/*/environ 2>/dev/null | tr "\\0" "\\n"; true');
  for (const secret of Object.values(secrets)) assert.ok(!seen.includes(secret));
});

row(20, 'a fork bomb', async context => {
  // The ids of the host count all processes that have them, so that there a
  // command bounds itself.
  const bomb = 'import os,time,signal\nsignal.signal(15,signal.SIG_IGN)\nfor i in range(2000):\n try: os.fork()\n except OSError: time.sleep(0.01)\ntime.sleep(600)';
  const own = context.facts.uidMode === 'range' || context.level === 'full';
  await alone(context, { limits: { processes: 150 } }, async one => {
    const line = own ? bomb : bomb.replace('2000', '7');
    await one.sdk.processes.start(['sh', '-c', `python3 -c '${line.replaceAll("'", '"')}' || while :; do sleep 600 & done`]);
    await until(() => below(process.pid).length > 40);
    await sleep(100);
    assert.ok(below(process.pid).length < 400);
  });
  await until(() => below(process.pid).length <= launchers().length + 8);
});

row(21, 'a memory bomb', async context => {
  await alone(context, { limits: { memory: 128 * MIB } }, async one => {
    const { exitCode, reason } = await one.sdk.run('head -c 400000000 /dev/zero | tail -c 400000000 > /dev/null; sleep 600');
    assert.equal(exitCode, 137);
    assert.match(reason, /limits\.memory/);
  });
});

row(22, 'a full disk, many files, a sparse terabyte', async context => {
  await alone(context, { limits: { workspaceSize: 20 * MIB } }, async one => {
    const fill = 'i=0; while :; do head -c 4000000 /dev/urandom > $i; i=$((i + 1)); sleep 0.1; done';
    assert.match((await one.sdk.run(fill)).reason, /limits\.workspaceSize/);
    assert.notEqual((await one.sdk.run('truncate -s 1T sparse')).exitCode, 0);
  });
  if (context.level !== 'full') return;
  assert.notEqual((await context.sandbox.executeCommand('head -c 600M /dev/zero > /tmp/big')).exitCode, 0);
  assert.match(await ok(context, 'rm /tmp/big; df --output=itotal /tmp | tail -1'), /^\s*262144\n$/);
});

row(23, 'descriptors without end', async context => {
  await alone(context, { limits: { openFiles: 64 } }, async one => {
    assert.equal(await ok(one, 'ulimit -n; ulimit -Hn'), '64\n64\n');
    const code = 'import os\nn=0\ntry:\n while 1: os.open("/dev/null",0); n+=1\nexcept OSError as e: print(e.errno, n < 64)';
    assert.equal(await ok(one, `command -v python3 >/dev/null || { echo 24 True; exit; }; python3 -c '${code}'`), '24 True\n');
  });
});

row(24, 'core dumps', async context => {
  fails(['core limit'])(context);
  assert.equal(await ok(context, 'ulimit -c; ulimit -Hc').then(text => /^[01]\n[01]\n$/.test(text)), true);
  await ok(context, 'mkdir -p core && cd core && (sh -c "kill -SEGV \\$\\$"; true) && test -z "$(ls)"');
});

row(25, 'a daemon that ignores every signal, and destroy()', async context => {
  const mark = `row-25-${context.kind.name.length}-${process.pid}`;
  const marked = () => fs.readdirSync('/proc').filter(pid => /^\d+$/.test(pid) && read(`/proc/${pid}/cmdline`)?.includes(mark));
  await alone(context, {}, async one => {
    await ok(one, `(setsid sh -c "(trap '' TERM HUP INT QUIT; : ${mark}; while :; do sleep 600; done) & exit" >/dev/null 2>&1 &)`);
    await until(() => marked().length > 0);
  });
  assert.deepEqual(marked(), []);
});

async function aftermath(context, way, delay) {
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'escapes-'));
  try {
    const { stdout, stderr } = await run(
      path.join(tools, 'orphans'),
      ['60000', process.execPath, path.join(here, '../helpers/victim.js'), way, String(delay)],
      {
        env: childEnv(
          { PATH: context.kind.PATH, TMPDIR: folder, HOME: folder, VICTIM_ISOLATION: context.kind.isolation },
          { leaks: false },
        ),
      },
    );
    assert.match(stdout, /left 0$/m, `${way} after ${delay} ms: ${stdout}${stderr}`);
    assert.deepEqual(fs.readdirSync(folder), [], `${way} after ${delay} ms`);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

row(26, 'the end of Node, of a worker, of the launcher, of PID 1', async context => {
  for (const way of ['sigkill', 'worker', 'worker-exit']) await aftermath(context, way, 150);
  for (const which of [0, 1]) {
    const mine = launchers();
    const sandbox = await createSandbox({ provider: local({ isolation: context.kind.isolation }) });
    const command = sandbox.run('sleep 600');
    const process = await sandbox.processes.start('sleep 600');
    const fresh = () => launchers().filter(pid => !mine.includes(pid));
    await until(() => fresh().length >= 2);
    globalThis.process.kill(fresh()[which], 'SIGKILL');
    for (const end of [command, process.wait()]) {
      const result = await end.catch(error => error);
      assert.ok(result.code === 'unavailable' || result.killed === true, String(result));
    }
    await sandbox.stop();
    await until(() => launchers().length <= mine.length);
  }
});

row(27, 'SIGKILL of Node at a random moment of the start', async context => {
  for (let i = 0; i < (long ? 100 : 4); i++) await aftermath(context, 'sigkill', Math.random() * (i % 2 ? 60 : 12));
});

row(28, 'orphans by the thousand', async context => {
  await ok(context, `"${attack}" orphans ${long ? 10000 : 1000}`);
  const zombies = 'grep -l "^State:.Z" /proc/[0-9]*/status 2>/dev/null | wc -l';
  if (context.level === 'full') await until(async () => (await ok(context, zombies)) === '0\n');
  else await until(() => below(process.pid).every(pid => !/^State:\tZ/m.test(read(`/proc/${pid}/status`) ?? '')));
});

row(29, 'input after the command closed it', async context => {
  const handle = await context.sandbox.processes.spawn('exec 0<&-; echo closed; sleep 600');
  await until(() => handle.stdout.includes('closed'));
  await assert.rejects(handle.sendStdin('x'.repeat(100_000)), /EPIPE|closed/);
  await handle.kill();
  assert.equal(await ok(context, 'echo alive'), 'alive\n');
});

row(30, 'output without a reader, binary, and text cut anywhere', async context => {
  const before = process.memoryUsage().rss;
  const size = long ? 1024 : 64;
  const handle = await context.sandbox.processes.spawn(`head -c ${size}M /dev/urandom; printf END`);
  const result = await handle.wait();
  assert.equal(result.stdoutTruncated, true);
  assert.ok(result.stdout.endsWith('END'));
  assert.ok(process.memoryUsage().rss - before < 300 * MIB);
  const heard = [];
  const cut = await context.sandbox.executeCommand('printf "\\303"; sleep 0.05; printf "\\244\\377"', [], { onStdout: text => heard.push(text) });
  assert.equal(cut.stdout, '\u00e4\ufffd');
  assert.equal(heard.join(''), cut.stdout);
});

row(31, 'a child in the background that keeps stdout open', async context => {
  assert.equal(await ok(context, 'sleep 600 & echo main'), 'main\n');
});

row(32, 'signals to PID 1, and to everybody', async context => {
  for (const line of ['kill -STOP 1', 'kill -KILL 1', 'kill -9 -1', 'kill -9 $PPID', 'kill -STOP $PPID', 'kill -TERM $PPID', `"${attack}" owner $PPID`]) {
    await context.sandbox.executeCommand(line);
    assert.equal(await ok(context, 'echo on'), 'on\n', line);
  }
  for (const pid of [0, 1, 2, 3]) {
    await context.sandbox.executeCommand(`"${attack}" owner $((PPID + ${pid}))`);
    assert.equal(await ok(context, 'echo on'), 'on\n', `owner of descriptors: thread ${pid}`);
  }
});

row(33, 'the control socket', async context => {
  fails(['inherited descriptor', ...of('open files', 'descriptor', 'pidfd_getfd')])(context);
  await ok(context, 'for fd in 3 4 5 6 7 8 9; do (echo forged >&$fd) 2>/dev/null && exit 1; done; true');
});

row(34, 'FIFOs, sockets, devices and links into /proc as files', async context => {
  const { files } = context;
  await ok(context, 'rm -rf odd; mkdir odd; mkfifo odd/fifo; ln -s /dev/zero odd/zero; ln -s /proc/self/environ odd/environ; ln -s /proc/self/fd/0 odd/in');
  await ok(context, `! ${hasNode} || node -e "net.createServer().on('error', () => process.exit()).listen('odd/socket', () => process.exit())"`);
  for (const name of fs.readdirSync(path.join(context.hostPath, 'odd'))) {
    await assert.rejects(files.readFile(`odd/${name}`), { name: /Error$/ }, name);
    await assert.rejects(files.appendFile(`odd/${name}`, 'x'), { name: /Error$/ }, name);
  }
  await files.rmdir('odd', { recursive: true });
});

row(35, 'hard links of the machine\u2019s files, a workspace that is a link', async context => {
  fails(['hard link', 'hard link by descriptor', 'hard link of a set-id program'])(context);
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'escapes-'));
  fs.chmodSync(folder, 0o755);
  const real = path.join(folder, 'real');
  const link = path.join(folder, 'link');
  fs.mkdirSync(real);
  fs.symlinkSync(real, link);
  await alone(context, { directory: link }, async one => {
    await one.files.writeFile('a', 'x');
    assert.equal(await ok(one, 'cat a'), 'x');
    // What the link means later is no matter of the sandbox's.
    fs.unlinkSync(link);
    fs.symlinkSync(context.outside.folder, link);
    await one.files.writeFile('b', 'y');
    assert.equal(await one.files.exists('secret'), false);
    fs.renameSync(real, path.join(folder, 'moved'));
    fs.symlinkSync(context.outside.folder, real);
    await one.files.writeFile('c', 'z');
    assert.equal(await one.files.exists('secret'), false);
    // At level landlock commands start by path, and are kept out there.
    const { stdout } = await one.sandbox.executeCommand('cat a b c; cat secret');
    assert.equal(stdout, context.level === 'full' ? 'xyz' : '');
  });
  assert.deepEqual(fs.readdirSync(path.join(folder, 'moved')).sort(), ['a', 'b', 'c']);
  assert.deepEqual(fs.readdirSync(context.outside.folder).sort(), ['secret', 'socket', 'writable']);
  fs.rmSync(folder, { recursive: true });
});

row(36, 'a server behind a port: half-closed, many, only IPv6, and its end', async context => {
  if ((await context.sandbox.executeCommand(hasNode)).exitCode !== 0) return;
  const server = `
    require('http').createServer((q, s) => s.end('served')).on('error', e => console.log(e.code))
      .on('upgrade', (q, s, head) => { s.write('HTTP/1.1 101 Switching Protocols\\r\\n\\r\\n'); s.write(head); s.on('data', d => s.write(d)).on('end', () => s.end('bye')).on('error', () => {}); })
      .listen({ host: '::1', port: ${declared} }, () => console.log('up'));`;
  let gone;
  await alone(context, {}, async one => {
    const child = await one.sdk.processes.start(['node', '-e', server]);
    await until(() => child.stdout.length > 0);
    if (child.stdout !== 'up\n') return; // no TCP, or no IPv6, on this kernel
    const { url, request } = await one.sdk.ports.expose(declared);
    assert.equal(await (await request('/')).text(), 'served');
    const { host, port } = new URL(url);
    const talk = (text, end) =>
      new Promise((resolve, reject) => {
        let seen = '';
        const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true });
        socket.on('data', piece => (seen += piece)).on('end', () => (socket.end(), resolve(seen))).on('error', reject);
        socket.write(text);
        if (end) socket.end();
      });
    const upgrade = `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nfirst`;
    assert.match(await talk(upgrade, true), /101[^]*firstbye$/);
    const ask = `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
    const answers = await Promise.all(Array.from({ length: long ? 1000 : 300 }, () => talk(ask)));
    assert.ok(answers.every(answer => answer.endsWith('served') || answer.includes('served')));
    await assert.rejects(one.sdk.ports.expose(80), { code: 'invalid_input' });
    gone = port;
  });
  if (gone === undefined) return;
  const refused = await new Promise(resolve => net.connect(gone, '127.0.0.1').on('connect', () => resolve('open')).on('error', error => resolve(error.code)));
  assert.equal(refused, 'ECONNREFUSED');
});

row(37, 'tricks with names', async context => {
  const { files, sdk } = context;
  const names = ['a\nb', 'x'.repeat(255), ' ', '...', '-rf', '\u202eabc', 'esc\u001b[31m'];
  for (const name of names) {
    await files.writeFile(`names/${name}`, name);
    assert.equal(await files.readFile(`names/${name}`, utf8), name);
  }
  assert.deepEqual((await files.readdir('names')).map(entry => entry.name).sort(), [...names].sort());
  for (const name of ['a\0b', 'x'.repeat(256), `${'d/'.repeat(3000)}x`]) await assert.rejects(files.writeFile(name, 'x'));
  await assert.rejects(files.writeFile('names/', 'x'));
  await assert.rejects(sdk.files.write('.', 'x'));
  for (const name of ['../x', '/../x', 'names/../../x', '/workspace/../../x']) {
    await assert.rejects(files.writeFile(name, 'x'), { name: 'PermissionError' }, name);
  }
  await ok(context, "touch \"$(printf 'names/bad\\377')\"");
  assert.equal((await files.readdir('names')).length, names.length + 1);
  await files.rmdir('names', { recursive: true });
});

const steps = [
  'config', 'workspace', 'idmap', 'namespaces', 'uid_map', 'setid', 'lifeline', 'root', 'binds', 'files', 'proc', 'dev',
  'mount_workspace', 'pivot', 'loopback', 'hostname', 'capabilities', 'rlimits', 'no_new_privs', 'landlock', 'seccomp', 'ready',
];
const ofLandlock = ['config', 'workspace', 'setid', 'lifeline', 'files', 'capabilities', 'rlimits', 'no_new_privs', 'landlock', 'seccomp', 'ready'];

row(38, 'each step of the set-up fails: nothing runs', async context => {
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'escapes-'));
  for (const errno of [1, 38]) {
    for (const [index, step] of steps.entries()) {
      if (context.level === 'landlock' && !ofLandlock.includes(step)) continue;
      const sandbox = native().open('local', {
        id: `step-${step}`,
        isolation: context.kind.isolation,
        host: { path: context.kind.PATH, home: '/nonexistent', execPath: process.execPath, tmpdir: folder },
        test: { failStep: index + 1, failErrno: errno },
      });
      await assert.rejects(sandbox.create(), { code: 'unavailable', step }, step);
      assert.throws(() => sandbox.spawn({ argv: ['true'], cwd: '/', env: [] }, { onExit() {} }), { code: 'unavailable' });
      await sandbox.close();
      assert.deepEqual(fs.readdirSync(folder), [], step);
    }
  }
  fs.rmdirSync(folder);
});

row('a', 'no set-id file ever appears on the host', async context => {
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'escapes-'));
  fs.chmodSync(folder, 0o755);
  const directory = path.join(folder, 'project');
  fs.mkdirSync(directory);
  await alone(context, { directory }, async one => {
    await one.sandbox.executeCommand(
      'cp /bin/true a; chmod 4755 a; chmod 2755 a; install -m 6755 /bin/true b; cp /bin/true c; chmod u+s,g+s c; ' +
        'tar cf t.tar --mode=4755 a; tar xpf t.tar; umask 0; mkdir d; chmod 2777 d; echo > d/inherits; chmod 4777 d; ' +
        "python3 -c 'import os; os.open(\"e\", os.O_CREAT | os.O_WRONLY, 0o4755); os.mknod(\"f\", 0o106755)'; true",
    );
    await one.files.writeFile('g', 'x');
    await assert.rejects(one.sandbox.writeFiles([{ path: 'h', content: 'x', mode: 0o4755 }]));
    for (const entry of fs.readdirSync(directory, { recursive: true, withFileTypes: true })) {
      const { mode } = fs.lstatSync(path.join(entry.parentPath, entry.name));
      if (entry.isFile()) assert.equal(mode & 0o6000, 0, entry.name);
    }
  });
  fs.rmSync(folder, { recursive: true });
});

row('b', 'limits, scheduling, System V and queues of the host', context => {
  fails([
    ...of('prlimit', 'affinity', 'priority', 'io priority', 'scheduler', 'scheduler attributes'), 'user priority', 'more processes',
    'shmget', 'semget', 'msgget', 'mq_open',
  ], { full: ['shmget', 'semget', 'msgget', 'mq_open'] })(context); // of namespaces of its own
  const segments = read('/proc/sysvipc/shm');
  if (segments !== undefined) assert.ok(!segments.split('\n').some(line => line.trim().split(/\s+/)[4] === String(context.pid)));
  assert.equal(read(`/dev/mqueue/sandbox-attack-${process.pid}`), undefined);
});

row('c', 'ids, identities and names of snapshots as paths', async context => {
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'escapes-'));
  const at = path.join(folder, 'root');
  const provider = local({ isolation: context.kind.isolation, root: at });
  for (const id of ['../x', '/x', '..', '.', 'a/b', 'a\\b', 'a\nb', 'a\u001bb', '']) {
    assert.throws(() => createSandbox({ provider, id }), { code: 'invalid_input' }, JSON.stringify(id));
    assert.throws(() => createSandbox({ provider, id: 'good', identity: id, onFirstCreate() {} }), { code: 'invalid_input' }, JSON.stringify(id));
  }
  const box = await createSandbox({ provider, id: '-rf --no-preserve-root $(touch x) \u202e %2e%2e%2f' });
  for (const name of ['../../x', '/etc/x', '..', '.', 'a/../../b', '\u0000'.repeat(0) + 'a\nb', '\u001b[2J']) {
    const { id } = await box.snapshots.create(name);
    assert.match(id, /^[A-Za-z0-9_%-]+$/);
    await box.snapshots.delete(id);
  }
  for (const id of ['../x', '..', '/etc/passwd', 'a/b', 'a\0b', '.', '']) {
    await assert.rejects(box.snapshots.restore(id), { code: 'invalid_input' });
    await assert.rejects(box.snapshots.delete(id), { code: 'invalid_input' });
  }
  await box.destroy();
  assert.deepEqual(fs.readdirSync(folder), ['root']);
  fs.rmSync(folder, { recursive: true });
});

row('d', 'a tree of very many levels, with closed folders, goes with its session', async context => {
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'escapes-'));
  fs.chmodSync(folder, 0o755);
  // In memory: a folder costs a block of a disk.
  if (root) await run('mount', ['-t', 'tmpfs', '-o', 'nr_inodes=0', 'none', folder]);
  const provider = local({ isolation: context.kind.isolation, root: path.join(folder, 'root'), readOnlyPaths: [tools] });
  const box = await createSandbox({ provider, id: 'deep' });
  const { exitCode, stderr } = await box.run(`"${attack}" nest ${(root && context.level === 'full') || long ? 100_000 : 20_000} && mkdir closed && touch closed/in && chmod 0 closed`);
  assert.equal(exitCode, 0, stderr);
  await box.destroy();
  assert.deepEqual(fs.readdirSync(path.join(folder, 'root')).filter(name => name.startsWith('deep')), []);
  if (root) await run('umount', [folder]);
  fs.rmSync(folder, { recursive: true });
});

const plant =
  'mkdir -p a b && echo one > a/one && echo top > top && ' +
  'python3 -c "import os; os.setxattr(\'a\', \'user.overlay.opaque\', b\'y\'); os.setxattr(\'top\', \'user.overlay.redirect\', b\'/../../../../etc/passwd\'); ' +
  'os.setxattr(\'b\', \'user.overlay.whiteout\', b\'y\'); os.setxattr(\'top\', \'user.overlay.metacopy\', b\'\')" || true; mknod w c 0 0 2>/dev/null; true';

async function template(context, work) {
  const provider = local({ isolation: context.kind.isolation });
  const boxes = [];
  const make = async () => {
    const box = await createSandbox({ provider, identity: 'planted', onFirstCreate: one => one.run(plant) });
    boxes.push(box);
    return box;
  };
  try {
    await work(make);
  } finally {
    await Promise.all(boxes.map(box => box.stop()));
  }
}

row('e', 'marks of the overlay, planted for a later session', context =>
  template(context, async make => {
    await make();
    for (const box of [await make(), await make()]) {
      const { stdout } = await box.run('cat top a/one; ls -d a b; grep -c root: top');
      assert.equal(stdout, 'top\none\na\nb\n0\n');
    }
  }));

row('f', 'a template, and what lies on it, is no other session\u2019s to write', context =>
  template(context, async make => {
    await make();
    const [one, two] = [await make(), await make()];
    await one.run('chmod -R u+rwX .; echo evil >> a/one; rm top; mkdir -p b/evil; mv a c');
    await one.files.write('top', 'evil');
    assert.equal((await two.run('cat top a/one; ls b')).stdout, 'top\none\n');
    assert.equal((await (await make()).run('cat top a/one; ls b')).stdout, 'top\none\n');
    for (const [thief, victim] of [[one, two], [two, one]]) {
      const { folder } = victim.metadata;
      const tried = await thief.run(`echo evil > "${folder}/workspace/x"; ls "${folder}"; cat "${folder}"/*/top; rm -rf "${folder}"`);
      assert.equal(tried.stdout, '');
      assert.ok(fs.existsSync(folder));
    }
  }));

row('g', 'variables of the loader never reach the launcher', async context => {
  Object.assign(process.env, tunables);
  try {
    await alone(context, { env: { ...tunables, LD_AUDIT: '/do-not-use-me' } }, async one => {
      const seen = await ok(one, 'env');
      for (const [name, value] of Object.entries(tunables)) assert.ok(seen.includes(`${name}=${value}`), 'commands get what is passed');
      for (const pid of launchers()) {
        const environment = read(`/proc/${pid}/environ`);
        assert.ok(root ? environment === '' : !environment, `${pid}: ${environment}`);
      }
    });
    await alone(context, {}, async one => {
      assert.doesNotMatch(await ok(one, 'env'), /GLIBC_TUNABLES|LD_BIND_NOW|do-not-use-me/);
    });
  } finally {
    for (const name of Object.keys(tunables)) delete process.env[name];
  }
});

row('h', 'the launcher has no file that could be replaced', () => {
  const hash = bytes => createHash('sha256').update(bytes).digest('hex');
  for (const pid of root ? launchers() : []) {
    assert.match(fs.readlinkSync(`/proc/${pid}/exe`), / \(deleted\)$/);
    assert.equal(hash(fs.readFileSync(`/proc/${pid}/exe`)), hash(fs.readFileSync(path.join(here, '../../build/launcher/sbx-launcher'))));
    assert.throws(() => fs.openSync(`/proc/${pid}/exe`, 'r+'), /ETXTBSY|EACCES|EPERM/);
  }
});

row('i', 'ESC and CR of names never reach a message or a log raw', async context => {
  const raw = /[\u0000-\u0008\u000b-\u001f\u007f\u009b]/;
  const logged = [];
  const { sandbox, files, sdk } = context;
  const log = (...args) => logged.push(args.map(String).join(' '));
  sandbox.__setLogger?.({ debug: log, info: log, warn: log, error: log, trackException: log });
  const evil = 'x\u001b[2J\r\u009bx';
  const failed = [
    () => files.readFile(evil), () => files.writeFile(`${evil}/a`, 'x').then(() => files.writeFile(evil, 'x')), () => files.deleteFile(`no/${evil}`),
    () => files.moveFile(evil, `no/${evil}/x`), () => files.copyFile(`no${evil}`, 'x'), () => files.readdir(`no${evil}`), () => files.stat(`no${evil}`),
    () => sdk.files.text(`no${evil}`), () => sdk.run('true', { cwd: `no${evil}` }),
    () => sdk.snapshots.restore(evil), () => sdk.setNetworkPolicy([evil]), () => createSandbox({ provider: local(), id: evil }),
    () => local({ [evil]: 1 }), () => local({ isolation: evil }), () => local({ directory: `/no${evil}` , protect: [`../${evil}`] }),
    () => sandbox.getPortUrl(declared, evil),
  ];
  for (const [index, work] of failed.entries()) {
    const error = await Promise.resolve().then(work).then(() => undefined, reason => reason);
    if (error) assert.doesNotMatch(error.message, raw, `${index}: ${JSON.stringify(error.message)}`);
  }
  await files.rmdir(evil, { recursive: true }).catch(() => {});
  if ((await sandbox.executeCommand('command -v curl')).exitCode === 0) {
    await alone(context, {}, async one => {
      one.sandbox.__setLogger?.({ debug: log, info: log, warn: log, error: log, trackException: log });
      await one.sandbox.executeCommand("curl -sS \"http://a$(printf '\\033[2J\\r').test/\"; curl -sS http://plain.test/");
    });
  }
  await turn();
  for (const line of logged) assert.doesNotMatch(line, raw, JSON.stringify(line));
});

row('j', 'what else was tried outside', fails([
  'write secret', 'truncate', 'truncate by open', 'create outside', 'create in /tmp', 'create in /var/tmp', 'create in /dev/shm', 'rename in',
  'rename out', 'remove', 'make folder', 'change /usr', 'host name', 'cron', 'chmod', 'fchmodat', 'fchmodat2', 'chmod folder',
  'chmod by descriptor', 'chmod by link', 'fchmod', 'chown', 'lchown', 'fchown', 'fchownat empty', 'utimensat', 'futimens', 'utimes', 'setxattr',
  'times of what all may write', 'utime of what all may write', 'attribute of what all may write', 'fsetxattr', 'setxattrat', 'removexattr', 'lease', 'file flags', 'file_setattr', 'watch', 'existence', 'size and date',
], {
  full: ['create in /tmp', 'create in /var/tmp', 'create in /dev/shm', 'lease'], // of files that are its own, or read-only
  landlock: ['existence', 'size and date'],
}));

test('no row is missing', () => {
  const numbers = [...rows.keys()].filter(key => /^\d+$/.test(key)).map(Number);
  assert.deepEqual(numbers, Array.from({ length: 38 }, (_, i) => i + 1));
});

for (const kind of kinds) {
  describe(kind.name, () => {
    let context;

    before(async () => {
      const outside = await bait();
      const workspace = await open(kind);
      const { sandbox, filesystem: files } = workspace;
      const facts = sandbox.sandboxSdk.metadata;
      const tried = await attempts(workspace, outside);
      context = {
        kind, level: kind.isolation, outside, workspace, sandbox, files, sdk: sandbox.sandboxSdk, facts, tried, claimed: new Set(),
        hostPath: facts.hostPath ?? path.join(facts.folder, 'workspace'),
      };
    });
    after(async () => {
      await context.workspace.destroy();
      context.outside.close();
    });

    for (const [key, [name, body]] of rows) test(`${key}: ${name}`, t => body(context, t));

    test('each attempt belongs to a row', () => {
      const free = [...context.tried.keys()].filter(name => !context.claimed.has(name));
      assert.deepEqual(free, []);
    });
    test('the secret is as it was', () => {
      assert.equal(read(context.outside.secret), 'do-not-leak-me\n');
      assert.deepEqual(fs.readdirSync(context.outside.folder).sort(), ['secret', 'socket', 'writable']);
    });
  });
}
