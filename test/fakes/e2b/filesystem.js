// envd's filesystem service: it acts as root and gives what it makes to the
// caller's user.
import * as fs from 'node:fs';
import path from 'node:path';
import { chown, ownerName, users } from '../machine.js';
import { RpcError } from './connect.js';

const words = {
  ENOENT: 'no such file or directory',
  ENOTDIR: 'not a directory',
  EISDIR: 'is a directory',
  ENOTEMPTY: 'directory not empty',
  EEXIST: 'file exists',
  EACCES: 'permission denied',
  EXDEV: 'invalid cross-device link',
  EROFS: 'read-only file system',
  ELOOP: 'too many levels of symbolic links',
  ENAMETOOLONG: 'file name too long',
};

/** Go's text for an errno. */
export function errnoText(error) {
  return words[error.code] ?? error.message;
}

/** What a caller's path means: `~`, relative to home, empty is home. */
export function expandPath(wanted, user) {
  const { home } = users[user];
  if (!wanted || wanted === '~') return home;
  if (wanted.startsWith('~/')) return path.posix.join(home, wanted.slice(2));
  if (wanted.startsWith('~')) throw new RpcError('invalid_argument', "cannot expand user-specific home dir");
  return wanted.startsWith('/') ? path.posix.normalize(wanted) : path.posix.join(home, wanted);
}

function withoutEnd(name) {
  return name.length > 1 ? name.replace(/\/+$/, '') : name;
}

function bits(mode) {
  const letters = 'rwxrwxrwx';
  return [...letters].map((letter, i) => (mode & (0o400 >> i) ? letter : '-')).join('');
}

// Go's os.FileMode.String().
function modeText(stat) {
  let kind = '';
  if (stat.isDirectory()) kind += 'd';
  if (stat.isSymbolicLink()) kind += 'L';
  if (stat.isFIFO()) kind += 'p';
  if (stat.isSocket()) kind += 'S';
  if (stat.isCharacterDevice()) kind += 'Dc';
  if (stat.isBlockDevice()) kind += 'D';
  if (stat.mode & 0o4000) kind += 'u';
  if (stat.mode & 0o2000) kind += 'g';
  if (stat.mode & 0o1000) kind += 't';
  return (kind || '-') + bits(stat.mode);
}

function typeOf(stat) {
  if (stat?.isFile()) return 'FILE_TYPE_FILE';
  return stat?.isDirectory() ? 'FILE_TYPE_DIRECTORY' : undefined;
}

function goTime(nanoseconds) {
  const whole = nanoseconds / 1_000_000_000n;
  const rest = String(nanoseconds % 1_000_000_000n).padStart(9, '0');
  return `${new Date(Number(whole) * 1000).toISOString().slice(0, 19)}.${rest}Z`;
}

/** The names in a machine's filesystem as one envd sees them. */
export class Files {
  constructor(sandbox) {
    this.sandbox = sandbox;
    this.machine = sandbox.machine;
  }

  locate(name, options) {
    return this.machine.resolve(name, options);
  }

  /** The metadata that uploads gave, by the file's inode. */
  get #metadata() {
    return (this.sandbox.fileMetadata ??= new Map());
  }

  metadataOf(host) {
    const stat = fs.statSync(host, { throwIfNoEntry: false });
    return stat && this.#metadata.get(stat.ino);
  }

  setMetadata(host, values) {
    const { ino } = fs.statSync(host);
    if (Object.keys(values).length) this.#metadata.set(ino, values);
    else this.#metadata.delete(ino);
  }

  /** EntryInfo of an existing name; `link` tells of the link itself. */
  entry(name, host) {
    const { sandbox } = this;
    const stat = fs.lstatSync(host, { bigint: false });
    const exact = fs.lstatSync(host, { bigint: true });
    const isLink = stat.isSymbolicLink();
    const target = isLink ? this.#target(name) : { inner: name, stat };
    const entry = { name: path.posix.basename(name), type: typeOf(target.stat), path: name };
    if (!sandbox.has('0.2.1')) return entry;
    Object.assign(entry, {
      size: stat.size ? String(stat.size) : undefined,
      mode: (target.stat ?? stat).mode & 0o777 || undefined,
      permissions: modeText(stat),
      owner: ownerName(stat.uid),
      group: ownerName(stat.gid),
      modifiedTime: goTime(exact.mtimeNs),
    });
    if (isLink && sandbox.has('0.2.5')) entry.symlinkTarget = target.inner;
    if (sandbox.has('0.6.2')) entry.metadata = this.metadataOf(host);
    return entry;
  }

  #target(name) {
    try {
      const { inner, host } = this.locate(name);
      const stat = fs.statSync(host, { throwIfNoEntry: false });
      return stat ? { inner, stat } : { inner: name };
    } catch {
      return { inner: name };
    }
  }

  /** Makes a folder and its parents; new ones belong to `user`. */
  makeParents(name, user) {
    const { inner } = this.locate(name);
    let made = '';
    for (const part of inner.split('/').filter(Boolean)) {
      made += `/${part}`;
      const { host } = this.locate(made);
      const stat = fs.statSync(host, { throwIfNoEntry: false });
      if (stat && !stat.isDirectory()) throw new RpcError('internal', `path is a file: ${made}`);
      if (stat) continue;
      this.#allow(made);
      fs.mkdirSync(host, 0o755);
      fs.chmodSync(host, 0o755);
      chown(host, users[user].uid);
    }
  }

  #allow(inner) {
    if (!this.machine.writable(inner)) throw new RpcError('internal', `error: ${inner}: read-only file system`);
  }

  stat(message, user) {
    const name = withoutEnd(expandPath(message.path, user));
    try {
      const { host } = this.locate(name, { last: false });
      return { entry: this.entry(name, host) };
    } catch (error) {
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR')
        throw new RpcError('not_found', `file not found: lstat ${name}: ${errnoText(error)}`);
      throw error;
    }
  }

  #collect(name, host, depth, found) {
    for (const child of fs.readdirSync(host).sort()) {
      const inner = path.posix.join(name, child);
      const { host: at } = this.locate(inner, { last: false });
      const entry = this.entry(inner, at);
      found.push(entry);
      if (depth > 1 && fs.lstatSync(at).isDirectory()) this.#collect(inner, at, depth - 1, found);
    }
    return found;
  }

  listDir(message, user) {
    const name = withoutEnd(expandPath(message.path, user));
    let host;
    try {
      host = this.locate(name).host;
      if (!fs.statSync(host).isDirectory())
        throw new RpcError('invalid_argument', `path is not a directory: ${name}`);
    } catch (error) {
      if (error.code === 'ELOOP') throw new RpcError('failed_precondition', `too many levels of symbolic links: ${name}`);
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR')
        throw new RpcError('not_found', `path not found: stat ${name}: ${errnoText(error)}`);
      throw error;
    }
    const depth = this.sandbox.has('0.1.6') ? message.depth || 1 : 1;
    const entries = this.#collect(name, host, depth, []);
    return entries.length ? { entries } : {};
  }

  makeDir(message, user) {
    const name = withoutEnd(expandPath(message.path, user));
    const { host } = this.locate(name);
    const stat = fs.statSync(host, { throwIfNoEntry: false });
    if (stat?.isDirectory()) throw new RpcError('already_exists', `directory already exists: ${name}`);
    if (stat) throw new RpcError('invalid_argument', `path already exists but it is not a directory: ${name}`);
    this.makeParents(name, user);
    return { entry: this.entry(name, host) };
  }

  move(message, user) {
    const from = withoutEnd(expandPath(message.source, user));
    const to = withoutEnd(expandPath(message.destination, user));
    this.makeParents(path.posix.dirname(to), user);
    const source = this.locate(from, { last: false });
    const destination = this.locate(to, { last: false });
    this.#allow(destination.inner);
    try {
      fs.renameSync(source.host, destination.host);
    } catch (error) {
      const text = `rename ${from} ${to}: ${errnoText(error)}`;
      if (error.code === 'ENOENT') throw new RpcError('not_found', `source file not found: ${text}`);
      throw new RpcError('internal', `error renaming: ${text}`);
    }
    return { entry: this.entry(to, destination.host) };
  }

  remove(message, user) {
    const name = withoutEnd(expandPath(message.path, user));
    try {
      const { inner, host } = this.locate(name, { last: false });
      if (inner === '/' || !this.machine.writable(inner))
        throw new RpcError('internal', `error removing file or directory: unlinkat ${name}: device or resource busy`);
      fs.rmSync(host, { recursive: true, force: true });
    } catch (error) {
      if (error instanceof RpcError || error.code !== 'ENOTDIR') throw error;
    }
    return {};
  }
}
