// Watches of folders on the normalised surface.
import { posix } from 'node:path';

import { guard } from './command.js';
import { aborted, fromNative, invalid, SandboxError } from './errors.js';
import { checkBoolean, checkFunction, checkNames, checkObject, checkSignal } from './options.js';

// enum sbx_change
const changes = [undefined, 'create', 'write', 'remove', 'rename', 'chmod'];

/** {onEvent, recursive, signal, onExit}, checked. */
export function checkWatch(onEvent, options) {
  const given = checkObject(options, 'options');
  checkNames(given, ['recursive', 'signal', 'onExit'], 'files.watch()');
  if (typeof onEvent !== 'function') throw invalid('onEvent must be a function: files.watch(path, onEvent, options)');
  checkBoolean(given.recursive, 'recursive');
  checkFunction(given.onExit, 'onExit');
  return { onEvent, recursive: given.recursive === true, signal: checkSignal(given.signal), onExit: given.onExit };
}

const stoppedError = () =>
  new SandboxError('aborted', 'The sandbox was stopped before files.watch() began', { operation: 'files.watch' });

/** One watch of a lease, from its request to its end. */
export class Watch {
  #lease;
  #epoch;
  #onExit;
  #end; // native
  #signal;
  #ready = Promise.withResolvers();
  #began = false;
  #over = false;

  /** Throws a NativeError. */
  constructor(lease, [scope, where], path, { onEvent, recursive, signal, onExit }, report) {
    const event = guard(onEvent, report);
    this.#lease = lease;
    this.#epoch = lease.session.epoch;
    this.#onExit = onExit && guard(onExit, report);
    this.#signal = signal;
    this.#ready.promise.catch(() => {});
    this.#end = lease.native.watch(scope, where, recursive, {
      onReady: () => this.#begin(),
      onChange: (change, name) => event({ type: changes[change], name, path: posix.join(path, name) }),
      onEnd: error => this.#finish(error),
    });
    lease.watches.add(this);
    signal?.addEventListener('abort', this.#abort, { once: true });
  }

  /** Resolves when everything that happens from now on is told; rejects with a NativeError. */
  get ready() {
    return this.#ready.promise;
  }

  #begin() {
    this.#began = true;
    this.#ready.resolve();
  }

  #abort = () => this.stop(aborted('files.watch', this.#signal));

  #finish(error) {
    if (this.#over) return;
    this.#over = true;
    this.#lease.watches.delete(this);
    this.#signal?.removeEventListener('abort', this.#abort);
    if (!this.#began) return this.#ready.reject(error);
    if (error) this.#lease.noteError(error, this.#epoch);
    this.#onExit?.(error && fromNative(error, this.#lease.provider.name));
  }

  /** No more events. */
  stop(error = stoppedError()) {
    this.#end();
    this.#finish(this.#began ? undefined : error);
  }
}
