// Packed entries, as native/files/files.h describes them.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { decodeListing, decodeLongListing, eachGathered, lastGathered } from '../../js/listing.js';

function entry({ name, type = 1, link, target = '', size, content }) {
  const nameBytes = Buffer.from(name);
  const targetBytes = Buffer.from(target);
  const head = Buffer.alloc(20);
  head[0] = type;
  head[1] = link ? 1 : 0;
  head[2] = size === undefined && content === undefined ? 0 : 1;
  head.writeUInt32LE(nameBytes.length, 4);
  head.writeUInt32LE(targetBytes.length, 8);
  head.writeBigUInt64LE(BigInt(content?.length ?? size ?? 0), 12);
  return Buffer.concat([head, nameBytes, targetBytes, content ?? Buffer.alloc(0)]);
}

const listing = (entries, more = false) => ({
  entries: Buffer.concat(entries.map(entry)),
  count: entries.length,
  more,
});

test('entries get names, types, sizes and link targets', () => {
  const found = decodeListing(
    listing([
      { name: 'a', type: 2 },
      { name: 'a/é😀\n', size: 5 },
      { name: 'big', size: 5_368_709_123 },
      { name: 'l', type: 2, link: true, target: '../ü' },
      { name: 'pipe', type: 4 },
    ]),
  );
  assert.deepEqual(found, [
    { name: 'a', type: 'directory' },
    { name: 'a/é😀\n', type: 'file', size: 5 },
    { name: 'big', type: 'file', size: 5_368_709_123 },
    { name: 'l', type: 'directory', isSymlink: true, symlinkTarget: '../ü' },
    { name: 'pipe', type: 'file' },
  ]);
});

test('an empty listing and names of every length', () => {
  assert.deepEqual(decodeListing({ entries: Buffer.alloc(0), count: 0, more: false }), []);
  const names = [1, 127, 128, 255, 256, 4095, 70_000].map(length => 'n'.repeat(length));
  assert.deepEqual(decodeListing(listing(names.map(name => ({ name }))), one => one.name), names);
});

test('a long listing is decoded in turns, the same as at once', async () => {
  const many = listing(Array.from({ length: 20_000 }, (_, i) => ({ name: `d/${i}`, size: i })));
  let turns = 0;
  let done = false;
  setImmediate(function again() {
    turns++;
    if (!done) setImmediate(again);
  });
  const found = await decodeLongListing(many, one => one.name);
  done = true;
  assert.deepEqual(found, decodeListing(many, one => one.name));
  assert.ok(turns > 1, `${turns} turns`);
});

test('gathered contents lie behind their names', () => {
  const answer = listing([
    { name: 'a', content: Buffer.from('one') },
    { name: 'b', content: Buffer.alloc(0) },
    { name: 'c/d', content: Buffer.from([0, 255]) },
  ]);
  const seen = [];
  eachGathered(answer, (name, content) => void seen.push([name, [...content]]));
  assert.deepEqual(seen, [['a', [...Buffer.from('one')]], ['b', []], ['c/d', [0, 255]]]);
  assert.equal(lastGathered(answer), 'c/d');
  assert.equal(lastGathered({ entries: Buffer.alloc(0), count: 0 }), undefined);
  const first = [];
  eachGathered(answer, name => (first.push(name), false));
  assert.deepEqual(first, ['a']);
});
