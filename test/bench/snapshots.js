// Snapshots against tar, and sessions on a template against empty ones.
import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';
import { median, pair, report } from './pair.js';

// Only the start counts, not the end.
async function starts(...ways) {
  const lists = ways.map(() => []);
  for (let i = 0; i < 30; i++) {
    for (const [index, options] of ways.entries()) {
      const begin = performance.now();
      const sandbox = await createSandbox(options);
      lists[index].push(performance.now() - begin);
      await sandbox.stop();
    }
  }
  const [ours, theirs] = lists.map(median);
  return { ours, theirs, ratio: ours / theirs };
}

async function templates() {
  const provider = local();
  const options = {
    provider,
    identity: 'bench',
    onFirstCreate: sandbox => sandbox.run('for d in $(seq 500); do mkdir $d; (cd $d; seq 100 | xargs touch); done'),
  };
  const first = await createSandbox(options);
  await (await createSandbox(options)).stop(); // makes the layer
  report('new session on 50,000 files, an empty one', await starts(options, { provider }), 2);
  await first.stop();
}

async function archives() {
  const sandbox = await createSandbox({ provider: local({ isolation: 'none' }) });
  await sandbox.run('for d in $(seq 100); do mkdir $d; head -c 2097152 /dev/urandom | split -b 20971 -a 3 - $d/f; done; sync');
  const out = path.join(tmpdir(), `snapshots-bench-${process.pid}.tar`);
  const tar = () => execFileSync('sh', ['-c', 'tar -C "$0" -cf "$1" . && rm "$1"', sandbox.cwd, out]);
  const ours = async () => sandbox.snapshots.delete((await sandbox.snapshots.create()).id);
  report('snapshot of 10,000 files and 200 MB, tar', await pair(ours, tar, { rounds: 8, warmup: 1 }), 1);
  await sandbox.stop();
}

export async function snapshots() {
  await archives();
  await templates();
}
