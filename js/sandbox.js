// The normalised sandbox: files, commands and processes in the same words on
// every provider.
import { posix } from 'node:path';

import { argvFor, below, checkCommand, checkCwd, NEVER_STARTED, resolveCwd } from './command.js';
import { aborted, fromNative, invalid, SandboxError, unsupported } from './errors.js';
import { flag, ROOT, type, verb, WORKSPACE } from './native.js';
import { checkDeclared, exposedPort, hostsOfPolicy } from './network.js';
import {
  checkBoolean,
  checkEnv,
  checkFunction,
  checkNames,
  checkObject,
  checkSignal,
  checkString,
  checkTimeout,
  show,
} from './options.js';
import {
  attachTo,
  checkPty,
  Child,
  childResult,
  cutError,
  isNews,
  listOf,
  resultOf,
  SandboxProcess,
} from './process.js';
import { Snapshots } from './snapshots.js';
import { checkValue, gather, pieces, whole } from './values.js';
import { checkWatch, Watch } from './watch.js';

// What a process keeps per stream where nobody says otherwise.
const PROCESS_RETAIN = 1024 * 1024;

function checkPath(path) {
  if (checkString(path, 'path') === undefined || path === '') throw invalid('path must be a string that is not empty');
  return path;
}

// `owner` says how the sandbox is started, stopped and named:
// {lease, ensure(), stop(), destroy(), report(error), status}.
class Files {
  #owner;

  constructor(owner) {
    this.#owner = owner;
  }

  /** Writes a file and the folders above it. `data` is any FileValue. */
  async write(path, data, options) {
    const { overwrite, mode, signal } = checkObject(options, 'options');
    checkPath(path);
    checkSignal(signal);
    checkMode(mode);
    checkBoolean(overwrite, 'overwrite');
    checkValue(data);
    if (signal?.aborted) throw aborted('files.write', signal);
    const content = whole(data) ?? (await gather(data));
    const flags =
      flag.PARENTS | (overwrite === false ? flag.EXCLUSIVE : 0) | (typeof content === 'string' ? flag.TEXT : 0);
    await this.#file(verb.WRITE, path, { data: content, flags, mode });
  }

  /** The bytes of a file. */
  read(path) {
    return this.#file(verb.READ, path);
  }

  /** A file as text, decoded from UTF-8. */
  text(path) {
    return this.#file(verb.READ, path, { text: true });
  }

  /** The entries of a folder, sorted by name: [{name, path, type, size?, ...}]. */
  async list(path = '.', options) {
    const { recursive } = checkObject(options, 'options');
    checkPath(path);
    const listing = await this.#file(verb.READDIR, path, recursive ? { flags: flag.RECURSIVE, maxDepth: 100 } : {});
    const { decodeListing, under } = await import('./listing.js');
    return decodeListing(listing, under(path));
  }

  /** Makes a folder and those above it; `recursive: false` makes only it. */
  async mkdir(path, options) {
    const { recursive = true } = checkObject(options, 'options');
    await this.#file(verb.MKDIR, path, { flags: recursive ? flag.PARENTS : 0 });
  }

  /** Removes a file, or a folder with what is in it. `force`: also if it is missing. */
  async remove(path, options) {
    const { recursive = true, force = false } = checkObject(options, 'options');
    const forced = force ? flag.FORCE : 0;
    try {
      await this.#file(verb.DELETE, path, { flags: forced });
    } catch (error) {
      if (error.cause?.code !== 'EISDIR') throw error;
      await this.#file(verb.RMDIR, path, { flags: forced | (recursive ? flag.RECURSIVE : 0) });
    }
  }

  exists(path) {
    return this.#file(verb.EXISTS, path);
  }

  /** {type, size, mode, modifiedAt, createdAt} */
  async stat(path) {
    const stat = await this.#file(verb.STAT, path);
    return {
      type: stat.type === type.DIRECTORY ? 'directory' : 'file',
      size: stat.size,
      mode: stat.mode,
      modifiedAt: new Date(stat.modifiedMs),
      createdAt: new Date(stat.createdMs),
    };
  }

  /**
   * Calls `onEvent({type, name, path})` for what happens in a folder, and with
   * `recursive` in those below it. Resolves once it looks, with {stop()}. onExit
   * is called when it ends, with an error unless it was stopped.
   */
  async watch(path, onEvent, options) {
    checkPath(path);
    const given = checkWatch(onEvent, options);
    const watch = await this.#watch(path, given);
    return Object.freeze({ stop: async () => watch.stop() });
  }

  async #watch(path, given, again = true) {
    const { lease, report } = this.#owner;
    if (!lease.live) await this.#owner.ensure();
    if (given.signal?.aborted) throw aborted('files.watch', given.signal);
    requireMode({ provider: lease.provider.name, capabilityList: lease.session.capabilities }, 'watch', 'files.watch');
    const { epoch } = lease.session;
    try {
      const watch = new Watch(lease, place(lease, path), path, given, report);
      await watch.ready;
      return watch;
    } catch (error) {
      if (lease.noteError(error, epoch) && again) return this.#watch(path, given, false);
      throw fromNative(error, lease.provider.name);
    }
  }

  async #file(which, path, options, again = true) {
    checkPath(path);
    const { lease } = this.#owner;
    if (!lease.live) await this.#owner.ensure();
    const { epoch } = lease.session;
    const [scope, where] = place(lease, path);
    try {
      return await lease.native.file(scope, which, where, options);
    } catch (error) {
      if (lease.noteError(error, epoch) && again) return this.#file(which, path, options, false);
      throw fromNative(error, lease.provider.name, message => spelled(lease, scope, message));
    }
  }
}

function checkMode(mode) {
  if (mode === undefined || (Number.isInteger(mode) && mode >= 1 && mode <= 0o777)) return;
  throw invalid(`mode must be an integer from 0o001 to 0o777, not ${show(mode)}`);
}

// Relative is below the working directory; absolute is the sandbox's own root,
// where the workspace is one folder.
function place(lease, path) {
  const { place: at } = lease.session;
  if (path.startsWith('/')) {
    const rest = below(at.inside, posix.normalize(path)) ?? below(at.shown, posix.normalize(path));
    return rest === undefined ? [ROOT, path] : [WORKSPACE, rest.slice(1)];
  }
  const start = below(at.inside, lease.workdir);
  if (start === undefined) return [ROOT, posix.join(lease.workdir, path)];
  return [WORKSPACE, start === '' ? path : `${start.slice(1)}/${path}`];
}

// The addon calls the root of the workspace "/", which is another folder here.
function spelled(lease, scope, message) {
  const { shown } = lease.session.place;
  if (scope === WORKSPACE) return message.replace(/^(The folder )?\//, (_, start = '') => `${start}${shown}/`);
  return /^\/.* (is not permitted|lies in a read-only place|does not exist)/.test(message)
    ? `${message} The workspace is ${shown}.`
    : message;
}

function checkRetain(value, otherwise) {
  if (value === undefined) return otherwise;
  if (value === Infinity || (Number.isInteger(value) && value >= 0)) return value;
  throw invalid(`maxRetainedBytes must be an integer from 0, or Infinity, not ${show(value)}`);
}

const runOptions = ['cwd', 'env', 'stdin', 'timeout', 'signal', 'onStdout', 'onStderr', 'maxRetainedBytes'];

function checkRunOptions(options, operation, known = runOptions) {
  if (Array.isArray(options)) {
    throw invalid(`${operation}() takes a program and its arguments as one array, such as ["ls", "-l"]; the second argument is an object of options`);
  }
  const given = checkObject(options, 'options');
  checkNames(given, known, `${operation}()`);
  checkFunction(given.onStdout, 'onStdout');
  checkFunction(given.onStderr, 'onStderr');
  const stdin = given.stdin ?? undefined;
  if (stdin !== undefined && typeof stdin !== 'boolean') checkValue(stdin, 'stdin');
  return { ...given, stdin, signal: checkSignal(given.signal), timeout: checkTimeout(given.timeout) };
}

/** argv for a string, which a shell runs, or an array, which is run as it is. */
function checkArgv(shell, command) {
  if (Array.isArray(command)) {
    if (command.length === 0) throw invalid('command must not be an empty array');
    checkCommand(command[0], command.slice(1));
    return [...command];
  }
  checkCommand(command);
  return argvFor(shell, command);
}

// Programs look at TERM before they use a terminal.
function environmentOf(lease, env, pty) {
  const list = lease.environment.list(env);
  return pty && !list.some(line => line.startsWith('TERM=')) ? [...list, 'TERM=xterm-256color'] : list;
}

function specOf(lease, { command, env, stdin, timeout, retain, pty, background }, cwd) {
  return {
    background,
    argv: checkArgv(lease.shellPath, command),
    cwd,
    env: environmentOf(lease, env, pty),
    columns: pty?.cols,
    rows: pty?.rows,
    stdin: stdin !== undefined && stdin !== false,
    timeout,
    retain,
  };
}

function requireMode(sandbox, name, operation) {
  const { mode, reason } = sandbox.capabilityList.find(one => one.name === name) ?? { mode: 'unsupported' };
  if (mode !== 'unsupported') return;
  const why = reason ? `: ${reason}` : '';
  throw unsupported(`The ${sandbox.provider} provider has no "${name}"${why}.`, operation);
}

function requirePty(sandbox) {
  requireMode(sandbox, 'pty', 'processes.start');
}

export class Sandbox {
  #owner;

  /** @internal */
  constructor(owner) {
    this.#owner = owner;
    /** Files of the sandbox; relative paths are below the working directory. */
    this.files = new Files(owner);
    /** Commands that go on while the program does. */
    this.processes = Object.freeze({
      start: (command, options) => this.#start(command, options),
      list: () => this.#list(),
      attach: (pid, options) => this.#attach(pid, options),
    });
    this.ports = Object.freeze({ expose: port => this.#expose(port) });
    /** Screen, mouse and keyboard, where the template has a desktop. */
    const { computer: Computer } = owner.lease.provider;
    if (Computer) this.computer = new Computer((command, options) => this.run(command, options));
    /** The workspace as it was: create(name?), restore(id), delete(id), list(). */
    this.snapshots = new Snapshots(owner);
  }

  get id() {
    return this.#owner.lease.options.id;
  }

  /** Name of the provider, "local". */
  get provider() {
    return this.#owner.lease.provider.name;
  }

  /** Where commands start, as they see it. */
  get cwd() {
    return this.#owner.lease.shownWorkdir;
  }

  get status() {
    return this.#owner.status;
  }

  /** What holds here, by name, all strings: level, degraded, limits ... Without I/O. */
  get metadata() {
    const { facts } = this.#owner.lease.session;
    // What commands get as variables is no news, and the proxy's holds a token.
    return Object.fromEntries(Object.entries(facts).filter(([name]) => !name.startsWith('env.')));
  }

  /** Modes by capability name: "native", "emulated" or "unsupported". */
  get capabilities() {
    return this.#owner.lease.session.modes;
  }

  /** @internal */
  get capabilityList() {
    return this.#owner.lease.session.capabilities;
  }

  /**
   * Runs a command to its end: a string in a shell, an array as argv. Resolves
   * for every exit code; rejects only if the command could not be started.
   */
  async run(command, options) {
    const given = checkRunOptions(options, 'run');
    if (given.stdin === true) {
      throw invalid('stdin must be what the command reads, not true: run() has no open stdin, processes.start() has', 'run');
    }
    const child = await this.#spawn(command, given, Infinity);
    if (child === undefined) return resultOf(NEVER_STARTED, '', '');
    await child.exited;
    if (child.inputFailure) throw child.inputFailure.error;
    if (child.exit.error) throw cutError(fromNative(child.exit.error, this.provider), ...textsOf(child));
    return childResult(child);
  }

  async #start(command, options) {
    const given = checkRunOptions(options, 'processes.start', [...runOptions, 'pty']);
    const pty = checkPty(given.pty);
    if (pty) requirePty(this);
    const stdin = pty && given.stdin === false ? true : (given.stdin ?? true);
    const child = await this.#spawn(command, { ...given, stdin, pty, background: true }, PROCESS_RETAIN);
    if (child === undefined) throw aborted('processes.start', given.signal);
    child.command = Array.isArray(command) ? command.join(' ') : command;
    return new SandboxProcess(child, child.command);
  }

  // Where commands outlive their host, the sandbox knows of others', too.
  async #list() {
    const { lease } = this.#owner;
    if (!lease.live) await this.#owner.ensure();
    try {
      return await listOf(lease);
    } catch (error) {
      throw fromNative(error, this.provider);
    }
  }

  async #attach(pid, options) {
    const given = checkRunOptions(options);
    const { lease } = this.#owner;
    if (!lease.live) await this.#owner.ensure();
    try {
      const child = await attachTo(lease, String(pid), {
        ...given,
        retain: checkRetain(given.maxRetainedBytes, PROCESS_RETAIN),
        report: this.#owner.report,
      });
      child.killOn(given.signal);
      return new SandboxProcess(child, child.command);
    } catch (error) {
      throw fromNative(error, this.provider);
    }
  }

  // A child that has started; undefined when the signal had fired before that.
  async #spawn(command, options, retain) {
    const { lease } = this.#owner;
    checkArgv('/bin/sh', command);
    checkCwd(lease.session, lease.workdir, options.cwd);
    const request = {
      ...options,
      command,
      env: options.env === undefined ? undefined : checkEnv(options.env),
      retain: checkRetain(options.maxRetainedBytes, retain),
      report: this.#owner.report,
    };
    return request.signal?.aborted ? undefined : this.#launch(request, true);
  }

  async #launch(request, again) {
    const { lease } = this.#owner;
    if (!lease.live) await this.#owner.ensure();
    const { epoch } = lease.session;
    try {
      const cwd = await resolveCwd(lease.session, lease.workdir, request.cwd);
      if (request.signal?.aborted) return undefined;
      const child = new Child(lease, specOf(lease, request, cwd), request);
      child.killOn(request.signal);
      await child.started;
      if (child.exit?.error && child.pid === undefined) throw child.exit.error;
      if (child.pid === undefined && request.signal?.aborted) return undefined; // given up on its way
      feed(child, request.stdin);
      return child;
    } catch (error) {
      if (lease.noteError(error, epoch) && again) return this.#launch(request, false);
      throw fromNative(error, this.provider);
    }
  }

  /**
   * What was added, modified and deleted on top of the template of `identity`:
   * {changes: [{path, change, type}], patch}.
   */
  async changes() {
    if (!this.#owner.lease.live) await this.#owner.ensure();
    const { changesOf } = await import('./changes.js');
    try {
      return await changesOf(this.#owner.lease);
    } catch (error) {
      throw fromNative(error, this.provider);
    }
  }

  /**
   * Stops every process where it is, also those of other users of this id, until
   * resume(): time limits stand still, commands started meanwhile wait, files can
   * be used. Does nothing where it is paused already.
   */
  async pause() {
    await this.#setPaused('pause', 'pause');
  }

  /** The opposite of pause(). */
  async resume() {
    await this.#setPaused('unpause', 'resume');
  }

  async #setPaused(verb, operation) {
    const { lease } = this.#owner;
    requireMode(this, 'pause', operation);
    if (!lease.live) {
      throw new SandboxError('unavailable', `${operation}: the sandbox is not running`, { operation });
    }
    try {
      await lease.native[verb]();
    } catch (error) {
      throw fromNative(error, this.provider);
    }
  }

  async #expose(port) {
    const { lease } = this.#owner;
    checkDeclared(lease, port, 'ports.expose');
    if (!lease.live) await this.#owner.ensure();
    return exposedPort(lease, port);
  }

  /**
   * Replaces the network policy while the sandbox runs: "deny" or hosts, as in
   * local({ network }). Connections to hosts that are not allowed any more end.
   */
  async setNetworkPolicy(policy) {
    const hosts = hostsOfPolicy(policy);
    const { lease } = this.#owner;
    try {
      await lease.session.setNetwork(hosts);
    } catch (error) {
      throw fromNative(error, this.provider);
    }
  }

  /** Ends the processes and lets the sandbox go. */
  stop() {
    return this.#owner.stop();
  }

  /** Ends the processes and removes the sandbox, also one that was given an `id`. */
  destroy() {
    return this.#owner.destroy();
  }

  [Symbol.asyncDispose]() {
    return this.stop();
  }

  /** There is no SDK object of the provider behind this package. */
  get raw() {
    throw unsupported(
      'There is no provider SDK behind this sandbox. Use files, run, processes, ports and snapshots; ' +
        'id and provider name the sandbox for the provider’s own tools.',
      'raw',
    );
  }
}

const textsOf = child => [child.text(0), child.text(1)];

// A command that stops reading ends the input. A stream that fails ends the
// command: half of the input must not pass for all of it.
async function feed(child, value) {
  if (value === undefined || typeof value === 'boolean') return;
  try {
    for await (const piece of pieces(value, 'stdin')) {
      const failure = await child.write(piece).then(() => undefined, error => error);
      if (isNews(failure)) throw fromNative(failure, child.lease.provider.name);
      if (failure) break;
    }
  } catch (error) {
    if (child.exit) return;
    child.inputFailure = { error };
    child.end(0);
    return;
  }
  if (!child.exit) child.closeStdin();
}
