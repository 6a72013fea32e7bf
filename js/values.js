// The values that files can be written from and stdin fed with.

import { invalid, messageOf } from './errors.js';
import { show } from './options.js';

// An import would run every lazy getter of that module: 5 ms.
export const { types } = process.getBuiltinModule('node:util');

/**
 * string or Uint8Array of what is in one piece; undefined for the others. By the
 * kind that Node sees: a proxy or an heir of a Uint8Array's prototype has no bytes,
 * nor has what was transferred.
 */
export function whole(value) {
  if (typeof value === 'string') return value;
  if (types.isUint8Array(value)) return value.length === 0 && value.buffer.detached ? undefined : value;
  if (types.isAnyArrayBuffer(value)) return value.detached ? undefined : new Uint8Array(value);
  if (!ArrayBuffer.isView(value) || value.buffer.detached) return undefined;
  return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
}

// Proxies may throw in each of these.
function attempt(test) {
  try {
    return test();
  } catch {
    return false;
  }
}

const isBlob = value => attempt(() => value instanceof Blob && value.size >= 0);
const TypedArray = Object.getPrototypeOf(Uint8Array);

const isStream = value =>
  attempt(
    () =>
      !(value instanceof TypedArray) &&
      (typeof value[Symbol.asyncIterator] === 'function' || typeof value[Symbol.iterator] === 'function'),
  );

/** Throws for what is no FileValue. Reads nothing of it. */
export function checkValue(value, name = 'data') {
  if (whole(value) !== undefined || isBlob(value) || isStream(value)) return value;
  throw invalid(`${name} must be a string, bytes, a Blob or a stream of those, not ${show(value)}`);
}

/** Text or bytes of what is sent to a process in one piece. */
export function checkPiece(value, name = 'data') {
  const piece = whole(value);
  if (piece === undefined) throw invalid(`${name} must be a string or bytes, not ${show(value)}`);
  return piece;
}

async function bytesOfBlob(blob, name) {
  try {
    return new Uint8Array(await blob.arrayBuffer());
  } catch (error) {
    throw invalid(`${name}: the Blob cannot be read: ${messageOf(error)}`);
  }
}

/** The pieces of any FileValue, as strings and Uint8Arrays. */
export async function* pieces(value, name = 'data') {
  checkValue(value, name);
  const piece = whole(value);
  if (piece !== undefined) return yield piece;
  if (isBlob(value)) return yield await bytesOfBlob(value, name);
  for await (const part of value) {
    const bytes = whole(part) ?? (isBlob(part) ? await bytesOfBlob(part, name) : undefined);
    if (bytes === undefined) throw invalid(`${name}: a stream must give strings or bytes, not ${show(part)}`);
    yield bytes;
  }
}

/** A FileValue in one piece: a string stays one, everything else is bytes. */
export async function gather(value, name) {
  const piece = whole(value);
  if (piece !== undefined) return piece;
  const parts = [];
  for await (const part of pieces(value, name)) parts.push(typeof part === 'string' ? Buffer.from(part) : part);
  return parts.length === 1 ? parts[0] : Buffer.concat(parts);
}
