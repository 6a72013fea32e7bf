// The table of README.md that says what each level guarantees, cell by cell: each
// row names attempts, each cell means an outcome of theirs.
import '../helpers/private-mounts.js';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { attempts, bait, declared, kinds, open, root } from '../helpers/attempts.js';
import { until } from '../helpers/workspace.js';

const readme = fs.readFileSync(path.join(import.meta.dirname, '../../README.md'), 'utf8');

/** [[guarantee, {full, landlock}]] as README.md has them. */
function promised() {
  const [, table] = /### What each level guarantees\n[^]*?\n(\| \| `full` \| `landlock` \|\n\|---[^\n]*\n(?:\|[^\n]*\n)+)/.exec(readme);
  return table
    .trim()
    .split('\n')
    .slice(2)
    .map(line => line.split('|').slice(1, -1).map(cell => cell.trim()))
    .map(([what, full, landlock]) => [what, { full, landlock }]);
}

const absent = ['ENOENT', 'ESRCH', 'EBADF', 'ECONNREFUSED', 'ENXIO', 'EACCES'];
const outcomes = {
  // What is not there cannot be told from what is, where the way to it is closed.
  absent: answer => absent.includes(answer),
  refused: answer => answer !== 'worked',
  works: answer => answer === 'worked',
};

const of = (...whats) => ['host', 'launcher'].flatMap(who => whats.map(what => `${what} of ${who}`));
const ofHost = (...whats) => whats.map(what => `${what} of host`);

async function sh(workspace, line) {
  const { stdout, stderr, exitCode } = await workspace.sandbox.executeCommand(line);
  assert.equal(exitCode, 0, `${line}: ${stderr}`);
  return stdout.trim();
}

const seen = ofHost('environment', 'memory', 'maps', 'program', 'root', 'open files', 'folder', 'descriptor');
const ruled = ofHost(
  'prlimit', 'affinity', 'priority', 'io priority', 'scheduler', 'scheduler attributes', 'ptrace', 'process_vm_readv',
  'process_vm_writev', 'pidfd_getfd', 'comparison', 'pages', 'madvise', 'name', 'out-of-memory score', 'timer slack', 'namespace',
);
const signals = ofHost('signal', 'thread signal', 'group signal', 'queued signal', 'pidfd signal').concat(
  'owner of a descriptor host', 'owner by ioctl host',
);
const contents = ['read secret', 'list outside', 'symbolic link', 'read by ../..', 'read by /proc/self/root', 'read by root of host', 'list /root', 'shadow'];
const changes = [
  'write secret', 'truncate', 'truncate by open', 'create outside', 'hard link', 'hard link by descriptor', 'rename in', 'rename out',
  'remove', 'make folder', 'change /usr', 'host name', 'cron', 'chmod', 'fchmodat', 'fchmodat2', 'chmod folder', 'chmod by descriptor',
  'chmod by link', 'fchmod', 'chown', 'lchown', 'fchown', 'fchownat empty', 'utimensat', 'futimens', 'utimes', 'times of what all may write',
  'utime of what all may write', 'attribute of what all may write', 'setxattr', 'fsetxattr',
  'setxattrat', 'removexattr', 'file flags', 'file_setattr', 'open by handle', 'sysctl', 'core_pattern', 'transparent huge pages',
  'control group', 'hostname by sysctl',
];
const queues = ['shmget', 'semget', 'msgget', 'mq_open'];
const rights = [
  'privileges', 'user 0', 'groups', 'hard link of a set-id program', 'unshare', 'clone', 'clone3', 'setns', 'setns of PID 1', 'mount',
  'remount', 'bind', 'umount', 'pivot_root', 'open_tree', 'move_mount', 'fsopen', 'fspick', 'mount_setattr', 'open_tree_attr', 'chroot',
  'keyctl', 'add_key', 'io_uring', 'bpf', 'perf', 'userfaultfd', 'module', 'kexec', 'block device', 'character device',
];

// guarantee: {cell: {outcome: [attempts]} or check(context)}
const meanings = {
  needs: {
    'user namespaces': ({ facts }) => assert.match(facts.mechanisms, /\bnamespaces\b.*\bseccomp\b/),
    'Linux 5.13 with Landlock and seccomp': ({ facts }) => {
      assert.match(facts.mechanisms, /landlock.*seccomp/);
      assert.ok(Number(facts.landlockAbi) >= 1);
    },
  },
  'contents of files outside workspace, `$HOME`, `$TMPDIR`': {
    'only the read-only system is there': { absent: contents },
    'only the read-only system can be opened': { refused: contents },
  },
  'names, sizes and dates of other files': {
    'not there': { absent: ['existence', 'size and date', 'list outside'] },
    'can be asked for by path, folders cannot be listed': { works: ['existence', 'size and date'], refused: ['list outside'] },
  },
  'changing anything outside: writing, removing, linking, modes, owners, times, attributes': { no: { refused: changes } },
  'the workspace for commands': {
    '`/workspace`': async ({ workspace }) => assert.equal(await sh(workspace, 'pwd'), '/workspace'),
    'its real path; file tools take both spellings': async ({ workspace, facts }) => {
      assert.equal(await sh(workspace, 'pwd'), fs.realpathSync(facts.hostPath));
      await sh(workspace, 'echo spelled > spelled');
      for (const name of ['spelled', '/workspace/spelled', `${facts.hostPath}/spelled`]) {
        assert.equal(await workspace.filesystem.readFile(name, { encoding: 'utf8' }), 'spelled\n', name);
      }
    },
  },
  '`/tmp`, `/dev/shm`': {
    'the session\'s own': { works: ['create in /tmp', 'create in /var/tmp', 'create in /dev/shm'] },
    'not writable: `$TMPDIR`; named semaphores and shared memory of C libraries lie there as well': async ({ workspace, tried }) => {
      for (const at of ['/tmp', '/var/tmp', '/dev/shm']) assert.notEqual(tried.get(`create in ${at}`), 'worked');
      await sh(workspace, 'echo x > "$TMPDIR/x" && cat "$TMPDIR/x"');
      const python = 'from multiprocessing import shared_memory as s, Lock; m = s.SharedMemory(create=True, size=9); Lock(); m.close(); m.unlink()';
      await sh(workspace, `! command -v python3 >/dev/null || python3 -c '${python}'`);
    },
  },
  'processes of the machine': {
    'not there': { absent: [...seen, 'host in the process list', 'command line of host', 'statistics of host'], refused: ruled },
    'process list, command lines and statistics visible; environment, memory, open files, signals, ptrace, limits and scheduling refused': {
      works: ['host in the process list', 'command line of host', 'statistics of host'],
      refused: [...seen, ...ruled, ...signals],
    },
  },
  signals: {
    'inside only': async ({ workspace, tried }) => {
      for (const name of signals) assert.notEqual(tried.get(name), 'worked', name);
      assert.equal(await sh(workspace, 'sleep 100 & kill $!; wait $!; echo $?'), '143');
    },
  },
  'network `"deny"`': {
    'own loopback only': { refused: ['tcp', 'tcp to ::1', 'tcp fast open', 'mptcp', 'udp to host', 'metadata'], works: ['bind any', 'udp'] },
    'TCP to and on the declared `ports` only, of any host (Linux 6.7; before: no network sockets); no UDP; the machine\'s addresses and connections can be listed': async ({ workspace, tried, facts, port }) => {
      for (const name of ['tcp', 'tcp to ::1', 'tcp fast open', 'mptcp', 'udp to host', 'metadata', 'udp', 'bind any', 'listen without bind']) {
        assert.notEqual(tried.get(name), 'worked', name);
      }
      const code = `net.createServer().on('error', e => console.log(e.code)).listen(${declared}, function () { console.log('up'); this.close(); })`;
      const { stdout } = await workspace.sandbox.executeCommand(`"${process.execPath}" -e "${code}"`);
      if (stdout) assert.equal(stdout, Number(facts.landlockAbi) >= 4 ? 'up\n' : 'EACCES\n');
      const listener = `:${port.toString(16).toUpperCase().padStart(4, '0')} 00000000:0000 0A`;
      assert.ok((await sh(workspace, 'cat /proc/net/tcp')).includes(listener));
    },
  },
  'Unix sockets of the machine, vsock, raw, packet': {
    no: { refused: ['unix socket', 'abstract socket', 'unix datagram', 'vsock', 'raw', 'packet', 'alg', 'xdp', 'netlink audit'] },
    'no; no Unix sockets with a name inside either': async ({ workspace, tried }) => {
      for (const name of ['unix socket', 'abstract socket', 'unix datagram', 'vsock', 'raw', 'packet', 'alg', 'xdp', 'netlink audit']) {
        assert.notEqual(tried.get(name), 'worked', name);
      }
      const { exitCode } = await workspace.sandbox.executeCommand('python3 -c "import socket; socket.socket(socket.AF_UNIX)"');
      assert.notEqual(exitCode, 0);
    },
  },
  'System V memory and semaphores, message queues': { own: { works: queues }, none: { refused: queues } },
  'privileges, set-id programs, namespaces, mounts, keyring, io_uring, bpf': { no: { refused: rights } },
  '`limits.processes`': {
    'per session': ({ facts }) => assert.equal(facts['limits.processes'], '500'),
    'per session as root, else all of this user\'s processes count': ({ facts }) => {
      const own = facts.uidMode === 'range';
      // The kernel counts by user, and never holds root to it.
      assert.equal(facts['limits.processes'], own || !root ? '500' : undefined);
      assert.equal(/limits\.processes/.test(facts.degraded), !own);
    },
  },
  'everything ends with the session': {
    yes: async ({ workspace }) => {
      const mark = `mark-${process.pid}`;
      const marked = () => fs.readdirSync('/proc').filter(pid => /^\d+$/.test(pid) && commandLine(pid).includes(mark));
      await sh(workspace, `(setsid sh -c "trap '' TERM HUP INT; : ${mark}; sleep 600; sleep 600" >/dev/null 2>&1 &)`);
      await until(() => marked().length > 0);
      await workspace.destroy();
      assert.deepEqual(marked(), []);
    },
  },
};

function commandLine(pid) {
  try {
    return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

test('each row of the table is checked, and no other', () => {
  assert.deepEqual(promised().map(([what]) => what), Object.keys(meanings));
});

for (const kind of kinds) {
  describe(kind.name, () => {
    let context;
    let outside;

    before(async () => {
      outside = await bait();
      const workspace = await open(kind, { limits: { processes: 500 } });
      const tried = await attempts(workspace, outside);
      context = { workspace, tried, port: outside.port, facts: workspace.sandbox.sandboxSdk.metadata };
    });
    after(async () => {
      await context?.workspace.destroy();
      outside.close();
    });

    for (const [what, cells] of promised()) {
      const cell = cells[kind.isolation];
      test(`${what}: ${cell}`, async () => {
        const meaning = meanings[what]?.[cell];
        assert.ok(meaning, `no test knows what "${cell}" means for "${what}"`);
        if (typeof meaning === 'function') return meaning(context);
        for (const [outcome, names] of Object.entries(meaning)) {
          for (const name of names) {
            const answer = context.tried.get(name);
            assert.ok(answer !== undefined && outcomes[outcome](answer), `${name} must be ${outcome}: ${answer}`);
          }
        }
      });
    }
  });
}
