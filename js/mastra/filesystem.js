// Mastra's filesystem on the workspace of a sandbox. Every method is one native
// call; paths are resolved there.
import { posix } from 'node:path';

import { below } from '../command.js';
import { invalid } from '../errors.js';
import { flag, native, type, verb, WORKSPACE } from '../native.js';
import { checkBoolean, checkFunction, checkInstructions, checkObject, checkString, checkStrings, show } from '../options.js';
import { types, whole } from '../values.js';
import { core, fileError } from './core.js';
import { filesInstructionsFor, resolveInstructions } from './instructions.js';

const MAX_DEPTH = 100;

// Mastra's text files, and some that are none of them.
const textExtensions = (
  '.md .txt .json .yaml .yml .js .mjs .ts .tsx .jsx .py .rb .go .rs .java .c .cpp .h .hpp .sh .bash .zsh .html .htm ' +
  '.css .xml .toml .ini .env .csv .sql .graphql .gql .vue .svg .mdx .scss .sass .less .svelte .php .swift .kt .kts ' +
  '.dart .lua .r .tf .tfvars .sas .log .jsonl'
).split(' ');
const unknown = '.cjs .cts .mts .rst .proto .zig .ex .cs .m .pl .tex'.split(' ');

export class SandboxSdkFilesystem extends core.MastraFilesystem {
  status = 'pending';
  #sandbox;
  #lease;
  #instructions;
  #gitignore; // as Mastra's grep tool has just read it

  /** `sandbox` is a SandboxSdkSandbox; the files are those of its workspace. */
  constructor(options) {
    const { sandbox, readOnly, instructions, onInit, onDestroy, textExtensions, id } = checkObject(options, 'the options of SandboxSdkFilesystem');
    if (!sandbox?._lease) throw invalid(`sandbox must be what createMastraSandbox() returned, not ${show(sandbox)}`);
    checkFunction(onInit, 'filesystem.onInit');
    checkFunction(onDestroy, 'filesystem.onDestroy');
    super({
      name: 'SandboxSdkFilesystem',
      onInit,
      onDestroy,
      textExtensions: checkStrings(textExtensions, 'filesystem.textExtensions'),
    });
    this.#sandbox = sandbox;
    this.#lease = sandbox._lease;
    this.#instructions = checkInstructions(instructions, 'filesystem.instructions');
    this.id = checkString(id, 'filesystem.id') ?? `${sandbox.id}-filesystem`;
    this.name = 'SandboxSdkFilesystem';
    this.provider = 'sandbox-sdk-native';
    this.displayName = `${sandbox.provider} sandbox`;
    this.readOnly = checkBoolean(readOnly, 'filesystem.readOnly') ?? false;
    this.basePath = scopeOf(this.#lease);
  }

  // -- reading

  readFile(path, options) {
    const encoding = options?.encoding ?? undefined;
    return encoding === undefined ? this.#file('readFile', verb.READ, path) : this.#readText(path, encoding);
  }

  async #readText(path, encoding) {
    if (typeof encoding !== 'string') throw wrong('readFile', path, `encoding must be a string, not ${show(encoding)}`);
    if (!Buffer.isEncoding(encoding)) throw new TypeError(`Unknown encoding: ${encoding}`);
    if (!/^utf-?8$/i.test(encoding)) return (await this.#file('readFile', verb.READ, path)).toString(encoding);
    return path === '.gitignore' ? this.#readGitignore() : this.#file('readFile', verb.READ, path, { text: true });
  }

  // The tool goes on with stat and grep, which wants it, too.
  async #readGitignore() {
    try {
      return (this.#gitignore = await this.#file('readFile', verb.READ, '.gitignore', { text: true }));
    } catch (error) {
      if (error.code === 'ENOENT') this.#gitignore = '';
      throw error;
    }
  }

  async stat(path) {
    const stat = await this.#file('stat', verb.STAT, path);
    const spelled = this.#spell(path);
    const directory = stat.type === type.DIRECTORY;
    const made = {
      name: posix.basename(spelled),
      path: spelled,
      type: directory ? 'directory' : 'file',
      size: directory ? 0 : stat.size,
      createdAt: new Date(stat.createdMs),
      modifiedAt: new Date(stat.modifiedMs),
    };
    const mimeType = directory ? undefined : native().mime(spelled);
    if (mimeType !== undefined) made.mimeType = mimeType;
    return made;
  }

  /** false for what cannot be reached, too; throws only if the sandbox cannot run. */
  async exists(path) {
    await this.#ready();
    try {
      return await this.#file('exists', verb.EXISTS, path);
    } catch (error) {
      if (error instanceof core.SandboxError) throw error;
      return false;
    }
  }

  async readdir(path, options) {
    const { recursive, extension, maxDepth = MAX_DEPTH } = options ?? {};
    checkNumber('readdir', path, maxDepth, 'maxDepth');
    const deep = recursive === true && maxDepth > 0;
    const listing = await this.#file('readdir', verb.READDIR, path, {
      flags: deep ? flag.RECURSIVE : 0,
      maxDepth: deep ? Math.min(maxDepth, MAX_DEPTH) : 0,
      extensions: dotted(path, extension),
    });
    return (await decoder()).decodeListing(listing);
  }

  /** Everything below `path` in one call; root entries are depth 1. */
  async walk(path, options) {
    const { maxDepth = MAX_DEPTH, includeHidden = false } = options ?? {};
    checkNumber('walk', path, maxDepth, 'maxDepth');
    const listing = await this.#file('walk', verb.WALK, path, {
      flags: includeHidden ? flag.HIDDEN : 0,
      maxDepth: Math.max(1, Math.min(maxDepth, MAX_DEPTH)),
    });
    if (maxDepth < 1) return [];
    const { decodeListing, walked } = await decoder();
    return decodeListing(listing, walked);
  }

  /** Searches file contents with a JavaScript pattern, under a time limit. */
  async grep(options) {
    checkSearch(options);
    await this.#ready();
    const gitignore = this.#gitignore;
    this.#gitignore = undefined;
    const { grep } = await import('../grep.js');
    try {
      return await grep(this.#lease.native, options, {
        gitignore,
        extensions: this.#knownText(),
        isTextFile: this.isTextFile && (name => this.isTextFile(name)),
      });
    } catch (error) {
      if (error?.code === 'timeout') return this.#stoppedSearch(error, options.path);
      throw fileError(error, 'grep', options.path);
    }
  }

  // After a throw Mastra's tool runs the same pattern in this very thread, where
  // nothing could end it. So what happened is told as a line of the result.
  #stoppedSearch(error, path) {
    this.logger?.warn(error.message, { path });
    const text = `[${error.message}]`;
    return [{ path: error.path || 'search-stopped.txt', matches: [{ line: 1, column: 0, text }] }];
  }

  // What the search may read. Mastra drops the other files afterwards, so they
  // are left out only where its set is surely the one known here.
  #knownText() {
    const known = [...textExtensions, ...(this._textExtensions ?? [])];
    if (!this.isTextFile) return known; // older cores
    const isText = one => this.isTextFile(`a${one}`);
    const same = known.every(isText) && !unknown.some(one => !known.includes(one) && isText(one));
    return same ? known : undefined;
  }

  /** The path without links, spelled "/...". */
  async realpath(path) {
    return this.#spell(await this.#file('realpath', verb.REALPATH, path, {}));
  }

  /** A host path only where commands and files lie in a folder of the host. */
  resolveAbsolutePath(path) {
    const { place, facts } = this.#lease.session;
    const { host } = place;
    if (!host || facts.sandboxId || typeof path !== 'string') return undefined;
    return posix.join(host, relativeTo(this.#lease.session.place, path));
  }

  // -- writing

  async writeFile(path, content, options) {
    this.#writable('writeFile');
    const { recursive, overwrite, expectedMtime } = options ?? {};
    const data = contentOf('writeFile', path, content);
    const text = typeof data === 'string';
    await this.#file(
      'writeFile',
      verb.WRITE,
      path,
      {
        data,
        flags:
          (recursive === false ? 0 : flag.PARENTS) |
          (overwrite === false ? flag.EXCLUSIVE : 0) |
          (text ? flag.TEXT : 0),
        expectedMtime: expectedMtime === undefined ? undefined : timeOf(path, expectedMtime),
      },
      { expectedMtime },
    );
  }

  async appendFile(path, content) {
    this.#writable('appendFile');
    const data = contentOf('appendFile', path, content);
    await this.#file('appendFile', verb.APPEND, path, { data, flags: flag.PARENTS });
  }

  async deleteFile(path, options) {
    this.#writable('deleteFile');
    await this.#file('deleteFile', verb.DELETE, path, { flags: options?.force ? flag.FORCE : 0 });
  }

  async copyFile(src, dest, options) {
    this.#writable('copyFile');
    const flags = (options?.overwrite === false ? flag.EXCLUSIVE : 0) | (options?.recursive ? flag.RECURSIVE : 0);
    await this.#file('copyFile', verb.COPY, src, { to: dest, flags: flags | flag.PARENTS }, { to: dest });
  }

  async moveFile(src, dest, options) {
    this.#writable('moveFile');
    const flags = options?.overwrite === false ? flag.EXCLUSIVE : 0;
    await this.#file('moveFile', verb.MOVE, src, { to: dest, flags: flags | flag.PARENTS }, { to: dest });
  }

  async mkdir(path, options) {
    this.#writable('mkdir');
    await this.#file('mkdir', verb.MKDIR, path, { flags: options?.recursive === false ? 0 : flag.PARENTS });
  }

  async rmdir(path, options) {
    this.#writable('rmdir');
    const flags = (options?.recursive ? flag.RECURSIVE : 0) | (options?.force ? flag.FORCE : 0);
    await this.#file('rmdir', verb.RMDIR, path, { flags });
  }

  // -- facts

  /** Without I/O. */
  getInfo() {
    const { id, name, provider, status, error, readOnly } = this;
    const { inside: cwd } = this.#lease.session.place;
    const metadata = { sandboxId: this.#sandbox.id, sandboxProvider: this.#sandbox.provider, cwd };
    return { id, name, provider, status, ...(error === undefined ? {} : { error }), readOnly, metadata };
  }

  getInstructions(options) {
    return resolveInstructions(
      this.#instructions,
      () => filesInstructionsFor(this.#lease, this.readOnly),
      options?.requestContext,
    );
  }

  // -- inner

  #writable(operation) {
    if (this.readOnly) throw new core.WorkspaceReadOnlyError(operation);
  }

  #isReady() {
    return this.status === 'ready' && this.#lease.live && this.#sandbox.status === 'running';
  }

  async #ready() {
    if (this.status !== 'ready') await this.ensureReady();
    if (!this.#isReady()) await this.#sandbox.ensureRunning();
  }

  async #file(operation, which, path, options, more, again = true) {
    if (typeof path !== 'string') throw wrongPath(operation, path);
    if (more && 'to' in more && typeof more.to !== 'string') throw wrongPath(operation, more.to);
    if (!this.#isReady()) await this.#ready();
    if (which !== verb.STAT) this.#gitignore = undefined;
    const lease = this.#lease;
    const { epoch } = lease.session;
    try {
      return await lease.native.file(WORKSPACE, which, path, options);
    } catch (error) {
      if (lease.noteError(error, epoch) && again) return this.#file(operation, which, path, options, more, false);
      throw fileError(error, operation, path, more);
    }
  }

  // One that means the same file when it is passed back.
  #spell(path) {
    const { place } = this.#lease.session;
    const plain = `/${relativeTo(place, path)}`;
    const taken = [place.inside, place.host].some(prefix => below(prefix, plain) !== undefined);
    return taken ? place.inside + plain : plain;
  }
}

function wrong(operation, path, message) {
  return new core.FilesystemError(`${operation}: ${message}`, 'invalid_input', typeof path === 'string' ? path : show(path));
}

function wrongPath(operation, path) {
  return wrong(operation, path, `the path must be a string, not ${show(path)}`);
}

function checkNumber(operation, path, value, name) {
  if (typeof value === 'number' || value === undefined) return;
  throw wrong(operation, path, `${name} must be a number, not ${show(value)}`);
}

function checkSearch(options) {
  const path = options?.path;
  if (typeof path !== 'string') throw wrongPath('grep', path);
  if (typeof options.pattern !== 'string') throw wrong('grep', path, `pattern must be a string, not ${show(options.pattern)}`);
  for (const name of ['maxCountPerFile', 'maxTotalMatches', 'contextLines']) checkNumber('grep', path, options[name], name);
}

// Loaded when first needed: imports of this package are to be quick.
const decoder = () => import('../listing.js');

// The path below the workspace, as native/path.c makes it.
function relativeTo(place, path) {
  const tidy = posix.resolve('/', path);
  const rest = path.startsWith('/')
    ? (below(place.inside, tidy) ?? below(place.host, tidy) ?? tidy)
    : tidy;
  return rest.slice(1);
}

function contentOf(operation, path, content) {
  const made = whole(content);
  if (made !== undefined) return made;
  throw wrong(operation, path, `content must be a string, a Buffer or a Uint8Array, not ${show(content)}`);
}

function timeOf(path, date) {
  const time = ['string', 'number'].includes(typeof date) || types.isDate(date) ? new Date(date).getTime() : NaN;
  if (Number.isNaN(time)) throw wrong('writeFile', path, `expectedMtime must be a valid Date, not ${show(date)}`);
  return time;
}

function dotted(path, extension) {
  if (extension === undefined || extension === null) return undefined;
  const list = Array.isArray(extension) ? extension : [extension];
  for (const one of list) {
    if (typeof one !== 'string') throw wrong('readdir', path, `extension must be a string or an array of strings, not ${show(one)}`);
  }
  return list.length === 0 ? undefined : list.map(one => (one.startsWith('.') ? one : `.${one}`));
}

// Mastra keys what was read by provider and basePath: stable where the store
// outlives this object, and never the same for two stores.
function scopeOf(lease) {
  const { directory } = lease.provider.options;
  const { id, cwd } = lease.options;
  return directory ? directory : `${lease.provider.name}/${id}${cwd}`;
}

