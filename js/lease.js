// A lease: one user's hold on a session. Both surfaces work through one.
import { posix } from 'node:path';

import { below, guard, insideWorkspace } from './command.js';
import { invalid, SandboxError } from './errors.js';
import { flag, ROOT, snapshot, verb, WORKSPACE } from './native.js';
import {
  checkAbsolute,
  checkEnv,
  checkFunction,
  checkId,
  checkPorts,
  checkString,
  checkVariable,
  show,
  snapshotId,
} from './options.js';
import { checkProvider, refuseInHookOf } from './provider.js';

/** Names of the options that both surfaces share. */
export const leaseOptions = Object.freeze([
  'provider',
  'id',
  'identity',
  'cwd',
  'workingDirectory',
  'env',
  'ports',
  'onFirstCreate',
  'onNetworkDenied',
  'checkpointName',
  'seedCheckpointName',
]);

/** Checks the options that both surfaces share and opens a lease, starting nothing. */
export function openLease(options, prefix) {
  const provider = checkProvider(options.provider);
  return new Lease(provider, {
    named: options.id !== undefined,
    id: checkId(options.id) ?? `${prefix}-${provider.name}-${crypto.randomUUID()}`,
    identity: checkId(options.identity, 'identity'),
    cwd: checkCwd(options.cwd),
    workingDirectory: checkWorkingDirectory(options.workingDirectory),
    env: checkEnv(options.env),
    ports: [...new Set([...provider.ports, ...checkPorts(options.ports)])],
    onFirstCreate: checkFunction(options.onFirstCreate, 'onFirstCreate'),
    checkpoints: checkpointsOf(options),
    onNetworkDenied: checkFunction(options.onNetworkDenied, 'onNetworkDenied'),
  });
}

/** Ids of the snapshots to start with, best first; undefined if none is named. */
function checkpointsOf({ checkpointName, seedCheckpointName }) {
  const names = { checkpointName, seedCheckpointName };
  for (const name in names) checkString(names[name], name);
  const ids = Object.values(names).filter(name => name !== undefined).map(snapshotId);
  return ids.length > 0 ? ids : undefined;
}

function checkCwd(value) {
  const path = checkAbsolute(value, 'cwd');
  if (path === undefined) return '/workspace';
  const tidy = posix.resolve(path);
  if (tidy === '/') throw invalid('cwd must be a folder below /, such as "/workspace"');
  return tidy;
}

function checkWorkingDirectory(value) {
  const path = checkString(value, 'workingDirectory');
  if (path === undefined || path.startsWith('/')) return path;
  const tidy = posix.normalize(path);
  if (path === '' || tidy === '..' || tidy.startsWith('../')) {
    throw invalid(`workingDirectory must be an absolute path or one below cwd, not ${show(value)}`);
  }
  return tidy;
}

// The environment of commands: what the sandbox gives, what the provider option
// adds, the overlay (setEnv) and the call's own, in this order. undefined
// removes a variable. Nothing of the host's environment is among them.

function toList(env, name) {
  const list = [];
  for (const key in env) {
    const text = checkVariable(key, env[key], name);
    if (text !== undefined) list.push(`${key}=${text}`);
  }
  return list;
}

/** The variables a session gives by itself, from its facts. */
function baseEnvironment(facts, remote) {
  const base = {
    PATH: facts.path ?? '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: facts.home ?? '/',
    LANG: facts.lang ?? 'C.UTF-8',
    TMPDIR: facts.tmpdir ?? '/tmp',
  };
  if (remote) delete base.PATH; // the sandbox has its own
  if (facts.user) base.USER = base.LOGNAME = facts.user;
  if (facts.shell) base.SHELL = facts.shell;
  for (const key in facts) {
    if (key.startsWith('env.')) base[key.slice(4)] = facts[key];
  }
  return base;
}

/**
 * HOME and TMPDIR of this machine, where its folders are not those inside. Who
 * passes them on means "the home folder".
 */
function foldersOfHost({ remote, options, hostFacts }, facts) {
  if (remote || facts.level === 'none') return {};
  const { home, tmpdir } = hostFacts();
  const visible = [...(options.readOnlyPaths ?? []), ...(options.readWritePaths ?? [])];
  const hidden = path => (visible.some(one => below(posix.resolve(one), path) !== undefined) ? undefined : normal(path));
  return { HOME: hidden(home), TMPDIR: hidden(tmpdir) };
}

// Also "/tmp/", of which Node's tmpdir() says "/tmp".
const normal = path => (path.startsWith('/') ? posix.resolve(path) : path);

class Environment {
  #base = {};
  #ofHost = {};
  #own;
  #overlay;
  #list; // of the three together, built when first needed

  constructor(own, overlay) {
    this.#own = own;
    this.#overlay = overlay;
  }

  /** ofHost: values of HOME and TMPDIR, as normal() has them, that mean the base's. */
  setBase(base, ofHost) {
    this.#base = base;
    this.#ofHost = ofHost;
    this.#list = undefined;
  }

  get overlay() {
    return { ...this.#overlay };
  }

  set overlay(env) {
    this.#overlay = checkEnv(env);
    this.#list = undefined;
  }

  /** "NAME=value" strings. The array is shared: callers must not change it. */
  list(extra) {
    if (extra === undefined || extra === null) {
      return (this.#list ??= this.#toList({ ...this.#base, ...this.#own, ...this.#overlay }));
    }
    return this.#toList({ ...this.#base, ...this.#own, ...this.#overlay, ...extra });
  }

  #toList(env) {
    for (const key of ['HOME', 'TMPDIR']) {
      const value = env[key];
      if (typeof value === 'string' && normal(value) === this.#ofHost[key]) env[key] = this.#base[key];
    }
    return toList(env, 'env');
  }
}

export class Lease {
  /** The sandbox runs and this lease may use it. */
  live = false;
  processes = new Set(); // running ones, of this lease
  watches = new Set(); // likewise
  sdk; // () => what onFirstCreate gets; set by the owner
  onReview; // called with a warning about what was left in a directory; set by the owner
  onDenied; // called when the network policy refused a host; set by the owner
  onGone; // called when the sandbox ended by itself; set by the owner

  /** options: id, named (by the user), identity, cwd, workingDirectory, ports, env, onFirstCreate */
  constructor(provider, options) {
    this.provider = provider;
    this.options = options;
    this.spec = { id: options.id, named: options.named, cwd: options.cwd, ports: options.ports };
    this.environment = new Environment(provider.env, options.env);
    this.session = provider.session(this.spec);
    if (this.session.spec.cwd !== options.cwd) {
      throw new SandboxError(
        'conflict',
        `the sandbox "${options.id}" of this provider has cwd ${show(this.session.spec.cwd)}, not ${show(options.cwd)}`,
      );
    }
    this.workdir = this.#place(options.workingDirectory);
  }

  get native() {
    return this.session.native;
  }

  /** The working directory as commands see it. */
  get shownWorkdir() {
    const { inside, shown } = this.session.place;
    const rest = below(inside, this.workdir);
    return rest === undefined ? this.workdir : shown + rest;
  }

  get shell() {
    return this.provider.options.shell ?? this.session.facts.shell ?? '/bin/sh';
  }

  async start() {
    // Before anything changes: the sandbox that is starting stays of use.
    refuseInHookOf(this.session, 'start');
    for (;;) {
      this.#adopt();
      try {
        const outcome = await this.session.acquire(this);
        if (outcome !== undefined) return outcome;
      } catch (error) {
        this.live = false;
        throw error;
      }
    }
  }

  // Since this lease was made, others may have started or closed that sandbox.
  #adopt() {
    const { sessions } = this.provider;
    if (this.session.state === 'closed') this.session = this.provider.session(this.spec);
    this.session = sessions.get(this.spec.id) ?? this.session;
    sessions.set(this.spec.id, this.session);
  }

  /** Called by the session once the sandbox runs. */
  async attach(session) {
    const { workingDirectory } = this.options;
    this.refresh(session);
    this.workdir = this.#place(workingDirectory);
    this.shellPath = this.shell;
    if (this.workdir !== session.place.inside) await this.#makeWorkdir(session);
    this.live = true;
  }

  /** The session's facts changed while it runs. */
  refresh({ facts } = this.session) {
    this.environment.setBase(baseEnvironment(facts, this.provider.remote), foldersOfHost(this.provider, facts));
  }

  /** denial: {host, port, reason, last}. Told once per host; a user's error must not end Node. */
  denied({ host, port, reason, last }) {
    const quietly = callback => guard(callback ?? (() => {}), () => {});
    quietly(this.onDenied)(last ? `${reason} Denials of further hosts are not reported.` : reason);
    quietly(this.options.onNetworkDenied)({ host, port, reason });
  }

  async #makeWorkdir(session) {
    const rest = below(session.place.inside, this.workdir);
    const scope = rest === undefined ? ROOT : WORKSPACE;
    const path = rest ?? this.workdir;
    if (scope === ROOT && (await session.native.file(ROOT, verb.EXISTS, path))) return;
    await session.native.file(scope, verb.MKDIR, path, { flags: flag.PARENTS });
  }

  #place(workingDirectory) {
    const { place } = this.session;
    if (workingDirectory === undefined) return place.inside;
    if (workingDirectory.startsWith('/')) {
      const path = posix.resolve(workingDirectory);
      return insideWorkspace(place, path) ?? path;
    }
    return posix.join(place.inside, posix.resolve('/', workingDirectory)).replace(/\/$/, '') || '/';
  }

  /** The template's layer for a sandbox that is about to be created, if any. */
  async layer() {
    const { identity, onFirstCreate, checkpoints } = this.options;
    const { root, directory } = this.provider.options;
    if (checkpoints || identity === undefined || !onFirstCreate) return undefined;
    if (this.native.layers === false) return undefined;
    if (this.provider.remote && this.provider.templateMode !== 'snapshot') return undefined;
    if (root !== undefined || directory !== undefined || !this.provider.templates.has(identity)) return undefined;
    const { layerFor } = await import('./template.js');
    return layerFor(this);
  }

  async firstCreate() {
    if (await this.#seed()) return;
    if (!this.options.onFirstCreate) return;
    const { firstCreate } = await import('./template.js');
    await firstCreate(this);
  }

  // From the first of the named checkpoints that there is.
  async #seed() {
    const { checkpoints } = this.options;
    if (!checkpoints) return false;
    const folder = await this.provider.snapshotFolder();
    const kept = await this.native.snapshot(snapshot.LIST, folder);
    const id = checkpoints.find(one => kept.some(other => other.id === one));
    if (id === undefined) return false;
    await this.native.snapshot(snapshot.RESTORE, folder, id);
    return true;
  }

  async stop() {
    await this.session.stop(this);
    this.live = false;
  }

  async leave() {
    await this.session.leave(this);
    this.live = false;
  }

  async destroy() {
    await this.session.destroy(this);
    this.live = false;
  }

  /** After a start that failed. */
  async abandon() {
    await this.session.abandon(this);
    this.live = false;
  }

  /** Destroys what this lease has left, unless others hold it. */
  async discard() {
    this.#adopt();
    await this.session.discard();
  }

  /** Watches, too. */
  async endProcesses() {
    for (const watch of this.watches) watch.stop();
    const ends = [];
    for (const process of this.processes) {
      process.end(2000);
      ends.push(process.exited);
    }
    await Promise.all(ends);
  }

  /**
   * True when `error` says that the sandbox had ended, so that nothing was done
   * and the call can be made again once the sandbox runs; false where it ended in
   * the midst of it. `epoch` is the session's of before the call: others may have
   * started it anew meanwhile.
   */
  noteError(error, epoch) {
    // A lack of descriptors or processes has an errno, a failed set-up a step.
    if (error?.code !== 'unavailable' || error.errno || error.step) return false;
    if (epoch === this.session.epoch && this.live) {
      this.session.lost();
      this.live = false;
      this.onGone?.(error);
    }
    return !error.ran;
  }
}
