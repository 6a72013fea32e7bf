// onFirstCreate, and the templates that `identity` makes of it: the first session
// of an identity runs the hook, its workspace becomes an archive that goes with
// this process, and later sessions of the same provider instance start with its
// files: over a layer of them where that can be, else as a copy.
import { fromNative, isSandboxError, messageOf, SandboxError } from './errors.js';
import { snapshot } from './native.js';
import { insideHook, refuseInTemplate } from './provider.js';

/** What a session that is about to be created may lie on; undefined if nothing. */
export async function layerFor(lease) {
  refuseInTemplate(lease.provider, lease.options.identity);
  const template = await lease.provider.templates.get(lease.options.identity)?.catch(() => undefined);
  return template?.layer();
}

export async function firstCreate(lease) {
  const { identity } = lease.options;
  if (identity === undefined) return runHook(lease);
  refuseInTemplate(lease.provider, identity);
  const { templates } = lease.provider;
  while (templates.has(identity)) {
    const template = await templates.get(identity).catch(() => undefined);
    if (template) return template.isUnder(lease) ? undefined : template.copyTo(lease);
    // It failed and is forgotten: whoever comes first tries again.
  }
  const kind = lease.provider.templateMode === 'snapshot' ? ServiceTemplate : Template;
  const made = runHook(lease).then(() => kind.of(lease));
  templates.set(identity, made);
  made.catch(() => templates.delete(identity));
  await made;
}

async function runHook(lease) {
  try {
    await insideHook(lease, async () => lease.options.onFirstCreate(await lease.sdk()));
  } catch (error) {
    const message = messageOf(error);
    const code = isSandboxError(error) ? error.code : 'provider_error';
    throw new SandboxError(code, `onFirstCreate failed: ${message}`, {
      cause: error,
      provider: lease.provider.name,
      operation: 'onFirstCreate',
    });
  }
}

class Template {
  #store;
  #id;
  #layer;

  static async of(lease) {
    const { provider } = lease;
    const template = new Template();
    try {
      template.#store = await provider.store();
      template.#id = `template-${crypto.randomUUID()}`;
      await lease.native.snapshot(snapshot.CREATE, template.#store.path, template.#id);
      return template;
    } catch (error) {
      throw fromNative(error, provider.name);
    }
  }

  /** Path of the files as a layer, made when first needed. */
  layer() {
    this.#layer ??= this.#store.native.snapshot(snapshot.LAYER, '', this.#id).then(
      () => `${this.#store.path}/${this.#id}.layer`,
      () => undefined, // the copy is as good
    );
    return this.#layer;
  }

  isUnder(lease) {
    return lease.session.facts.template === 'overlay';
  }

  async copyTo(lease) {
    await lease.native.snapshot(snapshot.SEED, this.#store.path, this.#id);
  }

  async remove() {
    await this.#store.native.snapshot(snapshot.DELETE, this.#store.path, this.#id).catch(() => {}); // sessions lie on it
  }
}

// The whole machine as its service keeps it.
class ServiceTemplate {
  #provider;
  #id;

  static async of(lease) {
    const { provider } = lease;
    const template = new ServiceTemplate();
    try {
      const [{ id }] = await lease.native.snapshot(snapshot.CREATE, '', '');
      template.#provider = provider;
      template.#id = id;
      return template;
    } catch (error) {
      throw fromNative(error, provider.name);
    }
  }

  layer() {
    return this.#id;
  }

  isUnder(lease) {
    return lease.session.facts.template === this.#id;
  }

  // Nothing else than a new machine can start from it.
  copyTo(lease) {
    return lease.session.recreate(lease, this.#id);
  }

  async remove() {
    const opened = this.#provider.open({ id: 'templates', named: false, cwd: '/workspace', ports: [] });
    try {
      await opened.snapshot(snapshot.DELETE, '', this.#id);
    } finally {
      await opened.close();
    }
  }
}
