// Checks of arguments: what has the wrong type or an impossible value is refused
// where the user wrote it, before anything starts.
import { invalid, messageOf } from './errors.js';

export function show(value) {
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
  if (typeof value === 'function') return 'a function';
  if (value === null || typeof value !== 'object') return String(value);
  return isArray(value) ? 'an array' : 'an object';
}

// A revoked proxy cannot be asked.
function isArray(value) {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

export function checkObject(value, name) {
  if (value === undefined) return {};
  if (value === null || typeof value !== 'object' || isArray(value)) {
    throw invalid(`${name} must be an object, not ${show(value)}`);
  }
  return readable(value, name);
}

// Looked at once and for all: a getter that throws in the middle of a start
// would leave it half done.
function readable(value, name) {
  try {
    const plain = [Object.prototype, null].includes(Object.getPrototypeOf(value));
    const read = { ...value };
    return plain ? read : value;
  } catch (error) {
    throw invalid(`${name} cannot be read: ${messageOf(error)}`);
  }
}

export function checkString(value, name) {
  if (value === undefined) return undefined;
  if (typeof value !== 'string') throw invalid(`${name} must be a string, not ${show(value)}`);
  if (value.includes('\0')) throw invalid(`${name} must not contain a NUL character`);
  return value;
}

export function checkBoolean(value, name) {
  if (value === undefined || typeof value === 'boolean') return value;
  throw invalid(`${name} must be true or false, not ${show(value)}`);
}

export function checkFunction(value, name) {
  if (value === undefined || typeof value === 'function') return value;
  throw invalid(`${name} must be a function, not ${show(value)}`);
}

/** Mastra's `instructions`: a text, or a function of the default text. */
export function checkInstructions(value, name) {
  if (value === undefined || typeof value === 'string' || typeof value === 'function') return value;
  throw invalid(`${name} must be a string or a function, not ${show(value)}`);
}

export function checkStrings(value, name) {
  if (value === undefined) return undefined;
  if (!Array.isArray(value)) throw invalid(`${name} must be an array of strings, not ${show(value)}`);
  for (const item of value) {
    if (checkString(item, `each item of ${name}`) === undefined || item === '') {
      throw invalid(`each item of ${name} must be a string that is not empty`);
    }
  }
  return [...value];
}

export function checkAbsolute(value, name) {
  if (checkString(value, name) === undefined) return undefined;
  if (!value.startsWith('/')) {
    throw invalid(`${name} must be an absolute path such as "/workspace", not ${show(value)}`);
  }
  return value;
}

export function checkEnv(value, name = 'env') {
  const env = checkObject(value, name);
  for (const key of Object.keys(env)) checkVariable(key, env[key], name);
  return { ...env };
}

/** The value as text; undefined means that the variable is removed. */
export function checkVariable(key, value, name) {
  if (key === '' || key.includes('=') || key.includes('\0')) {
    throw invalid(`${name}: ${show(key)} is not a variable name; it must not be empty nor contain "=" or NUL`);
  }
  if (value === undefined) return undefined;
  const text = typeof value === 'number' || typeof value === 'boolean' ? String(value) : value;
  if (typeof text !== 'string') {
    throw invalid(`${name}.${key} must be a string (or undefined, which removes it), not ${show(value)}`);
  }
  if (text.includes('\0')) throw invalid(`${name}.${key} must not contain a NUL character`);
  return text;
}

const idLimit = 200;

export function checkId(value, name = 'id') {
  if (checkString(value, name) === undefined) return undefined;
  if (value.trim() === '') throw invalid(`${name} must not be empty`);
  if (Buffer.byteLength(value) > idLimit) throw invalid(`${name} must have at most ${idLimit} bytes`);
  if (value === '.' || value === '..' || /[/\\\u0000-\u001f\u007f]/.test(value)) {
    throw invalid(`${name} must not contain slashes or control characters, as ${show(value)} does`);
  }
  return value;
}

export function checkPorts(value, name = 'ports') {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw invalid(`${name} must be an array of port numbers, not ${show(value)}`);
  for (const port of value) checkPort(port, `each item of ${name}`);
  return [...new Set(value)];
}

export function checkPort(value, name = 'port') {
  if (!Number.isInteger(value) || value < 1 || value > 65535) {
    throw invalid(`${name} must be an integer from 1 to 65535, not ${show(value)}`);
  }
  return value;
}

/** ms as the addon wants it; 0 for none. */
export function checkTimeout(value, name = 'timeout') {
  if (value === undefined || value === null || value === 0 || value === Infinity) return 0;
  if (typeof value !== 'number' || !(value > 0)) {
    throw invalid(`${name} must be a number of milliseconds, at least 0, not ${show(value)}`);
  }
  return Math.min(Math.ceil(value), Number.MAX_SAFE_INTEGER);
}

export function checkOneOf(value, names, name) {
  if (value === undefined || names.includes(value)) return value;
  throw invalid(`${name} must be ${names.map(n => `"${n}"`).join(', ')}, not ${show(value)}`);
}

export function checkSignal(value, name = 'signal') {
  if (value === undefined || value === null) return undefined;
  if (isSignal(value)) return value;
  throw invalid(`${name} must be an AbortSignal, not ${show(value)}`);
}

const nothing = () => {};

// Tried out: one that throws later would leave a command behind.
function isSignal(value) {
  try {
    if (typeof value.aborted !== 'boolean') return false;
    value.addEventListener('abort', nothing);
    value.removeEventListener('abort', nothing);
    return true;
  } catch {
    return false;
  }
}

/** Unknown names are mistakes more often than not: `known` lists the right ones. */
export function checkNames(value, known, name) {
  for (const key of Object.keys(value)) {
    if (!known.includes(key)) {
      throw invalid(`${name} has no "${key}"; it knows ${known.join(', ')}`);
    }
  }
}

/** A snapshot's name as its id, which may be a file's name: "a b" -> "a%20b". */
export function snapshotId(name) {
  if (checkString(name, 'name') === undefined) return undefined;
  if (name === '' || name.includes('\0')) throw invalid(`name must be a string that is not empty, not ${show(name)}`);
  const id = encodeURIComponent(name.toWellFormed()).replace(
    /[!'()*.~]/g,
    char => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  if (id.length > 240) throw invalid(`name must have at most 240 bytes (80 outside of ASCII letters); it has ${id.length}`);
  return id;
}
