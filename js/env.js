// The environment of commands: what the sandbox gives, what the provider option
// adds, the overlay (setEnv) and the call's own, in this order. undefined
// removes a variable. Nothing of the host's environment is among them.
import { checkEnv, checkVariable } from './options.js';

function toList(env, name) {
  const list = [];
  for (const key in env) {
    const text = checkVariable(key, env[key], name);
    if (text !== undefined) list.push(`${key}=${text}`);
  }
  return list;
}

/** The variables a session gives by itself, from its facts. */
export function baseEnvironment(facts) {
  const base = {
    PATH: facts.path ?? '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: facts.home ?? '/',
    LANG: facts.lang ?? 'C.UTF-8',
    TMPDIR: facts.tmpdir ?? '/tmp',
  };
  if (facts.user) base.USER = base.LOGNAME = facts.user;
  if (facts.shell) base.SHELL = facts.shell;
  for (const key in facts) {
    if (key.startsWith('env.')) base[key.slice(4)] = facts[key];
  }
  return base;
}

export class Environment {
  #base = {};
  #own;
  #overlay;
  #list; // of the three together, built when first needed

  constructor(own, overlay) {
    this.#own = own;
    this.#overlay = overlay;
  }

  setBase(base) {
    this.#base = base;
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
      return (this.#list ??= toList({ ...this.#base, ...this.#own, ...this.#overlay }, 'env'));
    }
    return toList({ ...this.#base, ...this.#own, ...this.#overlay, ...extra }, 'env');
  }
}
