// File tools: our Local at level `full` against Mastra's LocalFilesystem and
// node:fs, on the disk's file system and on tmpfs.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { LocalFilesystem, LocalSandbox, Workspace, createWorkspaceTools } from '@mastra/core/workspace';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { local } from 'sandbox-sdk-native/local';
import { pair, report } from './pair.js';
import { longestTurn, reportTurn } from './turn.js';

const utf8 = { encoding: 'utf-8' };

async function open(parent) {
  const root = fs.mkdtempSync(path.join(parent, 'bench-files-'));
  const ours = createMastraWorkspace({ provider: local({ directory: root, isolation: 'full' }) });
  const theirs = new Workspace({
    filesystem: new LocalFilesystem({ basePath: root }),
    sandbox: new LocalSandbox({ workingDirectory: root }),
  });
  await ours.init();
  await theirs.init();
  return {
    root,
    ours,
    theirs,
    async close() {
      await ours.destroy();
      await theirs.destroy();
      fs.rmSync(root, { recursive: true });
    },
  };
}

function tree(root, folders, files, content) {
  for (let i = 0; i < folders; i++) {
    const folder = path.join(root, `d${i % 10}`, `e${i}`);
    fs.mkdirSync(folder, { recursive: true });
    for (let j = 0; j < files; j++) fs.writeFileSync(path.join(folder, `f${j}.ts`), content(i, j));
  }
}

const source = (i, j) =>
  Array.from({ length: 40 }, (_, n) => `export const value_${i}_${j}_${n} = '${'x'.repeat(30)}'; // needle${n === j ? i : ''}\n`).join('');

async function small({ ours, theirs }) {
  const text = 'x'.repeat(1024);
  let n = 0;
  const cycle = (files) => async () => {
    const name = `small-${n++ % 50}.txt`;
    await files.writeFile(name, text);
    await files.readFile(name, utf8);
  };
  const many = (one) => async () => {
    for (let i = 0; i < 50; i++) await one();
  };
  return pair(many(cycle(ours.filesystem)), many(cycle(theirs.filesystem)), { rounds: 20 });
}

async function listing({ root, ours, theirs }, folders, rounds) {
  tree(path.join(root, `list${folders}`), folders, 10, () => '');
  const list = (files) => () => files.readdir(`list${folders}`, { recursive: true });
  return pair(list(ours.filesystem), list(theirs.filesystem), { rounds, warmup: 1 });
}

async function grep({ root, ours, theirs }) {
  tree(path.join(root, 'grep'), 500, 10, source);
  const search = async (workspace) => {
    const tools = await createWorkspaceTools(workspace);
    return () => tools.mastra_workspace_grep.execute({ pattern: 'needle4\\d\\b', path: 'grep' }, { workspace });
  };
  const result = await pair(await search(ours), await search(theirs), { rounds: 5, warmup: 1 });
  fs.rmSync(path.join(root, 'grep'), { recursive: true });
  return result;
}

// The host of a virtual machine takes free memory back; whoever touches it first
// waits for it, up to seconds per gigabyte. Paid here, so that neither copy does,
// nor for what the other has left to be written to the disk.
function settleMachine() {
  execFileSync('sync');
  const file = `/dev/shm/bench-${process.pid}`;
  const chunk = Buffer.alloc(16 << 20);
  const fd = fs.openSync(file, 'w');
  fs.unlinkSync(file);
  try {
    for (let i = 0; i < 160; i++) fs.writeSync(fd, chunk);
  } finally {
    fs.closeSync(fd);
  }
}

async function copy({ root, ours }) {
  const big = path.join(root, 'big');
  const chunk = Buffer.alloc(16 << 20, 97);
  const fd = fs.openSync(big, 'w');
  for (let i = 0; i < 64; i++) fs.writeSync(fd, chunk);
  fs.closeSync(fd);
  return pair(
    () => ours.filesystem.copyFile('big', 'copy'),
    () => pipeline(fs.createReadStream(big), fs.createWriteStream(path.join(root, 'copy2'))),
    { rounds: 5, warmup: 1, before: settleMachine },
  );
}

async function reads({ root, ours }) {
  fs.mkdirSync(path.join(root, 'reads'));
  for (let i = 0; i < 1000; i++) fs.writeFileSync(path.join(root, 'reads', `${i}`), 'y'.repeat(1024));
  const flood = (read) => async () => {
    let next = 0;
    await Promise.all(
      Array.from({ length: 64 }, async () => {
        while (next < 10_000) await read(next++ % 1000);
      }),
    );
  };
  return pair(
    flood((i) => ours.filesystem.readFile(`reads/${i}`)),
    flood((i) => fs.promises.readFile(path.join(root, 'reads', `${i}`))),
    { rounds: 5, warmup: 1 },
  );
}

// What is left of the trees and files of the others.
async function turns({ root, ours }) {
  const { filesystem } = ours;
  const content = Buffer.alloc(100 << 20, 120);
  const text = 'x'.repeat(1 << 20);
  tree(path.join(root, 'search'), 500, 10, source);
  const scratch = path.join(root, 'many');
  const fill = () => {
    for (const name of ['copied', 'moved']) fs.rmSync(path.join(root, name), { recursive: true, force: true });
    if (!fs.existsSync(scratch)) tree(scratch, 1000, 10, () => 'x');
  };
  const verbs = {
    'list 100,000 files': [() => filesystem.readdir('list10000', { recursive: true })],
    'walk 100,000 files': [() => filesystem.walk('list10000')],
    'grep 5,000 files': [() => filesystem.grep({ pattern: 'needle4\\d\\b', path: 'search' })],
    'write 100 MB': [() => filesystem.writeFile('large', content)],
    'read 100 MB': [() => filesystem.readFile('large')],
    'append 100 MB': [() => filesystem.appendFile('appended', content)],
    'write 1 MB of text': [() => filesystem.writeFile('text', text)],
    'read 1 MB of text': [() => filesystem.readFile('text', utf8)],
    'copy 10,000 files': [() => filesystem.copyFile('many', 'copied', { recursive: true }), fill],
    'move 10,000 files': [() => filesystem.moveFile('many', 'moved'), fill],
    'remove 10,000 files': [() => filesystem.rmdir('many', { recursive: true }), fill],
  };
  for (const name in verbs) {
    const [work, before] = verbs[name];
    reportTurn(`longest turn of the loop: ${name}`, await longestTurn(work, { before }), 5);
  }
}

export async function files() {
  for (const parent of [tmpdir(), '/dev/shm']) {
    console.log(`in ${parent}`);
    const bench = await open(parent);
    try {
      report('50 times write and read 1 KB', await small(bench), 0.5);
      report('list 1,000 files', await listing(bench, 100, 10), 0.05);
      report('list 100,000 files', await listing(bench, 10_000, 2), 0.05);
      report("Mastra's grep tool over 5,000 files", await grep(bench), 0.05);
      report('copy 1 GB, against node:fs streams', await copy(bench), 0.5);
      report('10,000 reads, 64 in flight, against node:fs', await reads(bench), 0.25);
      await turns(bench);
    } finally {
      await bench.close();
    }
  }
}
