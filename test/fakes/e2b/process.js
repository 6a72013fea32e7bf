// envd's process service: real processes, live subscribers, no replay.
import { existsSync, statSync } from 'node:fs';
import { systemPath, users } from '../machine.js';
import { fromBase64, RpcError, readTimeout, Stream } from './connect.js';

const signalNumbers = { SIGNAL_SIGKILL: 9, SIGNAL_SIGTERM: 15, 9: 9, 15: 15 };

// Go's words for the signals that end processes.
const signalWords = {
  1: 'hangup',
  2: 'interrupt',
  3: 'quit',
  4: 'illegal instruction',
  5: 'trace/breakpoint trap',
  6: 'aborted',
  7: 'bus error',
  8: 'floating point exception',
  9: 'killed',
  10: 'user defined signal 1',
  11: 'segmentation fault',
  12: 'user defined signal 2',
  13: 'broken pipe',
  14: 'alarm clock',
  15: 'terminated',
};

/** An EndEvent in proto JSON: default values are left out. */
function endEvent(result) {
  if (result.signal) {
    const word = signalWords[result.signal] ?? `signal ${result.signal}`;
    const status = `signal: ${word}${result.dumped ? ' (core dumped)' : ''}`;
    return { exitCode: -1, status, error: status };
  }
  const status = `exit status ${result.code}`;
  if (result.code === 0) return { exited: true, status };
  return { exitCode: result.code, exited: true, status, error: status };
}

/** One process and those who listen to it. */
class Running {
  #slow = new Set();
  #open;

  constructor(owner, job, config, { tag, pty }) {
    this.owner = owner;
    this.job = job;
    this.config = config;
    this.tag = tag;
    this.pty = pty;
    this.#open = pty ? 1 : 2;
    this.listeners = new Set();
    job.on('output', (stream, data) => this.#output(stream, data));
    job.on('eof', () => this.#open-- && this.#settle());
    job.on('exit', () => this.#settle());
    job.on('end', () => this.#gone());
  }

  get pid() {
    return this.job.pid;
  }

  #output(stream, data) {
    for (const listener of this.listeners) {
      const fast = listener.send({ event: { data: { [stream]: data.toString('base64') } } });
      if (fast || this.#slow.has(listener)) continue;
      this.#slow.add(listener);
      listener.drained(() => this.#faster(listener));
    }
    this.#flow();
  }

  #faster(listener) {
    this.#slow.delete(listener);
    this.#flow();
  }

  // A slow reader holds the process; with nobody there an old envd does too.
  #flow() {
    const unheard = this.listeners.size === 0 && !this.owner.sandbox.has('0.5.19');
    this.job.hold(this.#slow.size > 0 || unheard);
  }

  add(listener) {
    this.listeners.add(listener);
    listener.onClose.push(() => {
      this.listeners.delete(listener);
      this.#faster(listener);
    });
    this.#flow();
  }

  signal(number) {
    this.signalled = true;
    this.job.kill(number);
    this.#flow();
  }

  #settle() {
    if (!this.job.result || this.finished) return;
    if (this.#open > 0 && !this.signalled) return;
    this.finish();
  }

  finish() {
    this.finished = true;
    this.end = endEvent(this.job.result);
    this.owner.ended(this);
    for (const listener of [...this.listeners]) {
      listener.send({ event: { end: this.end } });
      listener.end();
    }
    if (this.signalled) this.job.release();
  }

  #gone() {
    if (this.job.result) return this.finished || this.finish();
    this.finished = true;
    this.owner.ended(this);
    for (const listener of [...this.listeners]) listener.end(new RpcError('unavailable', 'the machine is gone'));
  }
}

/** The processes that envd of one sandbox started. */
export class Processes {
  constructor(sandbox) {
    this.sandbox = sandbox;
    this.running = new Map();
    this.recent = new Map();
  }

  /** The machine rebooted or ended. */
  forget() {
    for (const process of this.running.values()) process.job.release();
    this.running.clear();
    this.recent.clear();
  }

  ended(process) {
    if (this.running.get(process.pid) === process) this.running.delete(process.pid);
    if (!this.sandbox.has('0.6.12')) return;
    this.recent.set(process.pid, process);
    setTimeout(() => this.recent.delete(process.pid), 30_000).unref();
  }

  #select(selector) {
    const { pid, tag } = selector ?? {};
    if (pid !== undefined) {
      const found = this.running.get(Number(pid));
      if (!found) throw new RpcError('not_found', `process with pid ${pid} not found`);
      return found;
    }
    // The service looks at the first tagged process only.
    const first = [...this.running.values()].find((one) => one.tag !== undefined);
    if (tag === undefined || first?.tag !== tag) throw new RpcError('not_found', `process with tag ${tag} not found`);
    return first;
  }

  #environment(user, envs) {
    const { sandbox } = this;
    return {
      PATH: systemPath,
      HOME: users[user].home,
      USER: user,
      LOGNAME: user,
      E2B_SANDBOX: 'true',
      E2B_SANDBOX_ID: sandbox.id,
      E2B_TEMPLATE_ID: sandbox.templateID,
      ...sandbox.envVars,
      ...envs,
    };
  }

  #folder(user, cwd) {
    const { sandbox } = this;
    const { home } = users[user];
    if (!cwd) return home;
    const wanted = cwd === '~' ? home : cwd.startsWith('~/') ? `${home}/${cwd.slice(2)}` : cwd;
    const full = wanted.startsWith('/') ? wanted : `${home}/${wanted}`;
    const { host } = sandbox.machine.resolve(full);
    if (existsSync(host) && statSync(host).isDirectory()) return full;
    if (sandbox.has('0.2.8')) throw new RpcError('invalid_argument', `cwd '${cwd}' does not exist`);
    throw new RpcError('internal', `error starting process '${cwd}': chdir ${full}: no such file or directory`);
  }

  #input(message) {
    const { size } = message.pty ?? {};
    if (message.pty) return `pty:${size?.cols ?? 0}x${size?.rows ?? 0}`;
    return message.stdin === false && this.sandbox.has('0.3.0') ? 'null' : 'pipe';
  }

  async #launch(message, user) {
    const config = message.process;
    if (!config?.cmd) throw new RpcError('invalid_argument', 'process.cmd is missing');
    const job = this.sandbox.machine.run({
      uid: users[user].uid,
      cwd: this.#folder(user, config.cwd),
      stdin: this.#input(message),
      argv: [config.cmd, ...(config.args ?? [])],
      env: this.#environment(user, config.envs),
    });
    const process = new Running(this, job, config, { tag: message.tag, pty: Boolean(message.pty) });
    process.hasInput = this.#input(message) !== 'null';
    return process;
  }

  /** Streams keepalives while nothing else is sent. */
  #keepAlive(stream, headers) {
    const text = headers['keepalive-ping-interval'];
    const seconds = text === undefined ? 90 : Number(text);
    if (text !== undefined && !(seconds > 0)) return stream.cut(); // the handler crashes
    const timer = setInterval(
      () => stream.send({ event: { keepalive: {} } }),
      this.sandbox.store.options.keepaliveMs ?? Math.min(seconds * 1000, 2 ** 31 - 1),
    ).unref();
    stream.onClose.push(() => clearInterval(timer));
  }

  async start(answer, message, user, headers) {
    const { sandbox } = this;
    const stream = new Stream(answer, sandbox.store.options);
    sandbox.hold(stream);
    const timeout = readTimeout(headers);
    const process = await this.#launch(message, user);
    process.add({
      send: (value) => (process.announced ? stream.send(value) : process.early.push(value)),
      drained: (then) => stream.drained(then),
      end: (error) => (process.announced ? stream.end(error) : (process.earlyEnd = { error })),
      onClose: stream.onClose,
    });
    process.early = [];
    await process.job.started;
    if (!process.finished) this.running.set(process.pid, process);
    stream.send({ event: { start: { pid: process.pid } } });
    process.announced = true;
    for (const value of process.early) stream.send(value);
    if (process.earlyEnd) return stream.end(process.earlyEnd.error);
    this.#keepAlive(stream, headers);
    if (timeout !== undefined) this.#limit(process, stream, timeout);
  }

  // The limit is the process's, whoever listens; only the leader dies.
  #limit(process, stream, timeout) {
    const timer = setTimeout(() => {
      if (process.finished) return;
      process.job.kill(9);
      stream.end(new RpcError('deadline_exceeded', 'context deadline exceeded'));
    }, timeout).unref();
    process.job.on('end', () => clearTimeout(timer));
  }

  connect(answer, message, headers) {
    const { sandbox } = this;
    const stream = new Stream(answer, sandbox.store.options);
    sandbox.hold(stream);
    const timeout = readTimeout(headers);
    const old = this.recent.get(Number(message.process?.pid));
    if (old && !this.running.has(old.pid)) {
      stream.send({ event: { start: { pid: old.pid } } });
      stream.send({ event: { end: old.end } });
      return stream.end();
    }
    const process = this.#select(message.process);
    stream.send({ event: { start: { pid: process.pid } } });
    process.add(stream);
    this.#keepAlive(stream, headers);
    if (timeout !== undefined) this.#bound(stream, timeout);
  }

  #bound(stream, timeout) {
    const timer = setTimeout(
      () => stream.end(new RpcError('deadline_exceeded', 'context deadline exceeded')),
      timeout,
    ).unref();
    stream.onClose.push(() => clearTimeout(timer));
  }

  list() {
    const processes = [...this.running.values()].map((one) => ({
      config: { cmd: one.config.cmd, args: one.config.args, envs: one.config.envs, cwd: one.config.cwd },
      pid: one.pid,
      tag: one.tag,
    }));
    return processes.length ? { processes } : {};
  }

  async #feed(process, input) {
    const kind = input?.pty !== undefined ? 'pty' : 'stdin';
    if (kind === 'pty' && !process.pty) throw new RpcError('internal', 'error writing to tty: tty not assigned to process');
    if (kind === 'stdin' && process.pty) throw new RpcError('internal', 'error writing to stdin: tty assigned to process');
    if (!process.hasInput || process.inputClosed)
      throw new RpcError('internal', 'error writing to stdin: stdin not enabled or closed');
    const problem = await process.job.write(fromBase64(input?.[kind] ?? ''));
    if (problem) throw new RpcError('internal', `error writing to stdin: write |1: ${problem.toLowerCase()}`);
  }

  async sendInput(message) {
    await this.#feed(this.#select(message.process), message.input);
    return {};
  }

  /** The messages of a client stream: a start, then data in order. */
  async streamInput(messages) {
    let process;
    for (const message of messages) {
      if (message.start) process = this.#select(message.start.process);
      else if (message.data && process) await this.#feed(process, message.data.input);
      else if (message.data) throw new RpcError('invalid_argument', 'the first message must be a start');
    }
    return {};
  }

  async closeStdin(message) {
    const process = this.#select(message.process);
    if (process.pty) throw new RpcError('unknown', 'cannot close the stdin of a process with a tty');
    process.inputClosed = true;
    await process.job.closeInput();
    return {};
  }

  sendSignal(message) {
    const process = this.#select(message.process);
    const number = signalNumbers[message.signal];
    if (!number) throw new RpcError('unimplemented', `invalid signal: ${message.signal}`);
    process.signal(number);
    return {};
  }

  update(message) {
    const process = this.#select(message.process);
    if (message.pty && !process.pty) throw new RpcError('internal', 'error resizing tty: tty not assigned to process');
    if (message.pty) process.job.resize(message.pty.size?.cols ?? 0, message.pty.size?.rows ?? 0);
    return {};
  }
}
