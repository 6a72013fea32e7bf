// The service's sandboxes: their life, their deadlines, snapshots of them.
import { createHmac, randomBytes } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { plainEnv } from '../../helpers/child-env.js';
import { Machine } from '../machine.js';
import { makeFolder, removeFolder } from '../temporary.js';
import { Processes } from './process.js';
import { Watchers } from './watch.js';

const alphabet = 'abcdefghijklmnopqrstuvwxyz0123456789';

function randomName(length) {
  return [...randomBytes(length)].map((byte) => alphabet[byte % 36]).join('');
}

/** Compares versions by number: 0.5.10 is above 0.5.7. */
export function atLeast(version, wanted) {
  const parts = (text) => text.replace(/^v/, '').split('.').map((part) => Number.parseInt(part, 10) || 0);
  const a = parts(version);
  const b = parts(wanted);
  for (let i = 0; i < 3; i++) if (a[i] !== b[i]) return a[i] > b[i];
  return true;
}

export class Sandbox {
  constructor(store, body, { secure, now }) {
    this.store = store;
    this.id = `i${randomName(20)}`;
    this.body = body;
    this.templateID = body.templateID;
    this.envdVersion = store.options.envdVersion;
    this.metadata = body.metadata ?? {};
    this.envVars = body.envVars ?? {};
    this.network = body.network;
    this.allowInternetAccess = body.allow_internet_access ?? null;
    this.state = 'starting';
    this.startedAt = now;
    this.token = secure && this.has('0.1.5') ? this.#derive('envd') : undefined;
    this.trafficToken = body.network?.allowPublicTraffic === false ? this.#derive('traffic') : undefined;
    this.processes = new Processes(this);
    this.watchers = new Watchers(this);
    this.streams = new Set();
  }

  #derive(kind) {
    return createHmac('sha256', 'fake').update(`${kind}:${this.id}`).digest('hex');
  }

  /** Whether this sandbox's envd has what version `version` brought. */
  has(version) {
    return atLeast(this.envdVersion, version);
  }

  get pausesItself() {
    return Boolean(this.body.autoPause);
  }

  get resumesItself() {
    return Boolean(this.body.autoPause && this.body.autoResume?.enabled);
  }

  /** A stream that ends when the sandbox is paused or killed. */
  hold(stream) {
    this.streams.add(stream);
    stream.onClose.push(() => this.streams.delete(stream));
  }

  endStreams() {
    const error = {
      code: 'unavailable',
      message: `the connection to sandbox ${this.id} ended before the stream completed`,
    };
    for (const stream of [...this.streams]) {
      if (this.store.options.cut === 'reset') stream.cut();
      else stream.end(error);
    }
  }
}

/** All sandboxes and templates of one fake. */
export class Sandboxes {
  #offset = 0;
  #timer;
  #busy = new Set();

  constructor(options) {
    this.options = options;
    this.all = new Map();
    this.templates = new Map();
    for (const name of options.templates) this.templates.set(name, { id: name === 'base' ? 'rki5dems9wqfm4r03t7g' : randomName(20), alias: name, names: [] });
  }

  now() {
    return this.options.now() + this.#offset;
  }

  findTemplate(name) {
    const plain = name.replace(/:default$/, '');
    for (const [key, template] of this.templates)
      if (key === plain || template.id === plain || template.names.includes(plain)) return template;
    return undefined;
  }

  get(id) {
    return this.all.get(id);
  }

  #deadline(seconds, now) {
    return now + Math.min(seconds, this.options.maxAge) * 1000;
  }

  async create(body, { secure, timeout }) {
    const now = this.now();
    const template = this.findTemplate(body.templateID);
    const sandbox = new Sandbox(this, body, { secure, now });
    sandbox.templateID = template.id;
    sandbox.alias = template.alias;
    sandbox.endAt = this.#deadline(timeout, now);
    sandbox.machine = new Machine({ from: template.folder });
    this.all.set(sandbox.id, sandbox);
    try {
      await this.options.onCreate(sandbox);
      await sandbox.machine.boot();
    } catch (error) {
      this.all.delete(sandbox.id);
      sandbox.machine.removeFolder();
      throw error;
    }
    sandbox.state = 'running';
    this.#arm();
    return sandbox;
  }

  setTimeout(sandbox, seconds) {
    sandbox.endAt = this.#deadline(seconds, this.now());
    this.#arm();
  }

  /** Only ever later: what `connect` does to a running sandbox. */
  extend(sandbox, seconds) {
    sandbox.endAt = Math.max(sandbox.endAt, this.#deadline(seconds, this.now()));
    this.#arm();
  }

  async pause(sandbox, memory = true) {
    sandbox.state = 'pausing';
    sandbox.endStreams();
    if (memory) await sandbox.machine.freeze();
    else await this.#coldStop(sandbox);
    await this.options.pauseTakes();
    sandbox.state = 'paused';
    sandbox.endAt = this.now();
  }

  async #coldStop(sandbox) {
    await sandbox.machine.halt();
    sandbox.processes.forget();
    sandbox.cold = true;
  }

  async resume(sandbox, seconds, memory = true) {
    sandbox.state = 'resuming';
    await this.options.pauseTakes();
    if (!memory && !sandbox.cold) await this.#coldStop(sandbox);
    if (sandbox.cold) await sandbox.machine.boot();
    else await sandbox.machine.thaw();
    sandbox.cold = false;
    sandbox.startedAt = this.now();
    sandbox.endAt = this.#deadline(seconds, this.now());
    sandbox.state = 'running';
    this.#arm();
  }

  async kill(sandbox) {
    this.all.delete(sandbox.id);
    sandbox.state = 'killed';
    sandbox.endStreams();
    sandbox.watchers.close();
    sandbox.processes.forget();
    // The kernel may take its time with the namespaces; `close` waits for it.
    const work = sandbox.machine.destroy();
    this.#busy.add(work);
    work.catch((error) => this.options.report(error)).finally(() => this.#busy.delete(work));
  }

  /** -> { snapshotID, names }, a template that `create` takes. */
  snapshot(sandbox, name) {
    const id = randomName(20);
    const folder = makeFolder('fake-snapshot-');
    execFileSync('cp', ['-a', `${sandbox.machine.folder}/.`, folder], { env: plainEnv() });
    const names = name ? [`my-team/${name.replace(/^my-team\//, '')}`] : [];
    this.templates.set(id, { id, alias: names[0], names, folder, sandboxID: sandbox.id });
    return this.describeSnapshot(this.templates.get(id));
  }

  describeSnapshot(template) {
    return { snapshotID: `${template.names[0] ?? template.id}:default`, names: template.names };
  }

  snapshots() {
    return [...this.templates.values()].filter((template) => template.folder);
  }

  deleteTemplate(template) {
    this.templates.delete(template.id);
    if (template.folder) removeFolder(template.folder);
  }

  async fork(sandbox, timeout) {
    const id = `fork-${randomName(8)}`;
    const folder = makeFolder('fake-snapshot-');
    execFileSync('cp', ['-a', `${sandbox.machine.folder}/.`, folder], { env: plainEnv() });
    this.templates.set(id, { id, alias: sandbox.alias, names: [], folder });
    try {
      return await this.create({ ...sandbox.body, templateID: id }, { secure: Boolean(sandbox.token), timeout });
    } finally {
      this.deleteTemplate({ id, folder });
    }
  }

  async #expire(sandbox) {
    if (sandbox.pausesItself) await this.pause(sandbox, sandbox.body.autoPauseMemory !== false);
    else await this.kill(sandbox);
  }

  async sweep() {
    const now = this.now();
    for (const sandbox of [...this.all.values()])
      if (sandbox.state === 'running' && sandbox.endAt <= now) await this.#expire(sandbox);
    this.#arm();
  }

  #arm() {
    clearTimeout(this.#timer);
    const ends = [...this.all.values()].filter((one) => one.state === 'running').map((one) => one.endAt);
    if (!ends.length || this.closed) return;
    const wait = Math.min(Math.max(0, Math.min(...ends) - this.now()), 2 ** 31 - 1);
    this.#timer = setTimeout(() => this.sweep().catch((error) => this.options.report(error)), wait).unref();
  }

  async advance(ms) {
    this.#offset += ms;
    await this.sweep();
  }

  async close() {
    this.closed = true;
    clearTimeout(this.#timer);
    await Promise.all([...this.all.values()].map((sandbox) => this.kill(sandbox)));
    await Promise.all(this.#busy);
    for (const template of this.snapshots()) this.deleteTemplate(template);
  }
}
