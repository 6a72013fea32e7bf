// A provider instance: options checked once, and the sessions and templates that
// belong to it. Made by the factories (local() ...), used by both surfaces.
import { fromNative, invalid } from './errors.js';
import { native } from './load.js';
import { show } from './options.js';
import { Session } from './session.js';

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
