// The machine behind a fake service: a real directory as its root, real
// processes in namespaces of their own (test/helpers/fake-machine.c).
import { execFileSync, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import * as fs from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { plainEnv } from '../helpers/child-env.js';
import { makeFolder, removeFolder } from './temporary.js';

const source = fileURLToPath(new URL('../helpers/fake-machine.c', import.meta.url));
let program = fileURLToPath(new URL('../../build/test/fake-machine', import.meta.url));
const firstUid = 1800000000;
const root = process.getuid() === 0;
const own = new Set(['home', 'root', 'tmp', 'run', 'mnt', 'media', 'workspace', 'lost+found', 'code']);
const special = new Set(['proc', 'dev']);
const path0 = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export const users = {
  root: { uid: 0, home: '/root' },
  user: { uid: 1000, home: '/home/user' },
};

export const systemPath = path0;

function compile(to) {
  const flags = ['-std=gnu11', '-D_GNU_SOURCE', '-O1', '-static'];
  const fresh = `${to}.${process.pid}`;
  fs.mkdirSync(path.dirname(to), { recursive: true });
  execFileSync('cc', [...flags, '-o', fresh, source, '-lutil'], { stdio: 'pipe', env: plainEnv() });
  fs.renameSync(fresh, to);
}

function writable(folder) {
  try {
    fs.accessSync(folder, fs.constants.W_OK);
    return true;
  } catch (error) {
    return error.code === 'ENOENT' && writable(path.dirname(folder));
  }
}

/** Compiles the helper when it is missing or older than its source. */
export function buildMachine() {
  const built = fs.statSync(program, { throwIfNoEntry: false });
  if (built && built.mtimeMs > fs.statSync(source).mtimeMs) return;
  // Another user's tree: this process has a helper of its own.
  if (!writable(path.dirname(program))) program = path.join(makeFolder('fake-helper-'), 'fake-machine');
  compile(program);
}

function hostOwner(uid) {
  return root ? firstUid + uid : process.getuid();
}

/** Gives a path to a user of the machine; a plain user's machine has one id. */
export function chown(host, uid) {
  if (root) fs.lchownSync(host, hostOwner(uid), hostOwner(uid));
}

/** Name or number of an id that `stat` of the host reported. */
export function ownerName(id) {
  const inner = root ? id - firstUid : id === process.getuid() || id === process.getgid() ? 1000 : id;
  if (id === 0 || inner === 0) return 'root';
  return inner === 1000 ? 'user' : String(inner < 0 ? id : inner);
}

function hostFolders() {
  const folders = [];
  const links = [];
  for (const entry of fs.readdirSync('/', { withFileTypes: true })) {
    if (own.has(entry.name) || special.has(entry.name)) continue;
    if (entry.isSymbolicLink()) links.push([entry.name, fs.readlinkSync(`/${entry.name}`)]);
    else if (entry.isDirectory()) folders.push(entry.name);
  }
  return { folders, links };
}

/** One machine. `folder` holds its root and the few files of its own /etc. */
export class Machine {
  /** @param {{from?: string}} options `from`: the folder of a machine to copy. */
  constructor({ from } = {}) {
    buildMachine();
    this.folder = makeFolder('fake-machine-');
    this.root = path.join(this.folder, 'root');
    this.children = new Set();
    this.view = hostFolders();
    if (from) execFileSync('cp', ['-a', `${from}/.`, this.folder], { env: plainEnv() });
    else this.#layOut();
  }

  #makeFolder(name, mode, uid) {
    const host = path.join(this.root, name);
    fs.mkdirSync(host, { recursive: true });
    fs.chmodSync(host, mode);
    chown(host, uid);
  }

  #layOut() {
    const etc = path.join(this.folder, 'etc');
    fs.mkdirSync(etc);
    fs.writeFileSync(`${etc}/passwd`, 'root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n');
    fs.writeFileSync(`${etc}/group`, 'root:x:0:\ntty:x:5:\nuser:x:1000:\n');
    fs.writeFileSync(`${etc}/hosts`, '127.0.0.1 localhost e2b\n::1 localhost\n');
    fs.writeFileSync(`${etc}/hostname`, 'e2b\n');
    this.#makeFolder('', 0o755, 0);
    for (const name of [...this.view.folders, ...special]) this.#makeFolder(name, 0o755, 0);
    for (const [name, target] of this.view.links) fs.symlinkSync(target, path.join(this.root, name));
    for (const name of ['home', 'mnt', 'run']) this.#makeFolder(name, 0o755, 0);
    this.#makeFolder('root', 0o700, 0);
    this.#makeFolder('tmp', 0o1777, 0);
    this.#makeFolder('home/user', 0o755, 1000);
  }

  /** Starts PID 1; processes can run afterwards. */
  async boot() {
    const child = spawn(program, ['boot', this.root, ...this.view.folders], {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: {},
      detached: true,
    });
    this.init = child;
    let text = '';
    let errors = '';
    child.stderr.on('data', (data) => (errors += data));
    child.stdin.on('error', () => {});
    this.gone = once(child, 'close');
    await new Promise((resolve, reject) => {
      child.stdout.on('data', (data) => {
        text += data;
        if (text.includes('ready\n')) resolve();
      });
      child.once('error', reject);
      child.once('close', (code) => reject(new Error(`fake machine: it did not start (${code}): ${errors.trim()}`)));
    });
    child.removeAllListeners('close');
    this.gone = once(child, 'close');
    this.pid = Number(/pid (\d+)/.exec(text)[1]);
  }

  async #order(letter) {
    const answered = once(this.init.stdout, 'data');
    this.init.stdin.write(letter);
    await answered;
  }

  freeze() {
    return this.#order('f');
  }

  thaw() {
    return this.#order('t');
  }

  /** Ends every process; the files stay. */
  async halt() {
    if (!this.init) return;
    const { gone } = this;
    this.init.stdin.end('q');
    this.init = undefined;
    await gone;
    await Promise.all([...this.children].map((child) => this.#ended(child)));
  }

  // A helper ends by itself with its machine; one that hangs on a reader that
  // never comes is ended.
  async #ended(child) {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const closed = once(child, 'exit');
    child.kill('SIGKILL');
    await closed;
  }

  removeFolder() {
    removeFolder(this.folder);
  }

  async destroy() {
    await this.halt();
    await rm(this.folder, { recursive: true, force: true }).catch(() => {});
    this.removeFolder();
  }

  #helper(args, options) {
    const child = spawn(program, args, { env: {}, detached: true, ...options });
    this.children.add(child);
    child.once('exit', () => this.children.delete(child));
    child.once('error', () => this.children.delete(child));
    return child;
  }

  /** Starts a process; `stdin` is 'pipe', 'null' or 'pty:COLSxROWS'. */
  run({ uid, cwd, stdin, argv, env }) {
    const args = ['run', String(this.pid), String(uid), cwd, stdin, ...argv];
    return new Job(this.#helper(args, { env, stdio: ['ignore', 'ignore', 'pipe', 'pipe'] }));
  }

  /** A socket to a port inside, or null when nothing listens. */
  async dial(port) {
    const child = this.#helper(['dial', String(this.pid), String(port)], {
      stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
    });
    const socket = child.stdio[3];
    socket.on('error', () => {});
    const first = await Promise.race([once(socket, 'readable').then(() => socket.read(1)), once(child, 'exit')]);
    if (Buffer.isBuffer(first) && first[0] === 0x79) return socket;
    socket.destroy();
    return null;
  }

  /** Reports changes below a host folder: `event(kind, name)`; returns { ready, close }. */
  watch(host, recursive, event) {
    const child = this.#helper(['watch', host, recursive ? '1' : '0'], { stdio: ['pipe', 'pipe', 'inherit'] });
    child.stdin.on('error', () => {});
    let rest = '';
    const ready = new Promise((resolve) => {
      child.once('exit', resolve);
      child.stdout.setEncoding('utf8').on('data', (data) => {
        const lines = (rest + data).split('\0');
        rest = lines.pop();
        for (const line of lines) {
          if (line === 'START') resolve();
          else event(line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1));
        }
      });
    });
    return { ready, close: () => child.stdin.destroy() };
  }

  #isHost(inner) {
    const top = inner.split('/')[1];
    return this.view.folders.includes(top) || top === 'dev';
  }

  // Where a path of the machine, free of links, lies on the host.
  #toHost(inner) {
    if (/^\/etc\/(passwd|group|hosts|hostname|profile)$/.test(inner)) {
      const given = path.join(this.folder, inner);
      if (fs.existsSync(given)) return given;
    }
    if (inner.startsWith('/proc/') || inner === '/proc') return this.pid ? `/proc/${this.pid}/root${inner}` : inner;
    return this.#isHost(inner) ? inner : path.join(this.root, inner);
  }

  writable(inner) {
    return !this.#isHost(inner) && !inner.startsWith('/proc');
  }

  /**
   * Follows the links of an absolute path as the machine would.
   * -> { inner, host }; the last part is followed only with `last`.
   */
  resolve(wanted, { last = true } = {}) {
    let links = 0;
    let done = '/';
    const parts = wanted.split('/').filter((part) => part && part !== '.');
    while (parts.length) {
      const part = parts.shift();
      if (part === '..') {
        done = path.posix.dirname(done);
        continue;
      }
      const next = path.posix.join(done, part);
      const stat = fs.lstatSync(this.#toHost(next), { throwIfNoEntry: false });
      if (!stat?.isSymbolicLink() || (!parts.length && !last)) {
        done = next;
        continue;
      }
      if (++links > 40) throw Object.assign(new Error('too many links'), { code: 'ELOOP' });
      const target = fs.readlinkSync(this.#toHost(next));
      if (target.startsWith('/')) done = '/';
      parts.unshift(...target.split('/').filter((one) => one && one !== '.'));
    }
    return { inner: done, host: this.#toHost(done) };
  }
}

/**
 * A running process. Events: `stdout`, `stderr`, `pty` (Buffer), `eof`, `exit`
 * ({ code } or { signal, dumped }) and `end`, the helper's own end.
 */
export class Job extends EventEmitter {
  #child;
  #socket;
  #rest = Buffer.alloc(0);
  #inputs = Promise.resolve();
  #answer;
  #held = false;

  constructor(child) {
    super();
    this.#child = child;
    this.#socket = child.stdio[3];
    this.open = 0;
    let errors = '';
    child.stderr.on('data', (data) => (errors += data));
    this.#socket.on('error', () => {});
    this.#socket.on('data', (data) => this.#take(data));
    child.once('close', () => this.#close());
    this.started = new Promise((resolve, reject) => {
      this.once('started', resolve);
      child.once('error', reject);
      child.once('close', () => reject(new Error(`fake machine: ${errors.trim() || 'it is not running'}`)));
    });
    this.started.catch(() => {});
  }

  #close() {
    this.#answer?.('closed');
    this.closed = true;
    this.emit('end');
  }

  #take(data) {
    let rest = this.#rest.length ? Buffer.concat([this.#rest, data]) : data;
    while (rest.length >= 5 && rest.length >= 5 + rest.readUInt32BE(1)) {
      const end = 5 + rest.readUInt32BE(1);
      this.#frame(String.fromCharCode(rest[0]), rest.subarray(5, end));
      rest = rest.subarray(end);
    }
    this.#rest = rest;
  }

  #frame(kind, body) {
    const streams = { o: 'stdout', e: 'stderr', p: 'pty' };
    if (streams[kind]) this.emit('output', streams[kind], body);
    else if (kind === 's') this.emit('started', (this.pid = Number(body)));
    else if (kind === 'x') this.#exit(String(body));
    else if (kind === 'a') this.#answer?.();
    else if (kind === 'f') this.#answer?.(String(body));
    else if ('OEP'.includes(kind)) this.emit('eof', kind);
  }

  #exit(text) {
    const [how, number, dumped] = text.split(' ');
    this.result = how === 'exit' ? { code: Number(number) } : { signal: Number(number), dumped: dumped === '1' };
    this.emit('exit', this.result);
  }

  #send(kind, body = '') {
    const data = Buffer.from(body);
    const head = Buffer.alloc(5);
    head.write(kind);
    head.writeUInt32BE(data.length, 1);
    this.#socket.write(Buffer.concat([head, data]));
  }

  async #writeOne(data) {
    if (this.closed) return 'closed';
    const answered = new Promise((resolve) => (this.#answer = resolve));
    this.#send('i', data);
    const problem = await answered;
    this.#answer = undefined;
    return problem;
  }

  /** Resolves when the process's pipe took all; to the reason when it did not. */
  write(data) {
    const done = this.#inputs.then(() => this.#writeOne(data));
    this.#inputs = done;
    return done;
  }

  closeInput() {
    const done = this.#inputs.then(() => this.closed || this.#send('c'));
    this.#inputs = done;
    return done;
  }

  kill(signal) {
    if (!this.closed && !this.result) this.#send('k', String(signal));
  }

  resize(cols, rows) {
    if (!this.closed) this.#send('w', `${cols} ${rows}`);
  }

  /** Whether its output is left in its pipes; input and signals still go. */
  hold(held) {
    if (this.closed || held === this.#held) return;
    this.#held = held;
    this.#send(held ? 'h' : 'g');
  }

  /** Lets go of the pipes; what still runs goes on. */
  release() {
    this.#socket.destroy();
  }
}
