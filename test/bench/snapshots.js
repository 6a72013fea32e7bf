// Snapshots against tar, and sessions on a template against empty ones. Pairs
// are interleaved; what counts is the ratio of the medians.
import { execFileSync } from 'node:child_process';
import { rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';

const rounds = Number(process.env.ROUNDS ?? 7);
const median = list => [...list].sort((a, b) => a - b)[list.length >> 1];

async function timed(work) {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

function report(name, ours, theirs, limit) {
  const ratio = median(ours) / median(theirs);
  const told = list => `${median(list).toFixed(1)} ms`;
  console.log(`${name}: ${ratio.toFixed(2)}x (${told(ours)} to ${told(theirs)}), wanted <= ${limit}x`);
}

async function templates() {
  const provider = local();
  const options = {
    provider,
    identity: 'bench',
    onFirstCreate: sandbox =>
      sandbox.run('for d in $(seq 500); do mkdir $d; (cd $d; seq 100 | xargs touch); done'),
  };
  const first = await createSandbox(options);
  await (await createSandbox(options)).stop();
  const ours = [];
  const theirs = [];
  for (let i = 0; i < rounds * 3; i++) {
    for (const [list, how] of [[ours, options], [theirs, { provider }]]) {
      let sandbox;
      list.push(await timed(async () => (sandbox = await createSandbox(how))));
      await sandbox.stop();
    }
  }
  await first.stop();
  report('new session from a template of 50,000 files, to an empty one', ours, theirs, 2);
}

async function archives() {
  const sandbox = await createSandbox({ provider: local({ isolation: 'none' }) });
  await sandbox.run(
    'for d in $(seq 100); do mkdir $d; head -c 2097152 /dev/urandom | split -b 20971 -a 3 - $d/f; done; sync',
  );
  const folder = sandbox.cwd;
  const out = path.join(tmpdir(), `snapshots-bench-${process.pid}.tar`);
  const ours = [];
  const theirs = [];
  for (let i = 0; i < rounds; i++) {
    theirs.push(await timed(() => execFileSync('tar', ['-C', folder, '-cf', out, '.'])));
    rmSync(out);
    let made;
    ours.push(await timed(async () => (made = await sandbox.snapshots.create())));
    await sandbox.snapshots.delete(made.id);
  }
  await sandbox.stop();
  report('snapshot of 10,000 files and 200 MB, to tar', ours, theirs, 1);
}

await archives();
await templates();
