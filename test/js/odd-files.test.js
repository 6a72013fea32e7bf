// Names, trees and kinds of files that break other file tools, and many callers
// at once.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { Worker } from 'node:worker_threads';

import * as core from '@mastra/core/workspace';
import { local } from 'sandbox-sdk-native/local';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { out, toolsOf, until, using } from '../helpers/workspace.js';

const scratch = fs.mkdtempSync(path.join(tmpdir(), 'odd-'));
fs.chmodSync(scratch, 0o755);
after(() => fs.rmSync(scratch, { recursive: true, force: true }));
const utf8 = { encoding: 'utf-8' };

test('names of 255 bytes, with newlines, emoji, spaces, quotes, dots and dashes', using({}, async workspace => {
  const { filesystem: files } = workspace;
  const names = ['x'.repeat(255), 'é'.repeat(127), '😀'.repeat(63), 'a\nb', ' ', '  x ', '-rf', '...', "it's", '"', '$HOME', '*', '\\', 'con\tx', '\u202Eabc', 'e\u0301', '\u00e9'];
  for (const name of names) {
    await files.writeFile(`d/${name}`, name);
    assert.equal(await files.readFile(`d/${name}`, utf8), name);
    assert.equal((await files.stat(`d/${name}`)).name, name);
  }
  assert.deepEqual((await files.readdir('d')).map(entry => entry.name).sort(), [...names].sort());
  assert.equal(await out(workspace, 'find d -type f -print0 | tr -dc "\\0" | wc -c'), `${names.length}\n`);
  await assert.rejects(files.writeFile('x'.repeat(256), ''), error => error instanceof core.FilesystemError && /too long|255/i.test(error.message));
  for (const name of names) await files.deleteFile(`d/${name}`);
  await files.rmdir('d');
}));

test('names that are not UTF-8 are listed, and go with their tree', using({}, async workspace => {
  const { filesystem: files } = workspace;
  await out(workspace, "mkdir -p d/in && touch \"$(printf 'd/bad\\377name')\" \"$(printf 'd/in/\\303')\" d/good");
  const names = (await files.readdir('d', { recursive: true })).map(entry => entry.name);
  assert.equal(names.length, 4);
  assert.ok(names.includes('good') && names.some(name => name.includes('\uFFFD')));
  assert.equal((await files.walk('d')).length, 4);
  await files.copyFile('d', 'copy', { recursive: true });
  assert.equal(await out(workspace, 'cd copy && ls -b . in'), await out(workspace, 'cd d && ls -b . in'));
  const tools = await toolsOf(workspace);
  await tools.list_files({ path: '/', maxDepth: 5 });
  await tools.delete({ path: 'd', recursive: true });
  await files.rmdir('copy', { recursive: true });
  assert.deepEqual(await files.readdir('/'), []);
}));

// Making and removing one takes seconds of the kernel's time.
const levels = process.env.SBX_TEST_LONG === '1' ? 2000 : 300;

test(`a tree of ${levels} levels is made, copied, moved and removed`, using({}, async workspace => {
  const { filesystem: files } = workspace;
  const make = `import os\nfor i in range(${levels}):\n os.mkdir('d'); os.chdir('d')\nopen('leaf','w').write('x')`;
  assert.equal((await workspace.sandbox.executeCommand('python3', ['-c', make])).exitCode, 0);
  await files.copyFile('d', 'copy', { recursive: true });
  await files.moveFile('copy', 'moved');
  assert.ok((await files.readdir('d', { recursive: true })).length >= 100);
  assert.ok((await files.walk('/')).length >= 100);
  await files.rmdir('moved', { recursive: true });
  await files.rmdir('d', { recursive: true });
  assert.deepEqual(await files.readdir('/'), []);
}));

test('4 GiB: the size is right, reading it is refused with its size; holes stay holes', using({}, async workspace => {
  const { filesystem: files } = workspace;
  await out(workspace, 'truncate -s 4294967301 big; truncate -s 100M sparse; printf end >> sparse');
  assert.equal((await files.stat('big')).size, 4294967301);
  for (const options of [undefined, utf8]) {
    await assert.rejects(files.readFile('big', options), error => error instanceof core.FilesystemError && /large|4294967301|GiB/i.test(error.message));
  }
  const [entry] = (await files.readdir('/')).filter(one => one.name === 'big');
  assert.equal(entry.size, 4294967301);
  await files.copyFile('sparse', 'copy');
  assert.equal((await files.stat('copy')).size, 100 * 1024 * 1024 + 3);
  assert.ok(Number(await out(workspace, 'du -k copy | cut -f1')) < 1024, 'the holes were filled');
  assert.equal(await out(workspace, 'tail -c 3 copy'), 'end');
}));

test('FIFOs, sockets: listed, refused at once, copied and removed with their tree', using({}, async workspace => {
  const { filesystem: files } = workspace;
  await out(workspace, `mkdir d; mkfifo d/pipe; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('d/socket')"; echo x > d/file`);
  const names = ['file', 'pipe', 'socket'];
  assert.deepEqual((await files.readdir('d')).map(entry => entry.name), names);
  for (const name of ['pipe', 'socket']) {
    for (const call of [
      () => files.readFile(`d/${name}`),
      () => files.writeFile(`d/${name}`, 'x'),
      () => files.appendFile(`d/${name}`, 'x'),
      () => files.copyFile(`d/${name}`, 'x'),
    ]) {
      await assert.rejects(call, error => error instanceof core.FilesystemError && /pipe|FIFO|socket|regular/i.test(error.message), name);
    }
    assert.equal(await files.exists(`d/${name}`), true);
    await files.stat(`d/${name}`);
  }
  const tools = await toolsOf(workspace);
  assert.match(JSON.stringify(await tools.grep({ pattern: 'x' }).catch(error => error.message)), /0 matches|file|No matches/);
  await files.copyFile('d', 'copy', { recursive: true });
  assert.equal(await out(workspace, 'cat copy/file; test -p copy/pipe && echo fifo'), 'x\nfifo\n');
  await files.deleteFile('d/pipe');
  await files.rmdir('d', { recursive: true });
  await files.rmdir('copy', { recursive: true });
  assert.deepEqual(await files.readdir('/'), []);
}));

test('folders that cannot be read: an error of Mastra’s for them, the rest goes on', using({}, async workspace => {
  const { filesystem: files } = workspace;
  await out(workspace, 'mkdir -p d/open d/closed/in; echo x > d/open/a; echo x > d/closed/b; chmod 0 d/closed');
  await assert.rejects(files.readdir('d/closed'), core.PermissionError);
  await assert.rejects(files.readFile('d/closed/b'), core.PermissionError);
  await assert.rejects(files.writeFile('d/closed/c', 'x'), core.PermissionError);
  assert.equal(await files.exists('d/closed/b'), false);
  const names = (await files.walk('d')).map(entry => entry.path);
  assert.deepEqual(names, ['closed', 'open', 'open/a']);
  assert.deepEqual((await files.readdir('d', { recursive: true })).map(entry => entry.name), names);
  const tools = await toolsOf(workspace);
  await tools.list_files({ path: '/', maxDepth: 5 });
  await out(workspace, 'chmod 700 d/closed');
  await files.rmdir('d', { recursive: true });
}));

test('text with U+FFFD is not written over a file that is not UTF-8; bytes are', using({}, async workspace => {
  const { filesystem: files } = workspace;
  await out(workspace, "printf 'caf\\351\\n' > latin1; printf 'caf\\303\\251 \\357\\277\\275\\n' > utf8");
  const text = await files.readFile('latin1', utf8);
  assert.equal(text, 'caf\uFFFD\n');
  await assert.rejects(files.writeFile('latin1', `${text}more\n`), error => error instanceof core.FilesystemError && /UTF-8/.test(error.message));
  assert.equal(await out(workspace, 'od -An -tx1 latin1'), ' 63 61 66 e9 0a\n');
  await files.writeFile('latin1', Buffer.from('caf\uFFFD'));
  await files.writeFile('utf8', `${await files.readFile('utf8', utf8)}more\n`);
  assert.equal(await files.readFile('utf8', utf8), 'café \uFFFD\nmore\n');
  await out(workspace, "printf '\\377' > other");
  await files.writeFile('other', 'plain');
}));

test('replacing keeps mode, links and hard links; move keeps the time, copy makes a new one', using({}, async workspace => {
  const { filesystem: files } = workspace;
  await out(workspace, 'echo 1 > a; chmod 751 a; ln -s a link; ln a hard; touch -d 2001-01-01 a');
  await files.writeFile('link', 'two');
  assert.equal(await out(workspace, 'stat -c "%a %h" a; cat hard; readlink link'), '751 2\ntwoa\n');
  await out(workspace, 'touch -d 2001-01-01 a');
  await files.copyFile('a', 'copy');
  await files.moveFile('a', 'deep/moved');
  assert.equal(await out(workspace, 'stat -c "%a %Y" deep/moved; stat -c %a copy'), '751 978307200\n751\n');
  assert.ok((await files.stat('copy')).modifiedAt.getFullYear() > 2020);
  await assert.rejects(files.copyFile('deep', 'deep/in/itself', { recursive: true }), core.FilesystemError);
  await assert.rejects(files.moveFile('deep', 'deep/in/itself'), core.FilesystemError);
}));

test('files that vanish while they are listed and searched', using({}, async workspace => {
  const { filesystem: files, sandbox } = workspace;
  const churn = await sandbox.processes.spawn('mkdir -p d; while :; do for i in 1 2 3 4 5 6 7 8; do mkdir -p d/$i/x; echo needle > d/$i/x/f.md; done; rm -rf d/*; done');
  const tools = await toolsOf(workspace);
  await until(() => files.exists('d'));
  for (let i = 0; i < 60; i++) {
    await files.readdir('d', { recursive: true });
    await files.walk('d');
    await tools.list_files({ path: 'd', maxDepth: 5 });
    await tools.grep({ pattern: 'needle', path: 'd' });
    await files.copyFile('d', `copy${i}`, { recursive: true }).catch(error => assert.ok(error instanceof core.FilesystemError, error.stack));
  }
  assert.equal(churn.exitCode, undefined);
  await churn.kill();
}));

test('four threads and commands inside work on one folder at once', async t => {
  const directory = path.join(scratch, 'shared');
  fs.mkdirSync(directory);
  const workspace = createMastraWorkspace({ provider: local({ directory }) });
  t.after(() => workspace.destroy());
  const inside = await workspace.sandbox.processes.spawn('i=0; while :; do i=$((i+1)); echo c > new; mv new by-command; echo "command $i" >> log; done');
  const names = ['a', 'b', 'c', 'd'];
  const ends = names.map(name => new Promise((resolve, reject) => {
    const thread = new Worker(new URL('../helpers/writer.js', import.meta.url), { workerData: { directory, name } });
    thread.on('message', resolve);
    thread.on('error', reject);
  }));
  assert.deepEqual(await Promise.all(ends), Array(4).fill('done'));
  await inside.kill();
  const lines = (await workspace.filesystem.readFile('log', utf8)).split('\n');
  for (const name of names) {
    assert.deepEqual(lines.filter(line => line.startsWith(`${name} `)), Array.from({ length: 40 }, (_, i) => `${name} ${i}`));
  }
  const left = (await workspace.filesystem.readdir('/')).map(entry => entry.name).filter(name => name !== 'new');
  assert.deepEqual(left.sort(), [...names, 'by-command', 'log', 'shared'].sort());
});
