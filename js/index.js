// The provider-neutral entry point.
import { fromNative, invalid, SandboxError, unsupported } from './errors.js';
import { openLease } from './lease.js';
import { checkObject, checkString, show } from './options.js';
import { Provider } from './provider.js';
import { Sandbox } from './sandbox.js';

export { isSandboxError, SandboxError, sandboxErrorCodes } from './errors.js';

class Owner {
  status = 'pending';

  constructor(lease, kept) {
    this.lease = lease;
    this.kept = kept;
  }

  async ensure() {
    if (this.status === 'stopped') {
      throw new SandboxError('conflict', `the sandbox "${this.lease.options.id}" was stopped: create it again`);
    }
    try {
      await this.lease.start();
    } catch (error) {
      throw fromNative(error, this.lease.provider.name);
    }
    this.status = 'running';
  }

  async stop() {
    if (this.status === 'stopped') return;
    this.status = 'stopped';
    if (this.kept) await this.lease.leave();
    else await this.lease.destroy();
  }
}

/**
 * Starts a sandbox, or finds the one of that `id` on this provider instance.
 * Rejects with a SandboxError when it cannot start; wrong options throw at once.
 */
export function createSandbox(options) {
  const given = checkObject(options, 'the options of createSandbox()');
  const lease = openLease(given, 'sandbox');
  return started(lease, given.id !== undefined);
}

async function started(lease, kept) {
  const owner = new Owner(lease, kept);
  const sandbox = new Sandbox(owner);
  lease.sdk = sandbox;
  try {
    await owner.ensure();
  } catch (error) {
    await lease.destroy().catch(() => {});
    throw error;
  }
  return sandbox;
}

/** Runs `work(sandbox)` and stops the sandbox afterwards, whatever happened. */
export async function withSandbox(options, work) {
  if (typeof work !== 'function') throw invalid(`withSandbox needs a function, not ${show(work)}`);
  const sandbox = await createSandbox(options);
  try {
    return await work(sandbox);
  } finally {
    await sandbox.stop();
  }
}

function capabilityOf(target, name) {
  checkString(name, 'name');
  const list =
    target instanceof Provider ? target.capabilityList() : (target?.sandboxSdk ?? target)?.capabilityList;
  if (!list) throw invalid(`supports() and its like want a sandbox or a provider, not ${show(target)}`);
  return list.find(capability => capability.name === name) ?? { name, mode: 'unsupported' };
}

/** Whether a sandbox or provider has the capability, natively or emulated. */
export function supports(target, name) {
  return capabilityOf(target, name).mode !== 'unsupported';
}

/** "native", "emulated" or "unsupported". */
export function capabilityMode(target, name) {
  return capabilityOf(target, name).mode;
}

/** Throws a SandboxError `unsupported` that says why the capability is missing. */
export function requireCapability(target, name) {
  const { mode, reason } = capabilityOf(target, name);
  if (mode === 'unsupported') throw unsupported(`${name} is not supported${reason ? `: ${reason}` : ''}`, name);
  return mode;
}

const factories = { local: () => import('./local.js').then(module => module.local) };

/**
 * The provider that SANDBOX_PROVIDER names ("local" if it is not set), with
 * `options` for its factory.
 */
export async function providerFromEnvironment(options, env = process.env) {
  const name = env.SANDBOX_PROVIDER || 'local';
  if (!Object.hasOwn(factories, name)) {
    throw invalid(`SANDBOX_PROVIDER is ${show(name)}; this version knows ${Object.keys(factories).join(', ')}`);
  }
  const factory = await factories[name]();
  return factory(options);
}
