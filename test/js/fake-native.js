// A small stand-in for the addon: real processes in a real folder of the host,
// without isolation. For the shim's own tests only; with-fake.js puts it in place of the
// addon.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const inside = '/workspace';

function fail(code, message, operation, more) {
  return Object.assign(new Error(message), { code, operation, retryable: false }, more);
}

function relative(text) {
  const parts = [];
  for (const part of text.split('/')) {
    if (part === '' || part === '.') continue;
    if (part !== '..') parts.push(part);
    else if (parts.pop() === undefined) throw fail('EACCES', `${text} leads out of the workspace`, 'files.path');
  }
  const whole = `/${parts.join('/')}`;
  if (text.startsWith('/') && (whole === inside || whole.startsWith(`${inside}/`))) return whole.slice(inside.length + 1);
  return whole.slice(1);
}

const codes = { ENOENT: 'ENOENT', EEXIST: 'EEXIST', EISDIR: 'EISDIR', ENOTDIR: 'ENOTDIR', ENOTEMPTY: 'ENOTEMPTY' };

function statOf(file) {
  const st = fs.statSync(file);
  return {
    type: st.isDirectory() ? 2 : 1,
    size: st.size,
    mode: st.mode & 0o777,
    modifiedMs: Math.floor(st.mtimeMs),
    createdMs: Math.floor(st.birthtimeMs),
  };
}

function pack(entries) {
  const parts = entries.map(({ name, type, size }) => {
    const bytes = Buffer.from(name);
    const head = Buffer.alloc(20);
    head.writeUInt8(type, 0);
    head.writeUInt8(size === undefined ? 0 : 1, 2);
    head.writeUInt32LE(bytes.length, 4);
    head.writeBigUInt64LE(BigInt(size ?? 0), 12);
    return Buffer.concat([head, bytes]);
  });
  return { entries: Buffer.concat(parts), count: entries.length, more: false };
}

function listed(folder, deep, hidden, at = '') {
  const found = [];
  for (const entry of fs.readdirSync(path.join(folder, at), { withFileTypes: true })) {
    if (!hidden && entry.name.startsWith('.')) continue;
    const name = at ? `${at}/${entry.name}` : entry.name;
    const directory = entry.isDirectory();
    found.push({ name, type: directory ? 2 : 1, size: directory ? undefined : fs.statSync(path.join(folder, name)).size });
    if (directory && deep) found.push(...listed(folder, deep, hidden, name));
  }
  return found;
}

class FakeProcess {
  constructor(sandbox, spec, events) {
    this.kept = [[], []];
    this.lost = [0, 0];
    this.masks = [spec.listenStdout ?? 0, spec.listenStderr ?? 0];
    this.spec = spec;
    this.events = events;
    this.started = performance.now();
    this.sandbox = sandbox;
    const folder = sandbox.hostPath(spec.cwd);
    if (!fs.existsSync(folder)) return this.never(fail('not_found', `The working directory "${spec.cwd}" does not exist.`, 'spawn', { errno: 'ENOENT' }));
    if (sandbox.state !== 'running') return this.never(fail('unavailable', 'The sandbox is not running.', 'spawn'));
    const env = Object.fromEntries(spec.env.map(one => [one.slice(0, one.indexOf('=')), one.slice(one.indexOf('=') + 1)]));
    this.child = spawn(spec.argv[0], spec.argv.slice(1), {
      cwd: folder,
      env,
      detached: true,
      stdio: [spec.stdin ? 'pipe' : 'ignore', 'pipe', 'pipe'],
    });
    sandbox.children.add(this);
    this.child.on('error', () => this.settle({ exitCode: 127, signal: 0 }));
    this.child.on('spawn', () => events.onSpawn?.(this.child.pid));
    this.child.stdin?.on('error', () => {});
    for (const stream of [0, 1]) this.child.stdio[stream + 1].on('data', bytes => this.take(stream, bytes));
    this.child.on('close', (code, signal) =>
      this.settle({ exitCode: signal ? 128 + os.constants.signals[signal] : code, signal: signal ? 9 : 0 }));
    if (spec.timeout) this.timer = setTimeout(() => ((this.timedOut = true), this.kill()), spec.timeout);
  }

  never(error) {
    setImmediate(() => this.settle({ exitCode: -1, signal: 0, error }));
  }

  take(stream, bytes) {
    this.kept[stream].push(bytes);
    const limit = this.spec.retain ?? 1 << 20;
    let all = Buffer.concat(this.kept[stream]);
    if (all.length > limit) {
      this.lost[stream] += all.length - limit;
      all = all.subarray(all.length - limit);
    }
    this.kept[stream] = [all];
    if (this.masks[stream] & 2) this.events.onText(stream, bytes.toString());
    if (this.masks[stream] & 1) this.events.onBytes(stream, bytes);
  }

  settle(how) {
    if (this.settled) return;
    this.settled = true;
    clearTimeout(this.timer);
    this.sandbox.children.delete(this);
    const texts = this.spec.collect ? { stdout: this.output(0), stderr: this.output(1) } : {};
    this.events.onExit({
      killed: this.killed ?? false,
      timedOut: this.timedOut ?? false,
      durationMs: performance.now() - this.started,
      stdoutDropped: this.lost[0],
      stderrDropped: this.lost[1],
      ...texts,
      ...how,
      ...(this.timedOut ? { exitCode: 124 } : {}),
    });
  }

  kill() {
    try {
      process.kill(-this.child.pid, 'SIGKILL');
    } catch {}
  }

  end() {
    if (this.settled) return false;
    this.killed = true;
    this.kill();
    return true;
  }

  listen(stream, mask) {
    this.masks[stream] = mask;
  }

  pause(stream, paused) {
    this.child.stdio[stream + 1][paused ? 'pause' : 'resume']();
  }

  write(data) {
    return new Promise((resolve, reject) => this.child.stdin.write(data, error => (error ? reject(error) : resolve())));
  }

  closeStdin() {
    this.child.stdin.end();
  }

  output(stream) {
    return Buffer.concat(this.kept[stream]).toString();
  }

  dropped(stream) {
    return this.lost[stream];
  }
}

// Snapshots are copies beside the folders.
process.on('exit', () => {
  for (const copy of copies) fs.rmSync(copy, { recursive: true, force: true });
});
const copies = new Set();

class FakeStore {
  async create() {}

  facts() {
    return { path: 'store' };
  }

  async snapshot() {
    throw fail('unsupported', 'a fake has no layers', 'template');
  }
}

class FakeSandbox {
  epoch = 0;
  state = 'new';
  children = new Set();
  calls = [];

  constructor(options) {
    this.options = options;
    this.folder = options.directory ?? path.join(os.tmpdir(), `fake-${process.pid}-${Math.random().toString(36).slice(2)}`);
  }

  async find() {
    this.calls.push('find');
    return fs.existsSync(this.folder);
  }

  async create() {
    this.calls.push('create');
    if (fake.failCreate) throw fail('unavailable', 'The sandbox could not be set up', 'start', { step: 'user_namespace', errno: 'EPERM' });
    fs.mkdirSync(this.folder, { recursive: true });
    this.state = 'running';
    this.epoch++;
  }

  // 40: create, 44: seed
  async snapshot(verb, store, id) {
    const copy = path.join(os.tmpdir(), `fake-${process.pid}-${id}`);
    copies.add(copy);
    const options = { recursive: true, verbatimSymlinks: true };
    if (verb === 40) fs.cpSync(this.folder, copy, options);
    else if (verb === 44) fs.cpSync(copy, this.folder, options);
    return [{ id, bytes: 1, createdMs: 0 }];
  }

  useLayer() {
    return true;
  }

  async connect() {
    this.calls.push('connect');
    this.state = 'running';
    this.epoch++;
  }

  async stop() {
    this.calls.push('stop');
    for (const child of this.children) child.end();
    while (this.children.size > 0) await new Promise(resolve => setTimeout(resolve, 2));
    this.state = 'stopped';
  }

  async resume() {
    this.calls.push('resume');
    this.state = 'running';
    this.epoch++;
  }

  async destroy() {
    this.calls.push('destroy');
    if (this.state === 'running') await this.stop();
    this.state = 'destroyed';
    if (!this.options.directory) fs.rmSync(this.folder, { recursive: true, force: true });
  }

  async close() {
    this.calls.push('close');
  }

  place() {
    return { inside, host: this.options.directory ?? null };
  }

  facts() {
    return { level: 'full', network: 'deny', shell: '/bin/sh', path: process.env.PATH, home: '/tmp', degraded: fake.degraded ?? '' };
  }

  capabilities() {
    return [
      { name: 'files', mode: 'native' },
      { name: 'snapshots', mode: 'unsupported', reason: 'later' },
    ];
  }

  async expose(port) {
    if (this.state !== 'running') throw fail('unavailable', 'The sandbox is not started.', 'ports.expose');
    return { host: '127.0.0.1', port: port + 40000 };
  }

  setNetwork(hosts) {
    this.hosts = hosts;
  }

  onDenied(callback) {
    this.deny = callback;
  }

  hostPath(text) {
    if (text === inside || text.startsWith(`${inside}/`)) return this.folder + text.slice(inside.length);
    return text;
  }

  async file(scope, verb, text, options = {}) {
    const operation = 'files';
    const at = scope === 1 ? text : path.join(this.folder, relative(text));
    const { flags = 0 } = options;
    try {
      return this.run(verb, at, flags, options, text);
    } catch (error) {
      if (error.operation) throw error;
      if (codes[error.code]) throw fail(codes[error.code], error.message, operation);
      throw fail('EIO', error.message, operation);
    }
  }

  run(verb, at, flags, options) {
    switch (verb) {
      case 1:
        if (fs.statSync(at).isDirectory()) throw fail('EISDIR', 'is a folder', 'files');
        return options.text ? fs.readFileSync(at, 'utf8') : fs.readFileSync(at);
      case 2:
        return this.write(at, flags, options);
      case 3:
        fs.mkdirSync(path.dirname(at), { recursive: true });
        return fs.appendFileSync(at, options.data);
      case 4:
        if (fs.existsSync(at) && fs.statSync(at).isDirectory()) throw fail('EISDIR', 'is a folder', 'files');
        return fs.rmSync(at, { force: (flags & 4) !== 0 });
      case 5:
        return fs.cpSync(at, path.join(this.folder, relative(options.to)), { recursive: true });
      case 6:
        return fs.renameSync(at, path.join(this.folder, relative(options.to)));
      case 7:
        fs.mkdirSync(at, { recursive: (flags & 1) !== 0 });
        return undefined;
      case 8:
        return this.rmdir(at, flags);
      case 9:
        return pack(listed(this.existing(at), (flags & 8) !== 0, true));
      case 10:
        return fs.existsSync(at);
      case 11:
        return statOf(at);
      case 12:
        return path.relative(fs.realpathSync(this.folder), fs.realpathSync(at));
      case 13:
        return pack(listed(this.existing(at), true, (flags & 16) !== 0));
      default:
        throw fail('unsupported', `verb ${verb}`, 'files');
    }
  }

  existing(at) {
    if (!fs.existsSync(at)) throw fail('ENOENT_DIR', 'no such folder', 'files');
    if (!fs.statSync(at).isDirectory()) throw fail('ENOTDIR', 'no folder', 'files');
    return at;
  }

  write(at, flags, options) {
    if (options.expectedMtime !== undefined && fs.existsSync(at)) {
      const { modifiedMs } = statOf(at);
      if (modifiedMs !== options.expectedMtime) throw fail('ESTALE', 'changed', 'files', { number: modifiedMs });
    }
    if (flags & 1) fs.mkdirSync(path.dirname(at), { recursive: true });
    else if (!fs.existsSync(path.dirname(at))) throw fail('ENOENT_DIR', 'The folder does not exist', 'files');
    fs.writeFileSync(at, options.data, { flag: flags & 2 ? 'wx' : 'w', mode: options.mode });
    if (options.mode) fs.chmodSync(at, options.mode);
    return statOf(at);
  }

  rmdir(at, flags) {
    if (!fs.existsSync(at)) {
      if (flags & 4) return undefined;
      throw fail('ENOENT_DIR', 'no such folder', 'files');
    }
    if (flags & 8) return fs.rmSync(at, { recursive: true });
    return fs.rmdirSync(at);
  }

  spawn(spec, events) {
    fake.specs.push(spec);
    return new FakeProcess(this, spec, events);
  }
}

/** What tests look at and change. */
export const fake = { opened: [], specs: [], failCreate: false, degraded: undefined };

export function open(provider, options) {
  if (options.directory === '/etc/passwd') {
    throw fail('invalid_input', 'directory "/etc/passwd" is a file; name a folder', 'open');
  }
  if (provider === 'local-store') return new FakeStore();
  const sandbox = new FakeSandbox(options);
  fake.opened.push(sandbox);
  return sandbox;
}

export function keys(bytes, ranges) {
  return Array.from({ length: ranges.length / 2 }, (_, i) => bytes.utf8Slice(ranges[2 * i], ranges[2 * i + 1]));
}

export function mime(text) {
  return { '.png': 'image/png', '.txt': 'text/plain' }[path.extname(text)];
}
