// What runs inside onFirstCreate must not wait for the start that waits for it.
import { AsyncLocalStorage } from 'node:async_hooks';

import { SandboxError } from './errors.js';

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
