// Decodes the packed entries of READDIR, WALK and GATHER (native/files/files.h).

const HEADER = 20;
const DIRECTORY = 2;
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

  entry() {
    const { bytes, start } = this;
    const made = { name: this.name(), type: bytes[start] === DIRECTORY ? 'directory' : 'file' };
    if (bytes[start + 2]) made.size = this.size();
    if (bytes[start + 1]) {
      made.isSymlink = true;
      made.symlinkTarget = bytes.utf8Slice(this.nameEnd, this.targetEnd);
    }
    return made;
  }

  // The content behind a gathered entry.
  content() {
    const from = this.at;
    this.at += this.size();
    return this.bytes.subarray(from, this.at);
  }
}

/** The entries of a listing, at once. `shape` turns each into something else. */
export function decodeListing(listing, shape) {
  const reader = new Entries(listing);
  const found = [];
  while (reader.next()) found.push(shape ? shape(reader.entry()) : reader.entry());
  return found;
}

/** The same for lists of any length, without holding the event loop. */
export async function decodeLongListing(listing, shape) {
  if (listing.count <= SLICE) return decodeListing(listing, shape);
  const reader = new Entries(listing);
  const found = [];
  while (reader.left > 0) {
    for (let i = 0; i < SLICE && reader.next(); i++) found.push(shape ? shape(reader.entry()) : reader.entry());
    await new Promise(resolve => setImmediate(resolve));
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
