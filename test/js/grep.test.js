// The search, over a stand-in for the addon's GATHER, against a plain search
// written as Mastra's tool does it.
import assert from 'node:assert/strict';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { test } from 'node:test';

import { grep } from '../../js/grep.js';
import { patternFacts } from '../../js/pattern.js';
import { plainSearch } from '../helpers/plain-search.js';

const HIDDEN = 16;
const FOLD = 128;
const LINES = 512;

function pack(files) {
  return Buffer.concat(
    files.map(([name, content]) => {
      const head = Buffer.alloc(20);
      const bytes = Buffer.from(name);
      head[0] = 1;
      head[2] = 1;
      head.writeUInt32LE(bytes.length, 4);
      head.writeBigUInt64LE(BigInt(content.length), 12);
      return Buffer.concat([head, bytes, content]);
    }),
  );
}

const lower = bytes => Buffer.from(bytes).map(one => (one >= 65 && one <= 90 ? one + 32 : one));

// Answers GATHER from {name: text or bytes}, in the order given.
class Files {
  calls = [];

  constructor(files) {
    this.files = Object.entries(files).map(([name, content]) => [name, Buffer.from(content)]);
  }

  holds(content, { data, flags }) {
    if (!data) return true;
    const want = Buffer.from(data);
    return flags & FOLD ? lower(content).includes(lower(want)) : content.includes(want);
  }

  async file(scope, verb, path, options) {
    assert.equal(scope, 0);
    if (verb === 1) return this.files.find(([name]) => name === path)?.[1].toString() ?? Promise.reject(new Error());
    this.calls.push(options);
    assert.equal(verb, 14);
    const names = this.files.map(([name]) => name);
    const rest = this.files.slice(options.to === undefined ? 0 : names.indexOf(options.to) + 1);
    const chosen = [];
    let size = 0;
    for (const [name, content] of rest) {
      if (!(options.flags & HIDDEN) && /(^|\/)\./.test(name)) continue;
      if (options.extensions && !options.extensions.some(one => name.toLowerCase().endsWith(one))) continue;
      if (!this.holds(content, options)) continue;
      if (size > 0 && size + content.length > options.maxBytes)
        return { entries: pack(chosen), count: chosen.length, more: true };
      chosen.push([name, content]);
      size += content.length;
    }
    return { entries: pack(chosen), count: chosen.length, more: false };
  }
}

async function same(files, options, settings) {
  const sandbox = new Files(files);
  const found = await grep(sandbox, { path: '.', caseSensitive: true, includeHidden: false, ...options }, settings);
  assert.deepEqual(found, plainSearch(sandbox.files, options), JSON.stringify(options));
  return { found, sandbox };
}

const sample = {
  'a.ts': 'import x from "y"\nconst TODO = 1 // todo\r\n\n  return foo(bar)\n',
  'b/c.md': '\ufeff# Title\né😀x needle\nlast line',
  'b/latin': Buffer.from([0x63, 0x61, 0x66, 0xe9, 0x0a, 0x78, 0xff, 0xfe]),
  'd.txt': 'aaa\naXbXc\n\u2028odd\u2028line\nfoo.bar{1}\n[x]\n\tTab\nK\u212a \u017fS\n',
  'empty': '',
};

const patterns = [
  'TODO', 'todo', 'x', '^', '$', '^$', '^\\s*return', 'foo\\(bar\\)', 'é😀x', '😀', '.', '\\w+$', 'line$', '^odd', 'odd', '[^a]', '[^]',
  '[]', 'a|b', '(foo|bar)', '(?:ret)urn', 'ca(f)', '\ufffd', '\\ufffd', 'a*', 'a{2}', 'a{2,}b?', 'foo.bar{1}', 'foo\\.bar\\{1}', '\\[x]', '(?=T)T', '(?!T)o', '(?<=o)d',
  '(?<!o)d', '(a)\\1', '(?<n>a)\\k<n>', '\\bimport\\b', '\\Bmport', 'k', 's', 'K\u212a', '\\tTab', '\\x41', '\\u0041', '\\r', '\\n', '"[^"]*"', '\\d+', '\\D', '\\S', 'TITLE|needle', '(ne)+dle',
  'const\\s+\\w+ =', 'last line', '\ufeff#', 'y"$', 'x{0}needle', 'no such text', '(?:)', '|', '\\cA', '\\p{L}', 'a]', '}', '\\0', 'foo(?=\\()', '[\\s\\S]', '[a-\\d]', '[\\]]',
];

test('equal to a plain search, line by line', async () => {
  for (const pattern of patterns) {
    for (const caseSensitive of [true, false]) {
      await same(sample, { pattern, caseSensitive });
      await same(sample, { pattern, caseSensitive, contextLines: 2, maxCountPerFile: 1 });
    }
  }
});

test('what a look around sees in a line, not in the text', async () => {
  const odd = { a: 'xa\nab', b: 'aa\u2028', c: 'aa\rb' };
  for (const [pattern, count] of [['x(?=([\\t-\\ra]*))\\1$', 1], ['x(?=((?:\\\n|a)*))\\1$', 1], ['(?=(a+$|a))\\1a[\\r\u2028]', 2], ['(?<=(^|a)a)\\1[\\r\u2028]', 0]]) {
    const { found } = await same(odd, { pattern });
    if (count) assert.equal(found.length, count, pattern);
  }
});

// Small alphabets find the corners: lines that start and end anywhere.
function random(seed) {
  return n => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n;
}

test('equal to a plain search for random patterns and texts', async () => {
  const next = random(7);
  const pick = list => list[next(list.length)];
  const atoms = ['a', 'b', 'A', 'x', '\\n', '.', '^', '$', '\\b', '\\s', '\\w', '[ab]', '[^a]', '(a|b)', '(?:ab)', '(?=b)', '(?!b)', '(?<=a)', '(?<!a)', '\\.', 'é', '-', '(b)', '\\1', '\\t', '|', 'ab'];
  const letters = ['a', 'b', 'A', 'B', 'x', '\n', '\n', '\r', ' ', '.', 'é', '-', '\t', '\u2028'];
  let tried = 0;
  for (let i = 0; i < 3000; i++) {
    const pattern = Array.from({ length: 1 + next(5) }, () => pick(atoms) + pick(['', '', '', '', '*', '+', '?', '{2}', '{0}', '*?'])).join('');
    try {
      new RegExp(pattern);
    } catch {
      continue;
    }
    tried++;
    const files = {};
    for (const name of ['1', '2', '3']) files[name] = Array.from({ length: next(12) }, () => pick(letters)).join('');
    await same(files, { pattern, caseSensitive: next(2) === 0, contextLines: next(2) });
  }
  assert.ok(tried > 1000);
});

test('caps: per file, in all, and zero as the tool counts it', async () => {
  const files = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`f${i}`, 'hit\n'.repeat(100)]));
  for (const options of [{ maxCountPerFile: 3 }, { maxTotalMatches: 250 }, { maxCountPerFile: 7, maxTotalMatches: 50 }, { maxCountPerFile: 0 }, {}]) {
    const { found } = await same(files, { pattern: 'hit', ...options });
    assert.ok(found.length > 0);
  }
});

test('many batches, in order, through the search thread', async () => {
  const files = {};
  for (let i = 0; i < 60; i++) files[`d/${String(i).padStart(3, '0')}`] = `${'filler line\n'.repeat(12_000)}needle ${i}\n`;
  const { found, sandbox } = await same(files, { pattern: 'needle \\d', contextLines: 1 });
  assert.equal(found.length, 60);
  assert.ok(sandbox.calls.length > 2, `${sandbox.calls.length} calls`);
  assert.equal(sandbox.calls[0].data, 'needle ');
});

test('what is asked of the addon: literal, case, hidden files, extensions', async () => {
  const sandbox = new Files(sample);
  await grep(sandbox, { pattern: 'Needle\\d', path: 'b', caseSensitive: false, includeHidden: true }, { extensions: ['.md'] });
  assert.equal(sandbox.calls[0].data, 'Needle');
  assert.equal(sandbox.calls[0].flags, HIDDEN | FOLD | LINES);
  assert.deepEqual(sandbox.calls[0].extensions, ['.md']);
  await grep(sandbox, { pattern: 'needle', path: 'b', contextLines: 1 });
  assert.equal(sandbox.calls.at(-1).flags, 0);
  await grep(sandbox, { pattern: 'a|b', path: 'b' });
  assert.equal(sandbox.calls.at(-1).flags, 0);
});

test('isTextFile leaves files out before they count', async () => {
  const files = { 'a.bin': 'x\nx\nx', 'b.txt': 'x\nx' };
  const found = await grep(
    new Files(files),
    { pattern: 'x', path: '.', caseSensitive: true, includeHidden: false, maxTotalMatches: 2 },
    { isTextFile: name => name.endsWith('.txt') },
  );
  assert.deepEqual(found.map(one => [one.path, one.matches.length]), [['b.txt', 2]]);
});

test('a catastrophic pattern ends at its limit, others go on', async () => {
  const slow = { 'ok.txt': 'aX', 'src/slow.txt': `${'a'.repeat(40)}!\n` };
  const options = { pattern: '(a+)+$', path: 'proj', caseSensitive: true, includeHidden: false };
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  const began = performance.now();
  const [first, second, fine] = await Promise.allSettled([
    grep(new Files(slow), options, { timeoutMs: 2000 }),
    grep(new Files(slow), options, { timeoutMs: 2000 }),
    grep(new Files({ x: 'aaab' }), { ...options, pattern: '(?:a+)+b' }, { timeoutMs: 60_000 }),
  ]);
  delay.disable();
  for (const one of [first, second]) {
    assert.equal(one.status, 'rejected');
    assert.equal(one.reason.code, 'timeout');
    assert.match(one.reason.message, /\(a\+\)\+\$.*src\/slow\.txt.*2 s/);
  }
  assert.equal(fine.value.length, 1);
  assert.ok(performance.now() - began < 30_000);
  await same({ f: 'aab' }, { pattern: '(a|b)+' });
});

// The main thread would answer, after many seconds.
test('a long repetition is for the search thread, which can be ended', async () => {
  const files = new Files({ 'a.txt': 'a'.repeat(250_000) });
  for (const pattern of ['a{20000}b|c', '(((((a{8}){8}){8}){8}){8})b|c']) {
    const search = grep(files, { pattern, path: '.', caseSensitive: true, includeHidden: false }, { timeoutMs: 300 });
    await assert.rejects(search, { code: 'timeout' }, pattern.slice(0, 40));
  }
});

// As Mastra's grep tool calls it.
const tool = { path: '.', caseSensitive: true, includeHidden: false, maxCountPerFile: undefined, maxTotalMatches: 3, contextLines: 0 };

test('the tool gets a slow pattern as an answer, not as an error', async () => {
  const files = new Files({ 'a.txt': 'aaa\n', 'src/slow.txt': `${'a'.repeat(40)}!\n` });
  const found = await grep(files, { ...tool, pattern: '(a+)+$' }, { timeoutMs: 2000 });
  const last = found.at(-1);
  assert.equal(last.path, 'src/slow.txt');
  assert.match(last.matches[0].text, /took longer than 2 s/);
});

test('what the tool will drop for .gitignore does not use up its cap', async () => {
  const files = { '.gitignore': '# x\nnode_modules/\ndist\n*.log\n/top\n', 'dist/a': 'x', 'node_modules/p/a': 'x\nx\nx\nx', 'src/a': 'x', 'src/dist/a': 'x', 'top/a': 'x' };
  const paths = async (more, path = '.') => (await grep(new Files({ ...files, ...more }), { ...tool, pattern: 'x', path })).map(one => one.path);
  assert.deepEqual(await paths(), ['src/a', 'top/a']);
  assert.deepEqual(await paths({}, 'node_modules/p'), ['dist/a', 'node_modules/p/a']);
  assert.deepEqual(await paths({ '.gitignore': 'dist\n!dist/a\n' }), ['dist/a', 'node_modules/p/a']);
  const { maxCountPerFile, ...direct } = tool;
  const all = await grep(new Files(files), { ...direct, pattern: 'x', maxTotalMatches: 1000 });
  assert.equal(all.length, 5);
});

test('an invalid pattern is a SyntaxError and asks for nothing', async () => {
  const sandbox = new Files(sample);
  await assert.rejects(grep(sandbox, { pattern: '(', path: '.', caseSensitive: true, includeHidden: false }), SyntaxError);
  assert.equal(sandbox.calls.length, 0);
});

test('an error of the addon comes through', async () => {
  const gone = Object.assign(new Error('/x does not exist'), { code: 'ENOENT_DIR' });
  const sandbox = { file: async () => Promise.reject(gone) };
  await assert.rejects(grep(sandbox, { pattern: 'a', path: 'x', caseSensitive: true, includeHidden: false }), gone);
});

test('facts of a pattern', () => {
  const literal = (source, exact = true) => patternFacts(source, exact).literal;
  assert.equal(literal('function\\s+\\w+\\('), 'function');
  assert.equal(literal('ab?cde'), 'cde');
  assert.equal(literal('a|b'), '');
  assert.equal(literal('x(?:hello|world)yz'), 'yz');
  assert.equal(literal('(hello)+ x'), 'hello');
  assert.equal(literal('(?=hello)x'), 'x');
  assert.equal(literal('interface Foo {'), 'interface Foo {');
  assert.equal(literal('naïves', false), 'ves');
  assert.equal(literal('a\\x41bc'), '');
  assert.equal(patternFacts('(a|b)*c', true).loops, Infinity);
  assert.equal(patternFacts('(a+)+', true).loops, Infinity);
  assert.equal(patternFacts('a.*b', true).loops, 1);
  assert.equal(patternFacts('a.*b', true).wholeText, true);
  assert.equal(patternFacts('a[^b]', true).wholeText, false);
  assert.equal(patternFacts('a(?!b)', true).wholeText, false);
  assert.equal(patternFacts('a(?=b)', true).wholeText, false);
  assert.equal(patternFacts('[\\t-\\r]', true).wholeText, false);
  assert.equal(patternFacts('function\\s+\\w+\\(', true).choices, 1);
  assert.ok(patternFacts('a{5000}b', true).choices > 100);
  assert.ok(patternFacts('((a{8}){8}){8}', true).choices > 10);
  assert.ok(patternFacts(`${'a'.repeat(2000)}b|c`, true).choices > 100);
});
