// The error of the normalised surface, and how the addon's errors become one.

/** The codes a SandboxError can carry. Frozen, in alphabetical order of use. */
export const sandboxErrorCodes = Object.freeze([
  'authentication',
  'permission',
  'not_found',
  'conflict',
  'invalid_input',
  'rate_limited',
  'timeout',
  'aborted',
  'unsupported',
  'unavailable',
  'provider_error',
  'internal',
]);

const known = new Set(sandboxErrorCodes);

// What the file codes of the addon mean to somebody who knows only the twelve.
const fileCodes = {
  ENOENT: 'not_found',
  ENOENT_DIR: 'not_found',
  EEXIST: 'conflict',
  ESTALE: 'conflict',
  EISDIR: 'invalid_input',
  ENOTDIR: 'invalid_input',
  ENOTEMPTY: 'conflict',
  EACCES: 'permission',
  ESPECIAL: 'invalid_input',
  EIO: 'provider_error',
};

const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** `text` without what a terminal would obey; the addon writes its messages so. */
export function printable(text) {
  return text.replace(controls, '?');
}

/** An error of Mastra's, whose text quotes a name that a sandbox may have chosen. */
export function tame(error) {
  const message = printable(error.message).replaceAll('\n', '?');
  if (message === error.message) return error;
  error.stack = error.stack?.replace(error.message, () => message);
  error.message = message;
  return error;
}

const brand = Symbol.for('sandbox-sdk-native.SandboxError');

/**
 * An error of the sandbox. `code` is one of the twelve of sandboxErrorCodes and
 * is what a program tests; the message names the thing and the remedy.
 */
export class SandboxError extends Error {
  constructor(code, message, options = {}) {
    super(printable(String(message)), options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'SandboxError';
    this.code = known.has(code) ? code : 'internal';
    this.provider = options.provider;
    this.operation = options.operation;
    this.retryable = options.retryable ?? false;
    if (options.errno) this.errno = options.errno;
    if (options.step) this.step = options.step;
  }
}
Object.defineProperty(SandboxError.prototype, brand, { value: true });

/** Whether `value` is a SandboxError, of this or another copy of the package. */
export function isSandboxError(value, code) {
  try {
    return value instanceof Error && value[brand] === true && (code === undefined || value.code === code);
  } catch {
    return false; // a proxy
  }
}

/** The message of whatever was thrown. */
export function messageOf(error) {
  try {
    return error instanceof Error ? error.message : String(error);
  } catch {
    return 'something that is no error was thrown';
  }
}

/** The error for a wrong argument. */
export function invalid(message, operation) {
  return new SandboxError('invalid_input', message, { operation });
}

/** The error for something that this provider, or this version, cannot do. */
export function unsupported(message, operation) {
  return new SandboxError('unsupported', message, { operation });
}

/** A call that its signal ended. */
export function aborted(operation, signal) {
  return new SandboxError('aborted', `${operation} was aborted`, { operation, cause: signal.reason });
}

/** An error of the addon as a SandboxError; others pass as they are. `say` makes its message. */
export function fromNative(error, provider, say = message => message) {
  if (!(error instanceof Error) || error[brand] === true) return error;
  if (typeof error.code !== 'string' || typeof error.operation !== 'string') return error;
  return new SandboxError(fileCodes[error.code] ?? error.code, say(error.message), {
    cause: error,
    provider,
    operation: error.operation,
    retryable: error.retryable,
    errno: error.errno,
    step: error.step,
  });
}
