// envd's watchers: events of a folder, streamed or fetched.
import { randomBytes } from 'node:crypto';
import { lstatSync, statSync } from 'node:fs';
import path from 'node:path';
import { expandPath, Files } from './filesystem.js';
import { RpcError, Stream, readTimeout } from './connect.js';

export class Watchers {
  #polled = new Map();
  #open = new Set();

  constructor(sandbox) {
    this.sandbox = sandbox;
  }

  #folder(message, user) {
    const name = expandPath(message.path, user);
    const { host } = this.sandbox.machine.resolve(name);
    const stat = statSync(host, { throwIfNoEntry: false });
    if (!stat) throw new RpcError('not_found', `path ${name} not found: stat ${name}: no such file or directory`);
    if (!stat.isDirectory()) throw new RpcError('invalid_argument', `path ${name} not a directory: ${name}`);
    return { name, host };
  }

  #entry(folder, name) {
    const files = new Files(this.sandbox);
    const host = path.join(folder.host, name);
    return lstatSync(host, { throwIfNoEntry: false }) && files.entry(path.posix.join(folder.name, name), host);
  }

  #watch(message, user, event) {
    const folder = this.#folder(message, user);
    const withEntry = message.includeEntry && this.sandbox.has('0.6.3');
    const watcher = this.sandbox.machine.watch(folder.host, Boolean(message.recursive), (kind, name) =>
      event({ name, type: `EVENT_TYPE_${kind}`, entry: withEntry ? this.#entry(folder, name) : undefined }),
    );
    this.#open.add(watcher);
    return watcher;
  }

  #end(watcher) {
    this.#open.delete(watcher);
    watcher.close();
  }

  async stream(answer, message, user, headers) {
    const { options } = this.sandbox.store;
    const stream = new Stream(answer, options);
    this.sandbox.hold(stream);
    const timeout = readTimeout(headers);
    const early = [];
    let started = false;
    const watcher = this.#watch(message, user, (filesystem) =>
      started ? stream.send({ filesystem }) : early.push(filesystem),
    );
    stream.onClose.push(() => this.#end(watcher));
    await watcher.ready;
    stream.send({ start: {} });
    started = true;
    for (const filesystem of early) stream.send({ filesystem });
    const seconds = Number(headers['keepalive-ping-interval'] ?? 90);
    const pings = setInterval(() => stream.send({ keepalive: {} }), options.keepaliveMs ?? seconds * 1000).unref();
    stream.onClose.push(() => clearInterval(pings));
    if (timeout === undefined) return;
    const limit = new RpcError('deadline_exceeded', 'context deadline exceeded');
    const timer = setTimeout(() => stream.end(limit), timeout).unref();
    stream.onClose.push(() => clearTimeout(timer));
  }

  async create(message, user) {
    const events = [];
    const watcher = this.#watch(message, user, (event) => events.push(event));
    await watcher.ready;
    const watcherId = `w${randomBytes(8).toString('hex')}`;
    this.#polled.set(watcherId, { watcher, events });
    return { watcherId };
  }

  #find(id) {
    const found = this.#polled.get(id);
    if (!found) throw new RpcError('not_found', `watcher with id ${id} not found`);
    return found;
  }

  drain(message) {
    const events = this.#find(message.watcherId).events.splice(0);
    return events.length ? { events } : {};
  }

  remove(message) {
    this.#end(this.#find(message.watcherId).watcher);
    this.#polled.delete(message.watcherId);
    return {};
  }

  close() {
    for (const watcher of this.#open) watcher.close();
    this.#open.clear();
  }
}
