// Snapshots of a sandbox's workspace: kept below `root` for every later process,
// else by this provider instance for as long as it and this process live.
import { fromNative, invalid } from './errors.js';
import { snapshot } from './native.js';
import { show, snapshotId } from './options.js';

const PREFIX = 'snapshot-';

function nameOf(id) {
  try {
    return id.startsWith(PREFIX) ? undefined : decodeURIComponent(id);
  } catch {
    return undefined;
  }
}

function shown({ id, bytes, createdMs }) {
  return { id, name: nameOf(id), bytes, createdAt: new Date(createdMs) };
}

function checkSnapshotId(id) {
  if (typeof id === 'string' && /^[A-Za-z0-9_%-]{1,240}$/.test(id)) return id;
  throw invalid(`id must be the id that snapshots.create() returned, not ${show(id)}`);
}

export class Snapshots {
  #owner;

  constructor(owner) {
    this.#owner = owner;
  }

  /**
   * Keeps the workspace as it is now: {id, name?, bytes, createdAt}. One of the
   * same name is replaced when the new one is whole.
   */
  async create(name) {
    const id = snapshotId(name) ?? PREFIX + crypto.randomUUID();
    await this.#started();
    const [made] = await this.#call(store => this.#lease.native.snapshot(snapshot.CREATE, store, id));
    return shown(made);
  }

  /**
   * Ends every process and puts the snapshot in the place of everything in the
   * workspace. If that fails, the workspace is as it was.
   */
  async restore(id) {
    checkSnapshotId(id);
    await this.#started();
    await this.#call(store => this.#lease.session.restore(store, id));
  }

  async delete(id) {
    checkSnapshotId(id);
    await this.#call(store => this.#lease.native.snapshot(snapshot.DELETE, store, id));
  }

  /** The oldest first. */
  async list() {
    return (await this.#call(store => this.#lease.native.snapshot(snapshot.LIST, store))).map(shown);
  }

  get #lease() {
    return this.#owner.lease;
  }

  async #started() {
    if (!this.#lease.live) await this.#owner.ensure();
  }

  async #call(work) {
    const { provider } = this.#lease;
    try {
      return await work(await provider.snapshotFolder());
    } catch (error) {
      throw fromNative(error, provider.name);
    }
  }
}
