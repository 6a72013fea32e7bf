// The provider-neutral entry point.
import { fromNative, invalid, messageOf, SandboxError, unsupported } from './errors.js';
import { leaseOptions, openLease } from './lease.js';
import { checkNames, checkObject, checkString, show } from './options.js';
import { Provider, refuseInHookOf } from './provider.js';
import { Sandbox } from './sandbox.js';

export { isSandboxError, SandboxError, sandboxErrorCodes } from './errors.js';

class Owner {
  status = 'pending';
  created; // by this owner's first start
  #reported = false;
  #stopping;

  constructor(lease, kept) {
    this.lease = lease;
    this.kept = kept;
    lease.onReview = text => process.emitWarning(`the sandbox "${lease.options.id}": ${text}`, 'SandboxWarning');
  }

  async ensure() {
    if (this.status === 'stopped' || this.status === 'destroyed') {
      throw new SandboxError('conflict', `the sandbox "${this.lease.options.id}" was ${this.status}: create it again`);
    }
    try {
      const outcome = await this.lease.start();
      this.created ??= outcome === 'created';
    } catch (error) {
      throw fromNative(error, this.lease.provider.name);
    }
    this.status = 'running';
  }

  async stop() {
    refuseInHookOf(this.lease.session, 'stop');
    if (this.status === 'destroyed') return;
    this.status = 'stopped';
    await (this.#stopping ??= this.#release(this.kept ? this.lease.leave() : this.lease.destroy()));
  }

  async destroy() {
    refuseInHookOf(this.lease.session, 'destroy');
    const stopping = this.#stopping;
    this.status = 'destroyed';
    await stopping?.catch(() => {});
    await this.#release(this.lease.destroy());
    if (this.kept && stopping) await this.#release(this.lease.discard());
  }

  async #release(work) {
    try {
      await work;
    } catch (error) {
      throw fromNative(error, this.lease.provider.name);
    }
  }

  report = error => {
    if (this.#reported) return;
    this.#reported = true;
    process.emitWarning(
      `a callback of the sandbox "${this.lease.options.id}" failed: ${messageOf(error)}; later failures are not reported`,
      'SandboxWarning',
    );
  };
}

/**
 * Starts a sandbox, or finds the one of that `id` on this provider instance.
 * Rejects with a SandboxError when it cannot start; wrong options throw at once.
 */
export function createSandbox(options) {
  const given = checkObject(options, 'the options of createSandbox()');
  checkNames(given, leaseOptions, 'createSandbox()');
  return started(new Owner(openLease(given, 'sandbox'), given.id !== undefined));
}

async function started(owner) {
  const { lease } = owner;
  const sandbox = new Sandbox(owner);
  lease.sdk = () => sandbox;
  try {
    await owner.ensure();
  } catch (error) {
    await lease.abandon().catch(() => {});
    throw error;
  }
  return sandbox;
}

/**
 * Runs `work(sandbox)` and lets the sandbox go afterwards, whatever happened: one
 * that this call created is destroyed, one that was found is stopped. With an id
 * in a `root` or at a service, where sandboxes are kept for later processes, it is
 * stopped, too.
 */
export async function withSandbox(options, work) {
  if (typeof work !== 'function') throw invalid(`withSandbox needs a function, not ${show(work)}`);
  const given = checkObject(options, 'the options of withSandbox()');
  checkNames(given, leaseOptions, 'withSandbox()');
  const owner = new Owner(openLease(given, 'sandbox'), given.id !== undefined);
  const sandbox = await started(owner);
  try {
    return await work(sandbox);
  } finally {
    const { options: settings, remote } = owner.lease.provider;
    const rooted = owner.kept && (remote || settings.root !== undefined);
    await (owner.created && !rooted ? sandbox.destroy() : sandbox.stop());
  }
}

function capabilityOf(target, name) {
  checkString(name, 'name');
  const list =
    target instanceof Provider ? target.capabilityList() : (target?.sandboxSdk ?? target)?.capabilityList;
  if (!list) throw invalid(`supports() and its like want a sandbox (of a workspace: workspace.sandbox) or a provider, not ${show(target)}`);
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

const factories = {
  local: () => import('./local.js').then(module => module.local),
  e2b: () => import('./e2b.js').then(module => module.e2bIn),
};

/**
 * The provider that SANDBOX_PROVIDER names ("local" if it is not set), with
 * `options` for its factory.
 */
export async function providerFromEnvironment(options, env = process.env) {
  const name = checkObject(env, 'env').SANDBOX_PROVIDER || 'local';
  if (!Object.hasOwn(factories, name)) {
    throw invalid(`SANDBOX_PROVIDER is ${show(name)}; this version knows ${Object.keys(factories).join(', ')}`);
  }
  const factory = await factories[name]();
  return factory(options, env);
}
