// The search of the file tools, over the addon: equal to JavaScript's own,
// line by line, whatever the files hold.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { plainSearch } from '../helpers/plain-search.js';
import { where } from '../helpers/providers.js';
import { using } from '../helpers/workspace.js';

async function same(filesystem, files, options) {
  const found = await filesystem.grep({ path: '.', includeHidden: false, ...options });
  const wanted = plainSearch(files, options);
  // An assertion of deep equality prints megabytes.
  if (JSON.stringify(found) === JSON.stringify(wanted)) return wanted.length;
  const brief = results => JSON.stringify(results.map(({ path, matches }) => [path, matches.map(one => [one.line, one.column])])).slice(0, 2000);
  assert.equal(brief(found), brief(wanted), JSON.stringify(options));
  assert.fail(`other texts: ${JSON.stringify(options)}`);
}

function random(seed) {
  return n => (seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff) % n;
}

// Cases that JavaScript folds, and some that it does not without the flag u;
// halves of characters, and what other tools take for the end of a line.
const pieces = [
  'ab', 'aB', 'A', 'b', 'k', 'K', '\u212a', 's', 'S', '\u017f', 'ß', 'ẞ', 'ss', 'İ', 'i', 'I', 'ı', 'é', 'É', 'e\u0301', 'σ', 'ς', 'Σ', 'ǆ', 'ǅ',
  '😀', '\ufffd', '\ufeff', '\0', '\r', '\r\n', '\u2028', '\u0085', '\t', ' ', '.', '-', '\n', '\n', '\n', 'needle', 'NEEDLE', 'nEEdle',
  [0xff], [0xc3], [0xe2, 0x84], [0xf0, 0x9f, 0x98], [0xaa], [0xed, 0xa0, 0x80], [0xc0, 0x80],
].map(one => Buffer.from(one));

const atoms = [
  'a', 'b', 'k', 'K', 's', 'S', 'i', 'I', '\u212a', '\u017f', 'ß', 'İ', 'ı', 'é', 'É', 'σ', '😀', '\\ufffd', '\\u212a', '\\x6b', '\\u004b', '\\ud83d', 'needle', 'ab', 'ned{0}', '\\.', '\\-', '.', '^', '$', '\\b', '\\B', '\\s',
  '\\S', '\\w', '\\W', '\\d', '\\r', '\\n', '\\t', '\\0', '\\cM', '[a-k]', '[^k]', '[K-S]', '[\\t-\\r]', '[\\t-\\ra]', '[ß-é]', '[^]', '[]', '(a|b)', '(?:ab|k)', '(?=k)', '(?!k)', '(?<=a)', '(?<!a)', '(s)\\1', '(?<n>i)\\k<n>', '(?=([\\t-\\ra]*))', '\\1', '|',
];
const repeats = ['', '', '', '', '', '*', '+', '?', '{2}', '{0}', '{1,2}', '*?', '{2,}'];

async function write(filesystem, contents) {
  const files = Object.entries(contents).map(([name, content]) => [name, Buffer.from(content)]);
  for (const [name, content] of files) await filesystem.writeFile(name, content);
  return files.sort(([a], [b]) => (a < b ? -1 : 1));
}

const rounds = where === 'local' ? 700 : 40;

test('random patterns on random bytes', using({}, async ({ filesystem }) => {
  const next = random(20);
  const pick = list => list[next(list.length)];
  const contents = {};
  for (let i = 10; i < 40; i++) {
    const folder = i < 20 ? 'd/' : 'e';
    contents[`${folder}${i}.txt`] = Buffer.concat(Array.from({ length: next(60) }, () => pick(pieces)));
  }
  const files = await write(filesystem, contents);
  let matched = 0;
  for (let i = 0; i < rounds; ) {
    const pattern = Array.from({ length: 1 + next(4) }, () => pick(atoms) + pick(repeats)).join('');
    try {
      new RegExp(pattern);
    } catch {
      continue;
    }
    i++;
    const caps = { maxCountPerFile: pick([undefined, undefined, 1, 2]), maxTotalMatches: pick([1000, 1000, 5]) };
    matched += (await same(filesystem, files, { pattern, caseSensitive: next(2) === 0, contextLines: pick([0, 0, 1, 2]), ...caps })) > 0;
  }
  assert.ok(matched > rounds / 4, String(matched));
}));

test('files as long as a buffer, and the last bytes of a file', using({}, async ({ filesystem }) => {
  const contents = { 'empty.txt': '' };
  // The sanitizer's memmem looks at all that is left, for each line anew.
  const most = where === 'local' && !process.env.LD_PRELOAD ? 2_500_000 : 200_000;
  for (const size of [1, 6, 65_535, 65_536, 65_537, 131_071, 131_072, 131_073, most]) {
    const end = size < 6 ? 'x' : 'needle';
    contents[`l${String(size).padStart(8, '0')}.txt`] = `${'x'.repeat(size - end.length)}${end}`; // one line
    contents[`m${String(size).padStart(8, '0')}.txt`] = `${'y\r\n'.repeat(size).slice(0, size - end.length)}${end}`;
  }
  const files = await write(filesystem, contents);
  for (const pattern of ['needle', 'needle$', 'needles', 'x', '^needle', 'y\\r', '(?<=\\S)needle', 'needle|zz', '']) {
    for (const caseSensitive of [true, false]) {
      await same(filesystem, files, { pattern, caseSensitive, maxCountPerFile: 3 });
      await same(filesystem, files, { pattern, caseSensitive, maxCountPerFile: 3, contextLines: 1 });
    }
  }
}));
