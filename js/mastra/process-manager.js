// Background processes of a sandbox, by the pid they have inside.
import * as core from '@mastra/core/workspace';

export class SandboxSdkProcessManager extends core.SandboxProcessManager {
  constructor() {
    super();
    // Older cores have no list of dismissed pids.
    this._dismissed ??= new Set();
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
