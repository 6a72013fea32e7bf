// A provider instance: options checked once, and the sessions and templates that
// belong to it. Made by the factories (local() ...), used by both surfaces.
//
// A session is one sandbox; a lease (lease.js) is one user's hold on it.
// Everybody who asks a provider instance for the same id shares a session: it is
// started once, stops when the last one stops and is destroyed when the last one
// lets go.
import { fromNative, invalid } from './errors.js';
import { native } from './load.js';
import { show } from './options.js';

class Session {
  state = 'idle'; // running, stopped, lost, closed
  holders = new Set(); // leases between start and destroy
  active = new Set(); // of them, those that are running
  facts = {};
  #fresh = false; // created, and not yet made ready by onFirstCreate
  #last = Promise.resolve();

  constructor(provider, spec) {
    this.provider = provider;
    this.id = spec.id;
    this.spec = spec;
    this.native = provider.open(spec);
    this.#look();
  }

  get capabilities() {
    return this.native.capabilities();
  }

  /** 'created' or 'connected'. */
  acquire(lease) {
    return this.#alone(async () => {
      if (this.state === 'closed') return undefined;
      this.holders.add(lease);
      await this.#bringUp();
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

  async #bringUp() {
    if (this.state === 'running') return;
    if (this.state === 'stopped') {
      await this.native.resume();
    } else if (await this.native.find()) {
      await this.native.connect();
    } else {
      await this.native.create();
      this.#fresh = true;
    }
    this.state = 'running';
    this.#look();
  }

  #look() {
    const { inside, host } = this.native.place();
    this.facts = this.native.facts();
    // shown: the workspace as commands see it, which without isolation is its
    // path on the host.
    this.place = { inside, host, shown: this.facts.workspaceInside ?? inside };
  }

  /** The other leases go on; the last one stops the sandbox. */
  stop(lease) {
    return this.#alone(async () => {
      this.active.delete(lease);
      if (this.state !== 'running') return;
      if (this.active.size > 0) return lease.endProcesses();
      await this.native.stop();
      this.state = 'stopped';
    });
  }

  /** Stops, and leaves the sandbox to whoever asks for its id next. */
  async leave(lease) {
    await this.stop(lease);
    this.holders.delete(lease);
  }

  destroy(lease) {
    return this.#alone(async () => {
      if (!this.holders.has(lease)) return;
      if (this.holders.size > 1) {
        await lease.endProcesses();
      } else {
        await this.native.destroy();
        await this.native.close();
        this.state = 'closed';
        const { sessions } = this.provider;
        if (sessions.get(this.id) === this) sessions.delete(this.id);
      }
      this.active.delete(lease);
      this.holders.delete(lease);
    });
  }

  /** The sandbox is gone by itself; the next start makes or finds one. */
  lost() {
    if (this.state === 'running') this.state = 'lost';
  }

  // Life-cycle calls of different leases must not interleave.
  #alone(work) {
    const turn = this.#last.then(work, work);
    this.#last = turn.catch(() => {});
    return turn;
  }
}

export class Provider {
  #capabilities;

  /** @internal */
  constructor(name, { options = {}, env = {}, ports = [], hostFacts } = {}) {
    this.name = name;
    const inner = {
      options, // for the addon
      env, // of every command, below the overlay
      ports,
      hostFacts,
      sessions: new Map(), // id -> Session that somebody started
      templates: new Map(), // identity -> promise of an archive
    };
    // Not enumerable: env may hold secrets, and printing a provider is common.
    for (const key in inner) Object.defineProperty(this, key, { value: inner[key] });
  }

  /** @internal The session of that id, or a new one that is not started. */
  session(spec) {
    return this.sessions.get(spec.id) ?? new Session(this, spec);
  }

  /** @internal Throws for a bad option. Starts nothing. */
  open({ id, named, cwd, ports }) {
    const options = { ...this.options, cwd, ports: ports.map(String) };
    if (named) options.id = id;
    if (this.hostFacts) options.host = this.hostFacts();
    try {
      return native().open(this.name, options);
    } catch (error) {
      throw fromNative(error, this.name);
    }
  }

  /** The capability map: [{name, mode, reason?}]. */
  capabilityList() {
    return (this.#capabilities ??= this.open({ id: 'capabilities', named: true, cwd: '/workspace', ports: [] }).capabilities());
  }
}

export function checkProvider(value) {
  if (value instanceof Provider) return value;
  throw invalid(`provider must be what local() or another provider factory returned, not ${show(value)}`);
}
