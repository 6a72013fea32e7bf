// Packed entries, as native/files/files.h describes them.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { decodeListing, eachGathered, lastGathered, under, walked } from '../../js/listing.js';
import { native } from '../../js/native.js';

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

test('entries get names, types, sizes and link targets', async () => {
  const found = await decodeListing(
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

test('an empty listing and names of every length', async () => {
  assert.deepEqual(await decodeListing({ entries: Buffer.alloc(0), count: 0, more: false }), []);
  const names = [1, 127, 128, 255, 256, 4095, 70_000].map(length => 'n'.repeat(length));
  const found = await decodeListing(listing(names.map(name => ({ name }))));
  assert.deepEqual(found.map(one => one.name), names);
});

test('a walked entry has its path and the last part of it; below a folder, names keep theirs', async () => {
  const some = listing([{ name: 'a', type: 2 }, { name: 'a/ü/é😀', size: 5 }, { name: 'a/l', link: true, target: 'ü' }]);
  assert.deepEqual(await decodeListing(some, walked), [
    { name: 'a', path: 'a', type: 'directory' },
    { name: 'é😀', path: 'a/ü/é😀', type: 'file', size: 5 },
    { name: 'l', path: 'a/l', type: 'file', isSymlink: true, symlinkTarget: 'ü' },
  ]);
  assert.deepEqual(await decodeListing(some, under('x/../y')), [
    { name: 'a', path: 'y/a', type: 'directory' },
    { name: 'a/ü/é😀', path: 'y/a/ü/é😀', type: 'file', size: 5 },
    { name: 'a/l', path: 'y/a/l', type: 'file', isSymlink: true, symlinkTarget: 'ü' },
  ]);
});

test('names that are not UTF-8 are shown with U+FFFD, as Buffer does', () => {
  const bytes = Buffer.from([0x61, 0xff, 0xe2, 0x82, 0x2f, 0xed, 0xa0, 0x80, 0]);
  assert.deepEqual(native().keys(bytes, Uint32Array.of(0, 4, 5, 8, 8, 9, 3, 3)), [
    bytes.utf8Slice(0, 4),
    bytes.utf8Slice(5, 8),
    '\0',
    '',
  ]);
  for (const wrong of [[0, 10], [2, 1], [9, 0xffffffff]]) {
    assert.throws(() => native().keys(bytes, Uint32Array.from(wrong)), RangeError);
  }
  for (const wrong of [[], [bytes], [bytes, [0, 1]], ['text', Uint32Array.of(0, 1)], [bytes, Int32Array.of(0, 1)]]) {
    assert.throws(() => native().keys(...wrong), TypeError);
  }
});

test('a long listing is decoded in turns, and none is missing', async () => {
  const names = Array.from({ length: 20_000 }, (_, i) => `d/${i}`);
  let turns = 0;
  let done = false;
  setImmediate(function again() {
    turns++;
    if (!done) setImmediate(again);
  });
  const found = await decodeListing(listing(names.map((name, size) => ({ name, size }))));
  done = true;
  assert.deepEqual(found, names.map((name, size) => ({ name, type: 'file', size })));
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
