// Background processes, by the pid they have inside. Output is kept, cut and
// counted natively; the getters of a handle read it there.
import { Readable, Writable } from 'node:stream';

import { handled, outcomeOf } from '../command.js';
import { invalid, SandboxError } from '../errors.js';
import { checkFunction, checkObject, checkSignal, show } from '../options.js';
import { core } from './core.js';

const STDOUT = 0;
const STDERR = 1;
// What is kept for a reader that nobody reads, once somebody waits for the process.
const READER_LIMIT = 16 * 1024 * 1024;

export class SandboxSdkProcessHandle extends core.ProcessHandle {
  #child;
  #reader;
  #writer;
  #result;
  #waiting = 0; // calls of wait() that have not settled

  constructor(child) {
    super();
    // The base class shadows wait() with one that feeds its own listeners.
    delete this.wait;
    this.#child = child;
    child.onEnd = () => this.#reader?.push(null);
    child.onBytes = (_, bytes) => this.#push(bytes);
  }

  /** The process id inside the sandbox. */
  get pid() {
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

  get stdoutTruncated() {
    return this.stdoutDroppedBytes > 0;
  }

  get stderrTruncated() {
    return this.stderrDroppedBytes > 0;
  }

  get stdoutDroppedBytes() {
    return this.#child.dropped(STDOUT);
  }

  get stderrDroppedBytes() {
    return this.#child.dropped(STDERR);
  }

  /** Kills its whole tree at once; false when it had already ended. */
  async kill() {
    return this.#child.end(0);
  }

  /** Sends text or bytes to stdin; resolves when they left. */
  sendStdin(data) {
    return handled(this.#child.write(data));
  }

  closeStdin() {
    return handled(this.#closeStdin());
  }

  async #closeStdin() {
    this.#child.closeStdin();
  }

  /** Resolves when it has ended; abort kills it. */
  async wait(options) {
    const { onStdout, onStderr, abortSignal } = checkObject(options ?? undefined, 'options');
    for (const callback of [onStdout, onStderr]) checkFunction(callback ?? undefined, 'onStdout and onStderr');
    const child = this.#child;
    const off = child.killOn(checkSignal(abortSignal, 'abortSignal'));
    const unlisten = [child.listen(STDOUT, onStdout), child.listen(STDERR, onStderr)];
    this.#waiting++;
    this.#freeUnread();
    try {
      await child.exited;
      return { ...this.#outcome() };
    } finally {
      this.#waiting--;
      off?.();
      for (const stop of unlisten) stop?.();
    }
  }

  #outcome() {
    const { exit } = this.#child;
    return (this.#result ??= {
      ...outcomeOf(exit, this.stdout, this.stderr),
      executionTimeMs: Math.round(exit.durationMs),
    });
  }

  /**
   * stdout from now on, byte for byte; a slow reader slows the command. One that
   * was never read does not hold up wait(): it fails when it is 16 MiB behind.
   */
  get reader() {
    return (this.#reader ??= this.#openReader());
  }

  #openReader() {
    const child = this.#child;
    const reader = new Readable({
      read: () => {
        if (!child.exit) child.process.pause(STDOUT, false);
      },
      destroy: (error, done) => {
        child.listenBytes(STDOUT, false);
        if (!child.exit) child.process.pause(STDOUT, false);
        done(error);
      },
    });
    // Its failure must not end Node where nobody reads.
    reader.on('error', () => {});
    if (child.exit) reader.push(null);
    else child.listenBytes(STDOUT, true);
    return reader;
  }

  #push(bytes) {
    const reader = this.#reader;
    if (reader.destroyed) return;
    if (reader.push(bytes) || this.#child.exit) return;
    if (isRead(reader) || !this.#isAwaited()) this.#child.process.pause(STDOUT, true);
    else if (reader.readableLength > READER_LIMIT) reader.destroy(fellBehind());
  }

  #isAwaited() {
    return this.#waiting > 0 || this.#child.isHeard(STDOUT);
  }

  #freeUnread() {
    const reader = this.#reader;
    if (!reader || this.#child.exit || isRead(reader)) return;
    this.#child.process.pause(STDOUT, false);
  }

  /** stdin as a stream of bytes; its end is end-of-file. */
  get writer() {
    return (this.#writer ??= this.#openWriter());
  }

  #openWriter() {
    const child = this.#child;
    const writer = new Writable({
      write: (chunk, _encoding, done) => {
        child.write(chunk).then(() => done(), done);
      },
      final: done => {
        try {
          if (!child.exit) child.closeStdin();
          done();
        } catch (error) {
          done(error);
        }
      },
    });
    // A command that ends before it read everything must not end Node; callbacks
    // and pipeline() still see the error.
    writer.on('error', () => {});
    return writer;
  }
}

// Somebody reads it, or has and paused it.
function isRead(reader) {
  return reader.readableDidRead || reader.listenerCount('data') > 0 || reader.listenerCount('readable') > 0;
}

function fellBehind() {
  return new SandboxError(
    'conflict',
    'the reader fell behind: the process wrote more than 16 MiB while nobody read it; ' +
      'read it from the start, or use onStdout',
    { operation: 'processes.reader' },
  );
}

export class SandboxSdkProcessManager extends core.SandboxProcessManager {
  constructor() {
    super();
    // Older cores have no list of dismissed pids.
    this._dismissed ??= new Set();
    // The base class starts the sandbox first.
    const { spawn } = this;
    this.spawn = async (command, wanted) => {
      const options = checkObject(wanted ?? undefined, 'options');
      const { originalInvocation: given } = options;
      this.sandbox._checkCall(given?.command ?? command, given?.args, options);
      return spawn.call(this, command, options);
    };
  }

  async spawn(command, options = {}) {
    const handle = await this.sandbox._spawn(command, options);
    this._dismissed.delete(handle.pid);
    this._tracked.set(handle.pid, handle);
    handle.command = command;
    return handle;
  }

  /** Those of this object, and running ones that another host has started. */
  async list() {
    const own = Array.from(this._tracked.values(), handle => ({
      pid: handle.pid,
      command: handle.command,
      running: handle.exitCode === undefined,
      exitCode: handle.exitCode,
    }));
    const isNew = ({ pid, running }) => running && !this._tracked.has(pid) && !this._dismissed.has(pid);
    const others = (await this.sandbox._others()).filter(isNew);
    return [...own, ...others.map(({ pid, command }) => ({ pid, command, running: true, exitCode: undefined }))];
  }

  async get(pid) {
    if (typeof pid !== 'string' && typeof pid !== 'number') throw invalid(`pid must be a string, not ${show(pid)}`);
    const known = this._tracked.get(String(pid));
    if (known || !/^[1-9]\d{0,9}$/.test(pid)) return known;
    const handle = await this.sandbox._attach(String(pid));
    if (handle) this._tracked.set(handle.pid, handle);
    return handle;
  }

  release(pid) {
    this._tracked.delete(pid);
    this._dismissed.add(pid);
  }

  /** @internal A sandbox that was stopped has an empty process table. */
  _clear() {
    this._tracked.clear();
    this._dismissed.clear();
  }
}
