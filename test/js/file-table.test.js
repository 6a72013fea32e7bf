// What every operation of the filesystem answers for every kind of path: Mastra's
// error classes, nothing outside touched, `exists` never throws.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';

import * as core from '@mastra/core/workspace';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { giveToUser, machineRoot, provider, where } from '../helpers/providers.js';

// On this machine; at a service in the root of its machine.
let scratch = fs.mkdtempSync(path.join(tmpdir(), 'table-'));
let outside = path.join(scratch, 'outside');
let directory = path.join(scratch, 'work');
// As the sandbox names them.
const names = where === 'local' ? { outside, directory } : { outside: '/outside', directory: '/workspace' };
let workspace;
let files;

before(async () => {
  workspace = createMastraWorkspace({ provider: provider(where === 'local' ? { directory } : {}) });
  if (where !== 'local') {
    await workspace.init();
    fs.rmSync(scratch, { recursive: true });
    scratch = machineRoot(workspace.sandbox);
    [outside, directory] = ['outside', 'workspace'].map(name => path.join(scratch, name));
  }
  fs.chmodSync(scratch, 0o755);
  fs.mkdirSync(outside, { mode: 0o777 });
  fs.chmodSync(outside, 0o777);
  fs.writeFileSync(path.join(outside, 'secret.txt'), 'secret', { mode: 0o666 });
  await workspace.init();
  files = workspace.filesystem;
});
after(async () => {
  await workspace.destroy();
  fs.rmSync(scratch, { recursive: true, force: true });
});

const links = {
  'l-file': 'f.txt',
  'l-dir': 'd',
  'l-inside': '/workspace/f.txt',
  'l-out': '../outside/secret.txt',
  'l-out-abs': `${names.outside}/secret.txt`,
  'l-outdir': '../outside',
  'l-outdir-abs': names.outside,
  'l-dangling': 'nowhere',
  'l-dangling-out': '../outside/none',
};

function reset() {
  for (const name of fs.readdirSync(directory)) fs.rmSync(path.join(directory, name), { recursive: true });
  fs.writeFileSync(path.join(directory, 'f.txt'), 'file');
  fs.writeFileSync(path.join(directory, 'src.txt'), 'src');
  fs.mkdirSync(path.join(directory, 'd'));
  fs.writeFileSync(path.join(directory, 'd/in.txt'), 'in');
  for (const [name, target] of Object.entries(links)) fs.symlinkSync(target, path.join(directory, name));
  giveToUser(directory);
}

// A column of the table is a kind of path; the paths of one column are answered alike.
const columns = [
  ['no.txt', 'n\n é'],
  ['no/x', '~/x', '/src/x'],
  ['f.txt', 'f.txt/', '/f.txt', '/workspace/f.txt', 'd/../f.txt', `${names.directory}/f.txt`],
  ['d', 'd/', '/d', './d', '/workspace/d/.'],
  ['l-file', 'l-inside'],
  ['l-dir'],
  ['l-out', 'l-out-abs'],
  ['l-outdir/new', 'l-outdir-abs/new', 'l-outdir/secret.txt', '../x', 'd/../../x', '/../x'],
  ['l-dangling'],
  ['l-dangling-out'],
  ['f.txt/child'],
  ['', '.', '/', '/workspace', names.directory],
  ['a\0b'],
];

const classes = {
  FNF: core.FileNotFoundError,
  DNF: core.DirectoryNotFoundError,
  ISD: core.IsDirectoryError,
  NOTD: core.NotDirectoryError,
  EXI: core.FileExistsError,
  NE: core.DirectoryNotEmptyError,
  PERM: core.PermissionError,
  BAD: core.FilesystemError,
};

const wanted = `
                       missing  deep   file   dir    l-file l-dir  out    outside dangl  d-out  child  root   NUL
readFile               FNF      FNF    ok     ISD    ok     ISD    PERM   PERM    FNF    PERM   FNF    ISD    BAD
writeFile              ok       ok     ok     ISD    ok     ISD    PERM   PERM    ok     PERM   NOTD   ISD    BAD
writeFile-exclusive    ok       ok     EXI    EXI    EXI    EXI    PERM   PERM    EXI    PERM   NOTD   EXI    BAD
writeFile-no-parents   ok       DNF    ok     ISD    ok     ISD    PERM   PERM    ok     PERM   NOTD   ISD    BAD
appendFile             ok       ok     ok     ISD    ok     ISD    PERM   PERM    ok     PERM   NOTD   ISD    BAD
deleteFile             FNF      FNF    ok     ISD    ok     ISD    PERM   PERM    FNF    PERM   NOTD   ISD    BAD
deleteFile-force       ok       ok     ok     ISD    ok     ISD    ok     PERM    ok     ok     NOTD   ISD    BAD
copyFile-from          FNF      FNF    ok     ISD    ok     ISD    PERM   PERM    FNF    PERM   FNF    ISD    BAD
copyFile-tree-from     FNF      FNF    ok     ok     ok     ok     PERM   PERM    FNF    PERM   FNF    BAD    BAD
copyFile-to            ok       ok     ok     ISD    ok     ISD    PERM   PERM    ok     PERM   NOTD   ISD    BAD
moveFile-from          FNF      FNF    ok     ok     ok     ok     PERM   PERM    ok     PERM   FNF    PERM   BAD
moveFile-to            ok       ok     ok     ISD    ok     ok     PERM   PERM    ok     PERM   NOTD   PERM   BAD
mkdir                  ok       ok     EXI    ok     EXI    ok     PERM   PERM    DNF    PERM   NOTD   ok     BAD
mkdir-no-parents       ok       DNF    EXI    ok     EXI    ok     PERM   PERM    DNF    PERM   NOTD   ok     BAD
rmdir                  DNF      DNF    NOTD   NE     NOTD   NE     PERM   PERM    DNF    PERM   NOTD   PERM   BAD
rmdir-tree             DNF      DNF    NOTD   ok     NOTD   ok     PERM   PERM    DNF    PERM   NOTD   PERM   BAD
rmdir-tree-force       ok       ok     NOTD   ok     NOTD   ok     PERM   PERM    ok     PERM   NOTD   PERM   BAD
readdir                DNF      DNF    NOTD   ok     NOTD   ok     PERM   PERM    DNF    PERM   NOTD   ok     BAD
walk                   DNF      DNF    NOTD   ok     NOTD   ok     PERM   PERM    DNF    PERM   NOTD   ok     BAD
stat                   FNF      FNF    ok     ok     ok     ok     PERM   PERM    FNF    PERM   FNF    ok     BAD
realpath               FNF      FNF    ok     ok     ok     ok     PERM   PERM    FNF    PERM   FNF    ok     BAD
exists                 false    false  true   true   true   true   false  false   false  false  false  true   false
`;

const operations = {
  readFile: at => files.readFile(at),
  writeFile: at => files.writeFile(at, 'new'),
  'writeFile-exclusive': at => files.writeFile(at, 'new', { overwrite: false }),
  'writeFile-no-parents': at => files.writeFile(at, 'new', { recursive: false }),
  appendFile: at => files.appendFile(at, 'new'),
  deleteFile: at => files.deleteFile(at),
  'deleteFile-force': at => files.deleteFile(at, { force: true }),
  'copyFile-from': at => files.copyFile(at, 'to'),
  'copyFile-tree-from': at => files.copyFile(at, 'to', { recursive: true }),
  'copyFile-to': at => files.copyFile('src.txt', at),
  'moveFile-from': at => files.moveFile(at, 'to'),
  'moveFile-to': at => files.moveFile('src.txt', at),
  mkdir: at => files.mkdir(at),
  'mkdir-no-parents': at => files.mkdir(at, { recursive: false }),
  rmdir: at => files.rmdir(at),
  'rmdir-tree': at => files.rmdir(at, { recursive: true }),
  'rmdir-tree-force': at => files.rmdir(at, { recursive: true, force: true }),
  readdir: at => files.readdir(at),
  walk: at => files.walk(at),
  stat: at => files.stat(at),
  realpath: at => files.realpath(at),
  exists: at => files.exists(at),
};

async function answer(operation, at) {
  try {
    const value = await operation(at);
    return typeof value === 'boolean' ? String(value) : 'ok';
  } catch (error) {
    const name = Object.keys(classes).find(key => error instanceof classes[key]);
    return name ?? `raw ${error.name}: ${error.message}`;
  }
}

function untouched() {
  assert.deepEqual(fs.readdirSync(outside), ['secret.txt']);
  assert.equal(fs.readFileSync(path.join(outside, 'secret.txt'), 'utf8'), 'secret');
  if (where === 'local') assert.deepEqual(fs.readdirSync(scratch).sort(), ['outside', 'work']);
}

for (const line of wanted.trim().split('\n').slice(1)) {
  const [name, ...row] = line.trim().split(/ +/);
  test(name, async () => {
    assert.equal(row.length, columns.length);
    for (const [index, paths] of columns.entries()) {
      for (const at of paths) {
        reset();
        assert.equal(await answer(operations[name], at), row[index], JSON.stringify(at));
        untouched();
      }
    }
  });
}

test('a forced delete removes a link, never what it names', async () => {
  for (const name of ['l-file', 'l-out', 'l-dangling', 'l-dangling-out']) {
    reset();
    await files.deleteFile(name, { force: true });
    assert.ok(!fs.existsSync(path.join(directory, name)) && !fs.readdirSync(directory).includes(name), name);
    assert.equal(fs.readFileSync(path.join(directory, 'f.txt'), 'utf8'), 'file');
  }
  untouched();
});

test('a recursive listing shows links and follows none', async () => {
  reset();
  fs.symlinkSync('..', path.join(directory, 'd/up'));
  giveToUser(directory);
  const entries = await files.readdir('/', { recursive: true });
  const names = entries.map(entry => entry.name).sort();
  assert.deepEqual(names, ['d', 'd/in.txt', 'd/up', 'f.txt', 'src.txt', ...Object.keys(links)].sort());
  const link = entries.find(entry => entry.name === 'l-out');
  assert.deepEqual([link.isSymlink, link.symlinkTarget], [true, '../outside/secret.txt']);
});

test('one delete of a link to a folder takes the link alone', async () => {
  reset();
  await files.rmdir('l-dir', { recursive: true });
  assert.deepEqual([fs.existsSync(path.join(directory, 'l-dir')), fs.existsSync(path.join(directory, 'd/in.txt'))], [false, true]);
});

test('twenty exclusive writers: one wins; fifty appends are all kept', async () => {
  reset();
  const tries = await Promise.allSettled(Array.from({ length: 20 }, (_, i) => files.writeFile('one', String(i), { overwrite: false })));
  assert.equal(tries.filter(one => one.status === 'fulfilled').length, 1);
  assert.ok(tries.every(one => one.status === 'fulfilled' || one.reason instanceof core.FileExistsError));
  await Promise.all(Array.from({ length: 50 }, (_, i) => files.appendFile('log', `${i}\n`)));
  const lines = fs.readFileSync(path.join(directory, 'log'), 'utf8').trim().split('\n');
  assert.deepEqual(lines.map(Number).sort((a, b) => a - b), Array.from({ length: 50 }, (_, i) => i));
});

const needsMtime = { skip: !core.StaleFileError && 'this @mastra/core has no expectedMtime' };

test('times have milliseconds: two writes 20 ms apart differ, one more millisecond is stale', needsMtime, async () => {
  reset();
  await files.writeFile('t', '1');
  const first = (await files.stat('t')).modifiedAt;
  await new Promise(resolve => setTimeout(resolve, 20));
  await files.writeFile('t', '2');
  const second = (await files.stat('t')).modifiedAt;
  assert.notEqual(first.getTime(), second.getTime());
  for (const expectedMtime of [first, new Date(second.getTime() + 1), new Date(second.getTime() - 1)]) {
    await assert.rejects(files.writeFile('t', 'x', { expectedMtime }), error => {
      assert.ok(error instanceof core.StaleFileError);
      assert.deepEqual([error.expectedMtime, error.actualMtime], [expectedMtime, second]);
      return true;
    });
  }
  // Stale comes before exclusive, and a missing file is written.
  await assert.rejects(files.writeFile('t', 'x', { expectedMtime: first, overwrite: false }), core.StaleFileError);
  await files.writeFile('gone', 'x', { expectedMtime: first });
  await files.writeFile('t', '3', { expectedMtime: second });
  assert.equal(await files.readFile('t', { encoding: 'utf-8' }), '3');
});

test('two writers with one expected time: exactly one wins, fifty times', needsMtime, async () => {
  reset();
  for (let round = 0; round < 50; round++) {
    const at = `r${round}`;
    await files.writeFile(at, 'start');
    // Old enough that the winner's write gets another time.
    fs.utimesSync(path.join(directory, at), 1000, 1000 + round);
    const { modifiedAt: expectedMtime } = await files.stat(at);
    const tries = await Promise.allSettled(['a', 'b'].map(text => files.writeFile(at, text, { expectedMtime })));
    const won = tries.map(one => one.status === 'fulfilled');
    assert.equal(won.filter(Boolean).length, 1, `round ${round}`);
    assert.ok(tries.find(one => one.status === 'rejected').reason instanceof core.StaleFileError);
    assert.equal(fs.readFileSync(path.join(directory, at), 'utf8'), won[0] ? 'a' : 'b');
  }
});
