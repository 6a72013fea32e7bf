// Decodes the packed entries of READDIR, WALK and GATHER (native/files/files.h).
import { posix } from 'node:path';

import { native } from './native.js';

const HEADER = 20;
const DIRECTORY = 2;
const SLASH = 47;
// Entries decoded before the loop gets a turn: a few milliseconds.
const SLICE = 1500;

// Goes through the entries one after another.
class Entries {
  constructor({ entries, count }) {
    this.bytes = entries;
    this.left = count;
    this.at = 0;
  }

  u32(at) {
    const { bytes } = this;
    return (bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16)) + bytes[at + 3] * 0x1000000;
  }

  // Sets start and nameEnd, targetEnd of the next entry; false at the end.
  next() {
    if (this.left === 0) return false;
    this.left--;
    this.start = this.at;
    this.nameEnd = this.start + HEADER + this.u32(this.start + 4);
    this.at = this.targetEnd = this.nameEnd + this.u32(this.start + 8);
    return true;
  }

  name() {
    return this.bytes.utf8Slice(this.start + HEADER, this.nameEnd);
  }

  size() {
    return this.u32(this.start + 12) + this.u32(this.start + 16) * 0x100000000;
  }

  // Start and end of the next `count` names, and of their last parts with `last`.
  ranges(count, last) {
    const { at, left } = this;
    const names = new Uint32Array(2 * count);
    const parts = last ? new Uint32Array(2 * count) : names;
    for (let i = 0; i < 2 * count; i += 2) {
      this.next();
      names[i] = this.start + HEADER;
      if (last) parts[i] = this.lastPart();
      names[i + 1] = parts[i + 1] = this.nameEnd;
    }
    this.at = at;
    this.left = left;
    return { names, parts };
  }

  lastPart() {
    let at = this.nameEnd;
    for (const first = this.start + HEADER; at > first && this.bytes[at - 1] !== SLASH; ) at--;
    return at;
  }

  // What was made of the name, with the rest of what is known.
  complete(made) {
    const { bytes, start } = this;
    if (bytes[start + 1]) {
      made.isSymlink = true;
      made.symlinkTarget = bytes.utf8Slice(this.nameEnd, this.targetEnd);
    }
    return made;
  }

  type() {
    return this.bytes[this.start] === DIRECTORY ? 'directory' : 'file';
  }

  sizeIfKnown() {
    return this.bytes[this.start + 2] ? this.size() : undefined;
  }

  // The content behind a gathered entry.
  content() {
    const from = this.at;
    this.at += this.size();
    return this.bytes.subarray(from, this.at);
  }
}

// How an entry looks. One literal each: what is added to an object later takes
// memory of its own.
const named = {
  make: (name, type, size) => (size === undefined ? { name, type } : { name, type, size }),
};
const placed = (name, path, type, size) => (size === undefined ? { name, path, type } : { name, path, type, size });

/** Names that are the last part of the path below the listed folder, with that path. */
export const walked = { last: true, make: (path, type, size, name) => placed(name, path, type, size) };

/** Names as they are, and paths that start with `folder`. */
export const under = folder => ({ make: (name, type, size) => placed(name, posix.join(folder, name), type, size) });

// The names of a slice are made in one call, and where the collector does not
// copy them: those copies, not the decoding, are what held the loop longest.
function decodeSlice(reader, { make, last = false }, found, at) {
  const count = Math.min(reader.left, SLICE);
  const ranges = reader.ranges(count, last);
  const names = native().keys(reader.bytes, ranges.names);
  const parts = last ? native().keys(reader.bytes, ranges.parts) : names;
  for (let i = 0; i < count; i++) {
    reader.next();
    found[at + i] = reader.complete(make(names[i], reader.type(), reader.sizeIfKnown(), parts[i]));
  }
}

/** The entries of a listing of any length, without holding the event loop. */
export async function decodeListing(listing, shape = named) {
  const reader = new Entries(listing);
  const found = new Array(listing.count);
  for (let at = 0; at < found.length; at += SLICE) {
    if (at > 0) await new Promise(resolve => setImmediate(resolve));
    decodeSlice(reader, shape, found, at);
  }
  return found;
}

/** Calls `each(name, content)` for the files of a GATHER answer until it returns
 * false. `content` is a view. */
export function eachGathered(listing, each) {
  const reader = new Entries(listing);
  while (reader.next() && each(reader.name(), reader.content()) !== false);
}

/** The name after which the next GATHER goes on. */
export function lastGathered(listing) {
  const reader = new Entries(listing);
  while (reader.next() && reader.left > 0) reader.at += reader.size();
  return listing.count > 0 ? reader.name() : undefined;
}
