// A secret of an account that a function gives, such as a token that expires: it
// is asked before the first request and once more where the service refuses what
// it gave; calls at the same time share one question.
import { fromNative, messageOf, SandboxError } from './errors.js';

/** @internal Every call of the addon's object: which side of a service it asks. */
export const calls = {
  // A refusal means that nothing was done.
  account: ['find', 'create', 'connect', 'resume', 'stop', 'destroy', 'pause', 'unpause', 'setNetwork', 'snapshot'],
  sandbox: ['spawn', 'attach', 'list', 'file', 'watch', 'expose', 'touch'],
  none: ['close', 'useLayer', 'unexpose', 'onDenied', 'setSecret', 'place', 'facts', 'capabilities'],
};

export class Secret {
  #ask;
  #name;
  #waits;
  #missing; // what the addon said when there was none
  #provider;
  #asking;
  #value;

  /** `ask`: the user's function, given as the option `name`; `waits`: asked only where the addon finds no secret itself. */
  constructor({ ask, name, waits = false }, provider) {
    this.#ask = ask;
    this.#name = name;
    this.#waits = waits;
    this.#provider = provider;
  }

  /** The addon's object, from `open(options)`. */
  open(open) {
    if (!this.#waits) return this.#guard(open({ keyLater: true }));
    try {
      return open();
    } catch (error) {
      if (error.code !== 'authentication' || this.#ask()) throw error;
      this.#missing = error;
      return this.#guard(open({ keyLater: true }));
    }
  }

  /** The secret; another than `refused`, if there is one. */
  get(refused) {
    if (this.#value !== undefined && this.#value !== refused) return this.#value;
    this.#asking ??= this.#renew().finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  async #renew() {
    const failed = (words, cause) =>
      new SandboxError('authentication', `${this.#name}() ${words}`, { provider: this.#provider, operation: 'start', cause });
    let value;
    try {
      value = await this.#ask();
    } catch (error) {
      throw failed(`failed: ${messageOf(error)}`, error);
    }
    if (!value && this.#missing) throw fromNative(this.#missing, this.#provider);
    if (typeof value !== 'string' || value === '') throw failed('must give a string that is not empty');
    this.#value = value;
    return value;
  }

  // The addon's object, with calls that have the secret.
  #guard(native) {
    let set;
    const use = value => {
      if (value !== set) native.setSecret(value);
      set = value;
    };
    const replace = (name, make) => Object.defineProperty(native, name, { value: make(native[name].bind(native)) });
    for (const name of calls.account) {
      replace(name, call => async (...args) => {
        use(await this.get());
        try {
          return await call(...args);
        } catch (error) {
          if (error?.code !== 'authentication') throw error;
          use(await this.get(set));
          return call(...args);
        }
      });
    }
    // These speak to the sandbox, with its own token; but what extends its time on
    // the way may have been refused.
    for (const name of calls.sandbox) {
      replace(name, call => (...args) => {
        if (native.stale) Promise.resolve(this.get(set)).then(use).catch(() => {}); // the next call that needs it tells
        return call(...args);
      });
    }
    return native;
  }
}
