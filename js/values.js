// The values that files can be written from and stdin fed with.
import { invalid } from './errors.js';
import { show } from './options.js';

/** string or Uint8Array of what is not a stream; undefined for the others. */
function plain(value) {
  if (typeof value === 'string' || value instanceof Uint8Array) return value;
  if (value instanceof ArrayBuffer || value instanceof SharedArrayBuffer) return new Uint8Array(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return undefined;
}

function isIterable(value) {
  return typeof value?.[Symbol.asyncIterator] === 'function' || typeof value?.[Symbol.iterator] === 'function';
}

/** The pieces of any FileValue, as strings and Uint8Arrays. */
export async function* pieces(value, name = 'data') {
  const whole = plain(value);
  if (whole !== undefined) return yield whole;
  if (value instanceof Blob) return yield new Uint8Array(await value.arrayBuffer());
  if (!isIterable(value)) {
    throw invalid(`${name} must be a string, bytes, a Blob or a stream of those, not ${show(value)}`);
  }
  for await (const piece of value) {
    const bytes = plain(piece) ?? (piece instanceof Blob ? new Uint8Array(await piece.arrayBuffer()) : undefined);
    if (bytes === undefined) throw invalid(`${name}: a stream must give strings or bytes, not ${show(piece)}`);
    yield bytes;
  }
}

/** A FileValue in one piece: a string stays one, everything else is bytes. */
export async function gather(value, name) {
  const whole = plain(value);
  if (whole !== undefined) return whole;
  const parts = [];
  for await (const piece of pieces(value, name)) parts.push(typeof piece === 'string' ? Buffer.from(piece) : piece);
  return parts.length === 1 ? parts[0] : Buffer.concat(parts);
}
