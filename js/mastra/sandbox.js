// Mastra's sandbox on a lease.
import { createRequire } from 'node:module';

import {
  argvFor,
  checkCommand,
  checkCwd,
  endNote,
  guard,
  joinCommand,
  NEVER_STARTED,
  outcomeOf,
  resolveCwd,
} from '../command.js';
import { invalid } from '../errors.js';
import { openLease } from '../lease.js';
import { listen } from '../native.js';
import {
  checkEnv,
  checkFunction,
  checkInstructions,
  checkObject,
  checkSignal,
  checkString,
  checkTimeout,
  show,
} from '../options.js';
import { isInHookOf, refuseInHookOf } from '../provider.js';
import { checkValue } from '../values.js';
import { core, executionError, sandboxError } from './core.js';
import { instructionsFor, resolveInstructions } from './instructions.js';
import { SandboxSdkProcessHandle, SandboxSdkProcessManager } from './processes.js';

const SPAWN_RETAIN = 1024 * 1024;

// On first use: most programs get by without. By require() where that can be, for
// sandboxSdk cannot wait and Node has none for a module that an import is still
// loading; an import of ours would be in its way. Whose may wait for somebody
// else's import, or runs where there is no require() of modules, imports.
const require = createRequire(import.meta.url);
const orWait = (load, wait) => {
  try {
    return load();
  } catch {
    return wait();
  }
};
const network = () => orWait(() => require('../network.js'), () => import('../network.js'));
const background = () => orWait(() => require('../process.js'), () => import('../process.js'));
let sdk;
const sdkNow = () => (sdk ??= require('../sandbox.js'));
const sdkSoon = async () => (sdk ??= await orWait(sdkNow, () => import('../sandbox.js')));

function checkRetain(value, otherwise) {
  if (value === undefined) return otherwise;
  if (value === Infinity || (Number.isInteger(value) && value >= 0)) return value;
  throw new RangeError('maxRetainedBytes must be a non-negative integer or Infinity');
}

export class SandboxSdkSandbox extends core.MastraSandbox {
  status = 'pending';
  #options;
  #lease;
  #sdk;
  #createdAt = new Date();
  #lastUsedAt;
  #reported = false;

  /** Starts nothing. See CreateMastraSandboxOptions in index.d.ts. */
  constructor(options) {
    const given = checkObject(options, 'the options of createMastraSandbox()');
    for (const hook of ['onStart', 'onStop', 'onDestroy']) checkFunction(given[hook], hook);
    checkInstructions(given.instructions, 'instructions');
    const lease = openLease(given, 'mastra');
    super({
      name: checkString(given.name, 'name') ?? 'SandboxSdkSandbox',
      onStart: given.onStart,
      onStop: given.onStop,
      onDestroy: given.onDestroy,
      processes: new SandboxSdkProcessManager(),
    });
    this.#options = { ...given };
    this.#lease = lease;
    this.id = lease.options.id;
    this.name = given.name ?? 'SandboxSdkSandbox';
    this.provider = lease.provider.name;
    // They persist where sessions do.
    this.supportsCheckpoints = lease.provider.options.root !== undefined;
    this.networking = { getPortUrl: port => this.#portUrlIfRunning(port) };
    lease.sdk = () => sdkSoon().then(() => this.sandboxSdk);
    if (lease.provider.computer) this.computer = this.sandboxSdk.computer;
    lease.onGone = error => this.#gone(error);
    lease.onReview = text => this.logger?.warn(`Sandbox '${this.id}': ${text}`);
    lease.onDenied = reason => this.logger?.warn(`Sandbox '${this.id}': ${reason}`);
  }

  /** @internal */
  get _lease() {
    return this.#lease;
  }

  /** The normalised sandbox: files, run, processes, ports, snapshots. */
  get sandboxSdk() {
    return (this.#sdk ??= new (sdkNow().Sandbox)({
      lease: this.#lease,
      ensure: () => this.ensureRunning(),
      stop: () => this._stop(),
      destroy: () => this._destroy(),
      report: error => this.#report(error),
      sandbox: this,
      get status() {
        return this.sandbox.status;
      },
    }));
  }

  // -- life

  /** Makes the sandbox or connects to the one of this id. */
  async start(options) {
    const signal = checkSignal(options?.abortSignal, 'abortSignal');
    if (signal?.aborted) throw abortError('start', signal.reason);
    // Newer cores say so themselves.
    if (this.status === 'destroyed') throw new Error('Cannot start a destroyed sandbox');
    try {
      const outcome = await this.#lease.start();
      this.#logStart(outcome);
      this.#became('running', 'starting');
      return { outcome };
    } catch (error) {
      throw sandboxError(error);
    }
  }

  // Of an older core only `_start()` and its like keep the status: called by
  // themselves, start(), stop() and destroy() do it here, so that `_destroy()`
  // does not take a sandbox that runs for one that was never started.
  #became(status, onTheWay) {
    if (this.status !== onTheWay) this.status = status;
  }

  #logStart(outcome) {
    const { facts } = this.#lease.session;
    this.logger?.debug(`Sandbox '${this.id}' ${outcome}`, { level: facts.level, provider: this.provider });
    if (facts.degraded) this.logger?.warn(`Sandbox '${this.id}' is degraded: ${facts.degraded}`);
  }

  /** What runs inside onFirstCreate may use the sandbox that is still starting. */
  async ensureRunning() {
    if (this.status === 'starting' && this.#lease.live && isInHookOf(this.#lease.session)) return;
    await super.ensureRunning();
  }

  // In these three the base class waits for a start that is under way.

  async _start(options) {
    refuseInHookOf(this.#lease.session, 'start');
    return super._start(options);
  }

  async _stop() {
    refuseInHookOf(this.#lease.session, 'stop');
    return super._stop();
  }

  async _destroy() {
    refuseInHookOf(this.#lease.session, 'destroy');
    return super._destroy();
  }

  /** Ends every process and keeps the files. */
  async stop() {
    try {
      await this.#lease.stop();
    } catch (error) {
      throw sandboxError(error);
    }
    this.processes._clear();
    this.#became('stopped', 'stopping');
  }

  /** Ends every process and removes what belongs to the sandbox alone. */
  async destroy() {
    try {
      await this.#lease.destroy();
    } catch (error) {
      throw sandboxError(error);
    }
    this.processes._clear();
    this.#became('destroyed', 'destroying');
  }

  // -- environment. Kept here and not in the base class, so that it exists for
  // every core and each spawn merges it once.

  setEnv(update) {
    if (typeof update !== 'function') throw invalid(`setEnv wants a function, not ${show(update)}`);
    this.#lease.environment.overlay = update(this.getEnv());
  }

  getEnv() {
    return this.#lease?.environment.overlay ?? {};
  }

  /** Where commands start, as they see it. */
  get workingDirectory() {
    return this.#lease?.shownWorkdir;
  }

  // -- commands

  /**
   * Runs a command to its end. Resolves for every exit code; rejects when the
   * command could not be started at all.
   */
  executeCommand(command, args, options) {
    if (this.#lease.live && this.status === 'running') return this.#execute(command, args, options, undefined, 1);
    return this.#startAndExecute(command, args, options);
  }

  async #startAndExecute(command, args, options) {
    this._checkCall(command, args, options);
    if (!options?.abortSignal?.aborted) await this.ensureRunning();
    return this.#execute(command, args, options, undefined, 1);
  }

  /** @internal Throws for wrong arguments, before a sandbox is started for them. */
  _checkCall(command, args, options) {
    checkCommand(command, args);
    const { abortSignal, cwd, env, maxRetainedBytes, onStdout, onStderr, timeout } = checkObject(options ?? undefined, 'options');
    checkSignal(abortSignal, 'abortSignal');
    checkTimeout(timeout);
    checkRetain(maxRetainedBytes);
    checkEnv(env ?? undefined);
    checkCwd(this.#lease.session, this.#lease.workdir, cwd);
    for (const callback of [onStdout, onStderr]) checkFunction(callback ?? undefined, 'onStdout and onStderr');
  }

  #execute(command, args, options, where, retries) {
    return new Promise((resolve, reject) => {
      const { epoch } = this.#lease.session;
      const again = () => this.#execute(command, args, options, where, 0);
      const failed = (error, exit) => this.#notStarted(error, epoch, retries, again, exit);
      try {
        this.#launch(command, args, options, where, retries, resolve, failed);
      } catch (error) {
        resolve(failed(error));
      }
    });
  }

  // The path of every foreground command: nothing here that is not needed.
  #launch(command, args, options, where, retries, resolve, failed) {
    const lease = this.#lease;
    checkCommand(command, args);
    checkObject(options ?? undefined, 'options');
    checkObject(options?.env ?? undefined, 'env');
    const signal = checkSignal(options?.abortSignal, 'abortSignal');
    if (signal?.aborted) return resolve(abortedResult(command, args));
    const cwd = where ?? resolveCwd(lease.session, lease.workdir, options?.cwd);
    if (typeof cwd !== 'string') {
      return resolve(cwd.then(found => this.#execute(command, args, options, found, retries)));
    }
    this.#lastUsedAt = Date.now();
    const timeout = checkTimeout(options?.timeout);
    const retain = checkRetain(options?.maxRetainedBytes, Infinity);
    const callbacks = [this.#guarded(options?.onStdout), this.#guarded(options?.onStderr)];
    const abort = signal && (() => child.end(0));
    const child = lease.native.spawn(
      {
        argv: argvFor(lease.shellPath, command, args),
        cwd,
        env: lease.environment.list(options?.env),
        timeout,
        retain,
        listenStdout: callbacks[0] ? listen.TEXT : 0,
        listenStderr: callbacks[1] ? listen.TEXT : 0,
        collect: true,
      },
      {
        onText: (stream, text) => callbacks[stream](text),
        onExit: exit => {
          signal?.removeEventListener('abort', abort);
          resolve(exit.error ? failed(exit.error, exit) : resultOf(exit, command, args, timeout, retain, callbacks[1]));
        },
      },
    );
    signal?.addEventListener('abort', abort, { once: true });
  }

  // Nothing ran. A sandbox that died meanwhile is started again, once.
  async #notStarted(error, epoch, retries, again, exit) {
    if (this.#lease.noteError(error, epoch) && retries > 0) {
      await this.ensureRunning();
      return again();
    }
    throw executionError(error, exit);
  }

  #gone(error) {
    if (this.status === 'running') this.status = 'stopped';
    this.logger?.warn(`Sandbox '${this.id}' is gone: ${error.message}`);
  }

  #guarded(callback) {
    if (callback === undefined || callback === null) return undefined;
    checkFunction(callback, 'onStdout and onStderr');
    return guard(callback, error => this.#report(error));
  }

  #report(error) {
    if (this.#reported) return;
    this.#reported = true;
    this.logger?.warn(`Sandbox '${this.id}': an output callback failed; later failures are not reported`, { error });
  }

  /** @internal For the process manager. */
  async _spawn(command, options, retries = 1) {
    const { originalInvocation: given } = options;
    checkCommand(given?.command ?? command, given?.args);
    checkSignal(options.abortSignal, 'abortSignal'); // which the base class listens to
    this.#lastUsedAt = Date.now();
    const { Child } = await background();
    const lease = this.#lease;
    const { epoch } = lease.session;
    const spec = {
      argv: argvFor(lease.shellPath, given?.command ?? command, given?.args),
      cwd: await resolveCwd(lease.session, lease.workdir, options.cwd),
      // Newer cores have merged the overlay already; once more changes nothing.
      env: lease.environment.list(options.env),
      stdin: options.stdinMode !== 'ignore',
      timeout: checkTimeout(options.timeout),
      retain: checkRetain(options.maxRetainedBytes, SPAWN_RETAIN),
      background: true,
    };
    try {
      const child = new Child(lease, spec, this.#listeners(options));
      await child.started;
      if (child.exit?.error && child.pid === undefined) throw child.exit.error;
      if (child.pid === undefined && options.abortSignal?.aborted) throw abortError('spawn', options.abortSignal.reason);
      child.command = given?.command ?? command;
      return new SandboxSdkProcessHandle(child);
    } catch (error) {
      return this.#notStarted(error, epoch, retries, () => this._spawn(command, options, 0));
    }
  }

  /** @internal Commands that this object has not started, or not tracked. */
  async _others() {
    if (!this.#lease.native.lists) return [];
    const { listOf } = await background();
    return listOf(this.#lease);
  }

  /** @internal The handle of one of them, or undefined. */
  async _attach(pid) {
    if (!this.#lease.native.lists) return undefined;
    const { attachTo } = await background();
    try {
      const options = { retain: SPAWN_RETAIN, report: error => this.#report(error) };
      const child = await attachTo(this.#lease, pid, options);
      return Object.assign(new SandboxSdkProcessHandle(child), { command: child.command });
    } catch (error) {
      if (error.code === 'not_found') return undefined;
      throw sandboxError(error);
    }
  }

  #listeners({ onStdout, onStderr }) {
    checkFunction(onStdout ?? undefined, 'onStdout');
    checkFunction(onStderr ?? undefined, 'onStderr');
    return { onStdout, onStderr, report: error => this.#report(error) };
  }

  // -- files, ports, siblings

  /** Writes files into the sandbox; relative paths are below the working directory. */
  async writeFiles(files, options) {
    const signal = checkSignal(options?.abortSignal, 'abortSignal');
    if (!Array.isArray(files)) throw invalid(`writeFiles wants an array of {path, content}, not ${show(files)}`);
    for (const file of files) checkFile(file);
    await sdkSoon();
    for (const { path, content, mode } of files) {
      if (signal?.aborted) throw abortError('writeFiles', signal.reason);
      try {
        await this.sandboxSdk.files.write(path, content, { mode });
      } catch (error) {
        throw sandboxError(error);
      }
    }
  }

  /**
   * Starts the sandbox and answers the URL of a declared port.
   * networking.getPortUrl answers null instead and wakes nothing.
   */
  async getPortUrl(port, protocol = 'http') {
    const { checkDeclared, checkProtocol, portUrl } = await network();
    checkDeclared(this.#lease, port, 'getPortUrl');
    const scheme = checkProtocol(protocol);
    await this.ensureRunning();
    return portUrl(this.#lease, port, scheme);
  }

  async #portUrlIfRunning(port) {
    const { live, options } = this.#lease;
    if (!live || this.status !== 'running' || !options.ports.includes(port)) return null;
    const { portUrl } = await network();
    return portUrl(this.#lease, port, 'http').catch(() => null);
  }

  /** Keeps the workspace under `checkpointName`; nothing without one. */
  async snapshot() {
    const { checkpointName } = this.#options;
    if (checkpointName === undefined) return;
    await sdkSoon();
    try {
      await this.sandboxSdk.snapshots.create(checkpointName);
    } catch (error) {
      throw sandboxError(error);
    }
  }

  /** A sibling with the same options but its own id; does no I/O. */
  clone(options = {}) {
    const { id, sandboxId, env, workingDirectory, checkpointName, seedCheckpointName } = checkObject(
      options,
      'options',
    );
    const { id: _, ...inherited } = this.#options;
    const overlay = env ?? this.getEnv();
    return new SandboxSdkSandbox({
      ...inherited,
      id: sandboxId ?? id,
      env: overlay,
      workingDirectory: workingDirectory ?? inherited.workingDirectory,
      checkpointName: checkpointName ?? inherited.checkpointName,
      seedCheckpointName: seedCheckpointName ?? inherited.seedCheckpointName,
    });
  }

  // -- facts

  /** Without I/O, in every state: Mastra asks before every tool call. */
  getInfo() {
    return {
      id: this.id,
      name: this.name,
      provider: this.provider,
      status: this.status,
      createdAt: this.#createdAt,
      lastUsedAt: this.#lastUsedAt === undefined ? undefined : new Date(this.#lastUsedAt),
      resources: resourcesOf(this.#lease.session.facts),
      metadata: this.#metadata(),
    };
  }

  #metadata() {
    const { session, shownWorkdir } = this.#lease;
    const { facts } = session;
    return {
      ...reported(facts),
      sandboxId: facts.sandboxId ?? this.id,
      sandboxProvider: this.provider,
      cwd: session.place.shown,
      workingDirectory: shownWorkdir,
      capabilities: session.modes,
    };
  }

  getInstructions(options) {
    return resolveInstructions(
      this.#options.instructions,
      () => instructionsFor(this.#lease),
      options?.requestContext,
    );
  }
}

// The limits that hold, in Mastra's units; undefined where there is none.
function resourcesOf(facts) {
  const { 'limits.memory': memory, 'limits.cpu': cpu, 'limits.workspaceSize': disk } = facts;
  if (!memory && !cpu && !disk) return undefined;
  const megabytes = bytes => bytes && Math.round(bytes / 2 ** 20);
  return { memoryMB: megabytes(memory), cpuCores: cpu && Number(cpu), diskMB: megabytes(disk) };
}

// What commands get as variables is no news about the sandbox.
const variables = new Set(['path', 'home', 'tmpdir', 'lang', 'user']);

function reported(facts) {
  return Object.fromEntries(Object.entries(facts).filter(([key]) => !variables.has(key) && !key.startsWith('env.')));
}

function abortError(operation, reason) {
  return core.SandboxAbortError
    ? new core.SandboxAbortError(operation, reason)
    : new core.SandboxError(`Sandbox operation aborted: ${operation}`, 'ABORTED', { operation });
}

function checkFile(file) {
  const { path, content, mode } = checkObject(file ?? null, 'each item of writeFiles');
  if (checkString(path, 'path') === undefined || path === '') throw invalid('path must be a string that is not empty');
  checkValue(content, 'content');
  if (mode !== undefined) checkMode(mode);
}

function checkMode(mode) {
  if (typeof mode === 'number' && core.validateSandboxFileMode) return core.validateSandboxFileMode(mode);
  if (Number.isInteger(mode) && mode >= 1 && mode <= 0o777) return;
  const message = `Invalid file mode ${show(mode)}: must be an integer from 0o001 to 0o777.`;
  throw new core.SandboxError(message, 'INVALID_ARGUMENT', { mode });
}

function resultOf(exit, command, args, timeout, retain, onStderr) {
  let { stderr } = exit;
  const note = endNote(exit, timeout);
  if (note) {
    onStderr?.(note);
    if (retain > 0) stderr += note;
  }
  return {
    ...outcomeOf(exit, exit.stdout, stderr),
    executionTimeMs: Math.round(exit.durationMs),
    command: args?.length ? joinCommand(command, args) : command,
  };
}

function abortedResult(command, args) {
  return resultOf(NEVER_STARTED, command, args, 0, 0);
}
