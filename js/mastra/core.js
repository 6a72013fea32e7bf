// The user's own @mastra/core, and the addon's errors as its classes, which Mastra
// tells apart with instanceof. Classes an older core lacks are replaced by their
// base class.
import { posix } from 'node:path';

import * as core from '@mastra/core/workspace';

import { printable, tame } from '../errors.js';

// As a namespace: an older one lacks names.
export { core };

const byPath = {
  ENOENT: 'FileNotFoundError',
  EEXIST: 'FileExistsError',
  EISDIR: 'IsDirectoryError',
  ENOTDIR: 'NotDirectoryError',
  ENOTEMPTY: 'DirectoryNotEmptyError',
};

function isNative(error) {
  return error instanceof Error && typeof error.code === 'string' && typeof error.operation === 'string';
}

/** A failed file call. `to` is the second path of copy and move. */
export function fileError(error, operation, path, { to, expectedMtime } = {}) {
  if (!isNative(error)) return error;
  const made = makeFileError(error, operation, path, to, expectedMtime);
  made.cause ??= error;
  return tame(made);
}

function makeFileError(error, operation, path, to, expectedMtime) {
  const { code } = error;
  const where = to !== undefined && isAbout(error, to) ? to : path;
  if (code === 'ENOENT_DIR') return new core.DirectoryNotFoundError(missingFolder(operation, where));
  if (code in byPath) return new core[byPath[code]](where);
  if (code === 'EACCES') return permissionError(error, operation, where);
  if (code === 'ESTALE') return staleError(error, path, expectedMtime);
  if (code === 'unavailable') return sandboxError(error);
  return new core.FilesystemError(`${operation} ${where}: ${error.message}`, code, where);
}

// The addon's messages start with the path they are about.
function isAbout(error, to) {
  if (error.code === 'EEXIST' || error.code === 'ENOTEMPTY') return true;
  return error.message.startsWith(`${printable(posix.resolve('/', to)).replaceAll('\n', '?')} `);
}

const namesFolder = new Set(['readdir', 'walk', 'grep', 'rmdir']);

// Elsewhere what is missing is the folder that the path is in.
function missingFolder(operation, path) {
  return namesFolder.has(operation) ? path : posix.dirname(path);
}

// The class has a fixed text; what the addon says tells the model what to do.
function permissionError(error, operation, path) {
  const made = new core.PermissionError(path, operation);
  made.message = `${made.message}: ${error.message}`;
  return made;
}

function staleError(error, path, expectedMtime) {
  if (!core.StaleFileError) return new core.FilesystemError(error.message, 'ESTALE', path);
  return new core.StaleFileError(path, new Date(expectedMtime), new Date(error.number));
}

/** A failed life-cycle call or spawn. */
export function sandboxError(error) {
  if (!isNative(error) || error instanceof core.SandboxError) return error;
  const made = makeSandboxError(error);
  made.cause ??= error;
  made.retryable = error.retryable;
  if (error.step) made.step = error.step;
  if (error.errno) made.errno = error.errno;
  return made;
}

function makeSandboxError(error) {
  const details = { operation: error.operation, retryable: error.retryable, errno: error.errno, step: error.step };
  if (error.step && core.IsolationUnavailableError) {
    const made = new core.IsolationUnavailableError(error.step, error.message);
    made.message = error.message;
    return made;
  }
  if (error.code === 'unsupported' && core.SandboxUnsupportedFeatureError) {
    return new core.SandboxUnsupportedFeatureError(error.message, details);
  }
  return new core.SandboxError(error.message, error.code, details);
}

/** A command that never started, or whose sandbox ended in the midst of it. */
export function executionError(error, exit) {
  if (error.ran) {
    const cut = new core.SandboxExecutionError(error.message, -1, exit?.stdout ?? '', exit?.stderr ?? '');
    cut.cause = error;
    return Object.assign(cut, { stdout: exit?.stdout ?? '', stderr: exit?.stderr ?? '' });
  }
  if (error.code === 'unavailable' || !isNative(error)) return sandboxError(error);
  const made = new core.SandboxExecutionError(error.message, -1, '', '');
  made.cause = error;
  return made;
}
