// Background processes, by the pid they have inside. Output is kept, cut and
// counted natively; the getters of a handle read it there.
import { Readable, Writable } from 'node:stream';

import * as core from '@mastra/core/workspace';

const STDOUT = 0;
const STDERR = 1;

export class SandboxSdkProcessHandle extends core.ProcessHandle {
  #child;
  #reader;
  #writer;
  #result;

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
  async sendStdin(data) {
    await this.#child.write(data);
  }

  async closeStdin() {
    this.#child.closeStdin();
  }

  /** Resolves when it has ended; abort kills it. */
  async wait({ onStdout, onStderr, abortSignal } = {}) {
    const child = this.#child;
    const unlisten = [child.listen(STDOUT, onStdout), child.listen(STDERR, onStderr)];
    const kill = () => child.end(0);
    if (abortSignal?.aborted) kill();
    else abortSignal?.addEventListener('abort', kill, { once: true });
    try {
      await child.exited;
      return { ...this.#outcome() };
    } finally {
      abortSignal?.removeEventListener('abort', kill);
      for (const stop of unlisten) stop?.();
    }
  }

  #outcome() {
    const child = this.#child;
    const { exit } = child;
    return (this.#result ??= {
      success: exit.exitCode === 0,
      exitCode: exit.exitCode,
      stdout: this.stdout,
      stderr: this.stderr,
      executionTimeMs: Math.round(exit.durationMs),
      killed: child.killed,
      timedOut: exit.timedOut,
      ...(exit.reason ? { reason: exit.reason } : undefined),
      stdoutTruncated: this.stdoutTruncated,
      stderrTruncated: this.stderrTruncated,
      stdoutDroppedBytes: this.stdoutDroppedBytes,
      stderrDroppedBytes: this.stderrDroppedBytes,
    });
  }

  /** stdout from now on, byte for byte; a slow reader slows the command. */
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
    if (child.exit) reader.push(null);
    else child.listenBytes(STDOUT, true);
    return reader;
  }

  #push(bytes) {
    if (this.#reader.destroyed) return;
    if (!this.#reader.push(bytes) && !this.#child.exit) this.#child.process.pause(STDOUT, true);
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

export class SandboxSdkProcessManager extends core.SandboxProcessManager {
  constructor() {
    super();
    // Older cores have no list of dismissed pids.
    this._dismissed ??= new Set();
    // The base class starts the sandbox first.
    const { spawn } = this;
    this.spawn = async (command, options = {}) => {
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

  async list() {
    return Array.from(this._tracked.values(), handle => ({
      pid: handle.pid,
      command: handle.command,
      running: handle.exitCode === undefined,
      exitCode: handle.exitCode,
    }));
  }

  async get(pid) {
    return this._tracked.get(String(pid));
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
