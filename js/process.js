// A running command as both surfaces use it, and the handle of the normalised one.
import { constants } from 'node:os';

import { endNote, guard, handled, outcomeOf, wasKilled } from './command.js';
import { fromNative, invalid, isSandboxError, SandboxError } from './errors.js';
import { listen } from './native.js';
import { checkNames, checkObject, show } from './options.js';
import { checkPiece } from './values.js';

const STDOUT = 0;
const STDERR = 1;

function checkSide(value, name) {
  if (Number.isInteger(value) && value >= 1 && value <= 65535) return value;
  throw invalid(`${name} must be an integer from 1 to 65535, not ${show(value)}`);
}

/** { cols, rows } of the option `pty`, or undefined for no terminal. */
export function checkPty(value) {
  if (value === undefined || value === false) return undefined;
  const { cols = 80, rows = 24, ...rest } = value === true ? {} : checkObject(value, 'pty');
  checkNames(rest, [], 'pty: { cols, rows }');
  return { cols: checkSide(cols, 'pty.cols'), rows: checkSide(rows, 'pty.rows') };
}

export function checkSize(cols, rows) {
  checkSide(cols, 'cols');
  checkSide(rows, 'rows');
}

let unborn = 0;

/** One process of a lease: its native object, its listeners and its end. */
export class Child {
  pid;
  exit; // the ExitResult, once there is one
  inputFailure; // {error} of the stream that stdin was fed from
  #listeners = [new Set(), new Set()];
  #masks = [0, 0];
  #held;
  #texts = [undefined, undefined]; // of an ended process
  #stdinEnded = false;
  #epoch;

  /**
   * `spec` is a SpawnSpec without listening; `options` are onStdout, onStderr
   * and report, which gets what they throw, and attach: the pid of a command that
   * goes on, whose spec has no argv. Throws for a bad argument.
   */
  constructor(lease, spec, options) {
    this.lease = lease;
    this.spec = spec;
    this.report = options.report;
    if (options.onStdout) this.#listeners[STDOUT].add(guard(options.onStdout, this.report));
    if (options.onStderr) this.#listeners[STDERR].add(guard(options.onStderr, this.report));
    this.#masks = this.#listeners.map(set => (set.size > 0 ? listen.TEXT : 0));
    spec.listenStdout = this.#masks[STDOUT];
    spec.listenStderr = this.#masks[STDERR];
    // Callbacks often use the handle that start() is about to return.
    if (spec.listenStdout || spec.listenStderr) this.#held = [];
    this.started = new Promise(resolve => (this.resolveStarted = resolve));
    this.exited = new Promise(resolve => (this.resolveExited = resolve));
    this.#epoch = lease.session.epoch;
    this.process =
      options.attach === undefined
        ? lease.native.spawn(spec, this.#events())
        : lease.native.attach(options.attach, spec, this.#events());
    lease.processes.add(this);
  }

  #events() {
    return {
      onSpawn: pid => this.#begin(String(pid)),
      onText: (stream, text) => this.#soon(() => this.#emit(stream, text)),
      onBytes: (stream, bytes) => this.onBytes?.(stream, bytes),
      onExit: result => {
        this.lease.processes.delete(this);
        if (result.error && this.#isCut(result)) return this.#soon(() => this.#finish(result));
        if (result.error) return this.#finish(result);
        // A program that could not be run ends without ever having had a pid.
        if (this.pid === undefined) this.#begin(`none-${++unborn}`);
        this.#soon(() => this.#finish(result));
      },
    };
  }

  // The sandbox went away, or out of reach, while it ran: it counts as killed.
  #isCut(result) {
    const { error } = result;
    if (!error.ran || this.pid === undefined) return false;
    Object.assign(result, { exitCode: 137, killed: true, reason: result.reason ?? error.message });
    this.lease.noteError(error, this.#epoch);
    return true;
  }

  #begin(pid) {
    this.pid = pid;
    this.resolveStarted();
    if (this.#held) setImmediate(() => this.#release());
  }

  #soon(event) {
    if (this.#held) this.#held.push(event);
    else event();
  }

  #release() {
    const held = this.#held;
    this.#held = undefined;
    for (const event of held ?? []) event();
  }

  #emit(stream, text) {
    for (const listener of this.#listeners[stream]) listener(text);
  }

  #finish(result) {
    const note = endNote(result, this.spec.timeout);
    if (note) this.#emit(STDERR, note);
    this.exit = result;
    this.onEnd?.();
    this.resolveStarted();
    this.resolveExited(result);
  }

  get killed() {
    const { exit } = this;
    return exit !== undefined && wasKilled(exit);
  }

  /** Adds a listener for text; the result removes it. */
  listen(stream, callback) {
    if (!callback || this.exit) return undefined;
    const listener = guard(callback, this.report);
    this.#listeners[stream].add(listener);
    this.#update(stream);
    return () => {
      this.#listeners[stream].delete(listener);
      this.#update(stream);
    };
  }

  /** Whether onBytes gets the bytes of the stream. */
  listenBytes(stream, wanted) {
    this.bytesWanted ??= [false, false];
    this.bytesWanted[stream] = wanted;
    this.#update(stream);
  }

  #update(stream) {
    const text = this.#listeners[stream].size > 0 ? listen.TEXT : 0;
    const mask = text | (this.bytesWanted?.[stream] ? listen.BYTES : 0);
    if (this.exit || mask === this.#masks[stream]) return;
    this.#masks[stream] = mask;
    this.process.listen(stream, mask);
  }

  /** What is kept of the stream. */
  text(stream) {
    if (!this.exit) return this.process.output(stream);
    return (this.#texts[stream] ??= this.process.output(stream) + this.#note(stream));
  }

  /** Whether text of the stream is listened to. */
  isHeard(stream) {
    return this.#listeners[stream].size > 0;
  }

  #note(stream) {
    return stream === STDERR && this.spec.retain !== 0 ? endNote(this.exit, this.spec.timeout) : '';
  }

  dropped(stream) {
    return this.process.dropped(stream);
  }

  async write(data) {
    const piece = checkPiece(data);
    this.#checkStdin();
    if (this.#stdinEnded) {
      throw Object.assign(new Error('write after end'), { code: 'ERR_STREAM_WRITE_AFTER_END' });
    }
    try {
      await this.process.write(piece);
    } catch (error) {
      this.#checkStdin();
      throw error;
    }
  }

  closeStdin() {
    this.#checkStdin();
    if (this.#stdinEnded) return;
    this.#stdinEnded = true;
    this.process.closeStdin();
  }

  #checkStdin() {
    if (this.exit) throw new Error(`Process ${this.pid} has already exited with code ${this.exit.exitCode}`);
    if (!this.spec.stdin) throw new Error(`Process ${this.pid} does not have stdin available`);
  }

  /** Ends the tree; false when it had settled before. */
  end(graceMs) {
    return this.exit === undefined && this.process.end(graceMs);
  }

  /** An abort of `signal`, if there is one, kills it. Gives what unties them. */
  killOn(signal) {
    if (!signal) return undefined;
    const kill = () => this.end(0);
    if (signal.aborted) {
      kill();
      return undefined;
    }
    const off = () => {
      try {
        signal.removeEventListener('abort', kill);
      } catch {}
    };
    signal.addEventListener('abort', kill, { once: true });
    this.exited.then(off);
    return off;
  }
}

function signalNumber(name) {
  const number = typeof name === 'string' ? constants.signals[name.startsWith('SIG') ? name : `SIG${name}`] : undefined;
  if (number === undefined) throw invalid(`signal must be a name such as "INT" or "SIGTERM", not ${show(name)}`);
  return number;
}

/** Whether input failed for another reason than that its command reads no more. */
export function isNews(error) {
  return ['unavailable', 'authentication', 'permission', 'not_found'].includes(error?.code);
}

/** The handle that `processes.start()` returns. */
export class SandboxProcess {
  #child;

  constructor(child, command) {
    this.#child = child;
    this.command = command;
  }

  /** The process id inside the sandbox, as text. */
  get pid() {
    return this.#child.pid;
  }

  get id() {
    return this.#child.pid;
  }

  /** undefined while it runs. */
  get exitCode() {
    return this.#child.exit?.exitCode;
  }

  get stdout() {
    return this.#child.text(STDOUT);
  }

  get stderr() {
    return this.#child.text(STDERR);
  }

  /** What is kept of the output so far. */
  async output() {
    return { stdout: this.stdout, stderr: this.stderr, ...truncation(this.#child) };
  }

  /** Whether it runs, and how it ended. */
  async status() {
    const { exit } = this.#child;
    if (!exit) return { running: true };
    return { running: false, exitCode: exit.exitCode, killed: this.#child.killed, timedOut: exit.timedOut };
  }

  /** Sends text or bytes to stdin; resolves when they left. */
  write(data) {
    return handled(this.#stdin(() => this.#child.write(data)));
  }

  /** End-of-file on stdin. */
  closeStdin() {
    return handled(this.#stdin(() => this.#child.closeStdin()));
  }

  async #stdin(action) {
    try {
      await action();
    } catch (error) {
      if (isSandboxError(error)) throw error;
      if (isNews(error)) throw fromNative(error, this.#child.lease.provider.name);
      throw new SandboxError('conflict', error.message, { cause: error, operation: 'processes.write' });
    }
  }

  /** Resolves with the result when it has ended; never rejects for an exit code. */
  async wait() {
    await this.#child.exited;
    return childResult(this.#child);
  }

  /**
   * Sends a signal, "INT" or "SIGINT", to its process; with a terminal INT, QUIT
   * and TSTP go to what is in the foreground there. False when it had ended.
   */
  async signal(name) {
    const number = signalNumber(name);
    if (this.#child.exit) return false;
    this.#child.process.signal(number);
    return true;
  }

  /** Sets the size of the terminal of a process started with `pty`. */
  async resize(cols, rows) {
    if (!this.#child.spec.columns) throw invalid('resize needs a process that was started with pty: { cols, rows }');
    checkSize(cols, rows);
    if (!this.#child.exit) this.#child.process.resize(cols, rows);
  }

  /** Kills its whole tree at once. False when it had already ended. */
  async kill() {
    const killed = this.#child.end(0);
    if (killed) await this.#child.exited;
    return killed;
  }
}

function truncation(child) {
  const stdoutDroppedBytes = child.dropped(STDOUT);
  const stderrDroppedBytes = child.dropped(STDERR);
  return {
    stdoutTruncated: stdoutDroppedBytes > 0,
    stderrTruncated: stderrDroppedBytes > 0,
    stdoutDroppedBytes,
    stderrDroppedBytes,
  };
}

/** What the sandbox was when it ended in the midst of a command, with what is
 * known of its output. */
export function cutError(error, stdout, stderr) {
  return Object.assign(error, { stdout, stderr });
}

/** An exit as a result of the normalised surface. */
export function resultOf(exit, stdout, stderr) {
  return { ...outcomeOf(exit, stdout, stderr), durationMs: Math.round(exit.durationMs) };
}

export function childResult(child) {
  return resultOf(child.exit, child.text(STDOUT), child.text(STDERR));
}

/** Background commands: [{pid, command, running, startedAt?, exitCode?}]. */
export async function listOf(lease) {
  const own = [...lease.processes].filter(child => child.pid !== undefined && child.command !== undefined);
  if (!lease.native.lists) return own.map(({ pid, command }) => ({ pid, command, running: true }));
  const list = await lease.native.list();
  // One that has just begun may not have left its record yet.
  const known = new Set(list.map(({ pid }) => String(pid)));
  const fresh = own.filter(child => !known.has(child.pid) && lease.processes.has(child));
  return list.map(({ pid, command, running, startedMs, exitCode }) => ({
    pid: String(pid),
    command: own.find(child => child.pid === String(pid))?.command ?? command,
    running,
    startedAt: new Date(startedMs),
    ...(running || exitCode < 0 ? {} : { exitCode }),
  })).concat(fresh.map(({ pid, command }) => ({ pid, command, running: true })));
}

/** The child of a command that this lease has, or one that another host started. */
export async function attachTo(lease, pid, options) {
  for (const child of lease.processes) {
    if (child.pid !== pid) continue;
    child.listen(0, options.onStdout);
    child.listen(1, options.onStderr);
    return child;
  }
  const found = lease.native.lists && (await lease.native.list()).find(one => String(one.pid) === pid);
  if (!found) {
    throw new SandboxError('not_found', `there is no process with pid ${pid}: processes.list() names those there are`, {
      operation: 'processes.attach',
    });
  }
  const { stdin, terminal } = found;
  const size = terminal ? { columns: 80, rows: 24 } : {}; // as it was, until resize()
  const child = new Child(lease, { retain: options.retain, stdin, ...size }, { ...options, attach: Number(pid) });
  child.command = found.command;
  await child.started;
  if (child.exit?.error && !child.exit.error.ran) throw child.exit.error;
  return child;
}
