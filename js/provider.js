// A provider instance: options checked once, and the sessions and templates that
// belong to it. Made by the factories (local() ...), used by both surfaces. And who
// is inside the hook of which session.
//
// A session is one sandbox; a lease (lease.js) is one user's hold on it.
// Everybody who asks a provider instance for the same id shares a session: it is
// started once, stops when the last one stops and is destroyed when the last one
// lets go.
import { AsyncLocalStorage } from 'node:async_hooks';

import { fromNative, invalid, SandboxError } from './errors.js';
import { native, snapshot } from './native.js';
import { show } from './options.js';

// What runs inside onFirstCreate must not wait for the start that waits for it.
const hooks = new AsyncLocalStorage();

/** Runs a lease's onFirstCreate so that calls from within are known as such. */
export async function insideHook(lease, work) {
  const { session, provider, options } = lease;
  const hook = { session, provider, identity: options.identity, outer: hooks.getStore(), running: true };
  try {
    return await hooks.run(hook, work);
  } finally {
    // Timers and servers that the hook leaves behind keep its context.
    hook.running = false;
  }
}

function isInside(matches) {
  for (let hook = hooks.getStore(); hook !== undefined; hook = hook.outer) {
    if (hook.running && matches(hook)) return true;
  }
  return false;
}

/** Whether the caller is called from the onFirstCreate of this session. */
export function isInHookOf(session) {
  return isInside(hook => hook.session === session);
}

export function refuseInHookOf(session, operation) {
  if (isInHookOf(session)) throw waitsForItself(operation, `the sandbox "${session.id}"`);
}

/** The same for the template of an identity. */
export function refuseInTemplate(provider, identity) {
  const same = hook => hook.provider === provider && hook.identity === identity;
  if (isInside(same)) throw waitsForItself('start', `the identity "${identity}"`);
}

function waitsForItself(operation, what) {
  return new SandboxError(
    'conflict',
    `${operation} would wait for ever: it was called inside onFirstCreate of ${what}, which has to end first; ` +
      'call it after the start',
    { operation },
  );
}

class Session {
  state = 'idle'; // running, stopped, lost, closed
  holders = new Set(); // leases between start and destroy
  active = new Set(); // of them, those that are running
  facts = {};
  #theirs = false; // another process has it
  #fresh = false; // created, and not yet made ready by onFirstCreate
  #made = false; // by the last start, or the one that goes on
  #last = Promise.resolve();

  constructor(provider, spec) {
    this.provider = provider;
    this.id = spec.id;
    this.spec = spec;
    this.native = provider.open(spec);
    watchDenials(this.native, new WeakRef(this));
    this.#look();
  }

  /** 'created' or 'connected'. */
  acquire(lease) {
    return this.#alone('start', async () => {
      if (this.state === 'closed') return undefined;
      this.holders.add(lease);
      await this.#bringUp(lease);
      await lease.attach(this);
      const created = this.#fresh;
      if (created) {
        await lease.firstCreate();
        this.#fresh = false;
      }
      this.active.add(lease);
      return created ? 'created' : 'connected';
    });
  }

  async #bringUp(lease) {
    if (this.state === 'running') return;
    // What is left of a sandbox that died is still being cleared away: a start is
    // in conflict with that for some milliseconds.
    let tries = this.state === 'lost' ? 100 : 1;
    while (!(await this.#open(lease, --tries > 0))) await new Promise(resolve => setTimeout(resolve, 20));
    this.state = 'running';
    this.#look();
  }

  async #open(lease, patient) {
    this.#made = false;
    try {
      if (!(await this.#resume())) {
        if (await this.native.find()) await this.native.connect();
        else {
          this.#made = true;
          await this.#create(lease);
          this.#fresh = true;
        }
      }
      this.#theirs = false;
      return true;
    } catch (error) {
      this.#theirs = error.code === 'conflict';
      if (patient && this.#theirs) return false;
      throw error;
    }
  }

  // What was stopped may have been removed since, by its service or its owner.
  async #resume() {
    if (this.state !== 'stopped') return false;
    try {
      await this.native.resume();
      return true;
    } catch (error) {
      if (error.code !== 'not_found') throw error;
      this.state = 'idle';
      return false;
    }
  }

  async #create(lease) {
    const layer = await lease.layer();
    if (layer !== undefined) this.native.useLayer(layer);
    await this.native.create();
  }

  /** @internal Another machine in its place, on a layer that was not there before. */
  async recreate(lease, layer) {
    await this.native.destroy();
    this.native.useLayer(layer);
    await this.native.create();
    this.#look();
    await lease.attach(this);
  }

  /** Ends every process; the files are the snapshot's afterwards, or as they were. */
  restore(store, id) {
    return this.#alone('restore', async () => {
      // What is protected is mounted there, so that nothing can take its place
      // while the sandbox runs.
      if (this.facts.protected === undefined) return this.native.snapshot(snapshot.RESTORE, store, id);
      await this.native.destroy();
      try {
        await this.native.snapshot(snapshot.RESTORE, store, id);
      } finally {
        await this.native.connect();
        this.#look();
      }
    });
  }

  #look() {
    const { inside, host } = this.native.place();
    this.epoch = this.native.epoch;
    this.facts = this.native.facts();
    this.capabilities = this.native.capabilities();
    // shown: the workspace as commands see it, which without isolation is its
    // path on the host.
    this.place = { inside, host, shown: this.facts.workspaceInside ?? inside };
  }

  /** Modes by capability name. */
  get modes() {
    return Object.fromEntries(this.capabilities.map(({ name, mode }) => [name, mode]));
  }

  /** The other leases go on; the last one stops the sandbox. */
  stop(lease) {
    return this.#alone('stop', async () => {
      this.active.delete(lease);
      if (this.state !== 'running') return;
      if (this.active.size > 0) return lease.endProcesses();
      await this.native.stop();
      this.state = 'stopped';
      this.#review();
    });
  }

  // No mount keeps commands from making what was missing.
  #review() {
    const { protectedCreated } = this.native.facts();
    if (protectedCreated === undefined || protectedCreated === this.facts.protectedCreated) return;
    this.facts = { ...this.facts, protectedCreated };
    const text =
      `this session made ${protectedCreated.replaceAll(',', ', ')}, which this machine may run later: ` +
      'review it before you use tools in the directory.';
    for (const lease of this.holders) lease.onReview?.(text);
  }

  /** Stops, and leaves the files to whoever asks for this id next. */
  async leave(lease) {
    await this.stop(lease);
    this.holders.delete(lease);
    // What lies in a root is found again by any process, if nobody holds it.
    if (this.provider.options.root !== undefined) await this.#alone('stop', () => this.#close());
  }

  async #close() {
    if (this.holders.size > 0 || this.state === 'closed') return;
    await this.native.close();
    this.state = 'closed';
    const { sessions } = this.provider;
    if (sessions.get(this.id) === this) sessions.delete(this.id);
  }

  destroy(lease) {
    return this.#alone('destroy', async () => {
      if (!this.holders.has(lease)) return;
      if (this.holders.size > 1) await lease.endProcesses();
      else if (!this.#theirs) {
        await this.native.destroy();
        this.#review();
      }
      this.active.delete(lease);
      this.holders.delete(lease);
      await this.#close();
    });
  }

  /**
   * Lets go after a start that failed. What that start has made goes; what was
   * there before is somebody's files, whatever went wrong on the way to it.
   */
  async abandon(lease) {
    if (this.#made) return this.destroy(lease);
    return this.#alone('stop', async () => {
      this.active.delete(lease);
      if (!this.holders.delete(lease) || this.holders.size > 0) return;
      if (this.state === 'running' && !this.provider.remote) await this.native.stop();
      await this.#close();
    });
  }

  /** Destroys what nobody holds. */
  discard() {
    return this.#alone('destroy', async () => {
      if (this.holders.size > 0 || this.state === 'closed') return;
      if (this.state === 'idle') {
        if (!(await this.native.find())) return this.#close();
        // What lies in a root goes without a start, which may be what fails;
        // neither works where another process has it.
        if (this.provider.remote) await this.native.connect();
      }
      await this.native.destroy();
      await this.#close();
    });
  }

  /** The only hosts that can be reached, none for deny; rejects for a wrong one. */
  async setNetwork(hosts) {
    await this.native.setNetwork(hosts);
    this.#look();
    for (const lease of this.holders) lease.refresh();
  }

  /** A host was refused. */
  denied(denial) {
    for (const lease of this.active) lease.denied(denial);
  }

  /** The sandbox is gone by itself; the next start makes or finds one. */
  lost() {
    if (this.state === 'running') this.state = 'lost';
  }

  // Life-cycle calls of different leases must not interleave.
  async #alone(operation, work) {
    refuseInHookOf(this, operation);
    const turn = this.#last.then(work, work);
    this.#last = turn.catch(() => {});
    return turn;
  }
}

// The addon keeps the callback; a reference from there to the session would keep
// a forgotten sandbox alive.
function watchDenials(native, session) {
  native.onDenied?.(denial => session.deref()?.denied(denial));
}

export class Provider {
  #capabilities;
  #store;

  /** @internal */
  constructor(name, { options = {}, env = {}, ports = [], hostFacts, remote = false, secret, templateMode = 'archive', computer } = {}) {
    this.name = name;
    const inner = {
      secret, // a Secret, where a function gives it
      computer, // the class for sandboxes that have a desktop
      templateMode, // 'snapshot': by the service
      remote, // at a service, where sandboxes outlive this process
      options, // for the addon
      env, // of every command, below the overlay
      ports,
      hostFacts,
      sessions: new Map(), // id -> Session that somebody started
      templates: new Map(), // identity -> promise of an archive
    };
    // Not enumerable, nor values: options and env may hold secrets, and printing a
    // provider is common, showHidden included.
    for (const key in inner) Object.defineProperty(this, key, { get: () => inner[key] });
  }

  /** @internal The session of that id, or a new one that is not started. */
  session(spec) {
    return this.sessions.get(spec.id) ?? new Session(this, spec);
  }

  /** @internal Throws for a bad option. Starts nothing. */
  open({ id, named, cwd, ports }) {
    const options = { ...this.options, session: id, cwd, ports: ports.map(String) };
    if (named) options.id = id;
    if (this.hostFacts) options.host = this.hostFacts();
    const open = more => native().open(this.name, { ...options, ...more });
    try {
      return this.secret ? this.secret.open(open) : open();
    } catch (error) {
      throw fromNative(error, this.name);
    }
  }

  /**
   * @internal A folder that goes with this process, whatever becomes of it:
   * {path, native}. The native object holds it.
   */
  store() {
    this.#store ??= this.#openStore();
    this.#store.catch(() => (this.#store = undefined));
    return this.#store;
  }

  async #openStore() {
    const { tmpdir } = await import('node:os');
    const store = native().open('local-store', { host: { tmpdir: tmpdir() } });
    await store.create();
    return { native: store, path: store.facts().path };
  }

  /** @internal Where snapshots are; '' where that is known without us. */
  async snapshotFolder() {
    return this.options.root === undefined ? (await this.store()).path : '';
  }

  /**
   * Forgets the templates of `identity`, and deletes those that a service keeps
   * for this provider instance. One that is still in use there stays, and rejects.
   */
  async close() {
    const templates = [...this.templates];
    const ended = await Promise.allSettled(
      templates.map(async ([identity, made]) => {
        const template = await made.catch(() => undefined);
        await template?.remove();
        if (this.templates.get(identity) === made) this.templates.delete(identity);
      }),
    );
    const failed = ended.find(one => one.status === 'rejected');
    if (failed) throw fromNative(failed.reason, this.name);
  }

  /** The capability map: [{name, mode, reason?}]. */
  capabilityList() {
    const spec = { id: 'capabilities', named: true, cwd: '/workspace', ports: [] };
    if (this.#capabilities === undefined) {
      const opened = this.open(spec);
      this.#capabilities = opened.capabilities();
      opened.close().catch(() => {});
    }
    return this.#capabilities;
  }
}

export function checkProvider(value) {
  if (value instanceof Provider) return value;
  throw invalid(`provider must be what local() or another provider factory returned, not ${show(value)}`);
}
