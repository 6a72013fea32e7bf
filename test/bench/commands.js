// Commands: our Local at level `full` against Mastra's LocalSandbox without
// isolation, and with its bwrap mode.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import * as core from '@mastra/core/workspace';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { local } from 'sandbox-sdk-native/local';
import { median, pair, report } from './pair.js';

const here = path.dirname(fileURLToPath(import.meta.url));

async function ourSandbox(options) {
  const workspace = createMastraWorkspace({ provider: local({ isolation: 'full', ...options }) });
  await workspace.init();
  return workspace;
}

async function theirSandbox(folder, options) {
  const sandbox = new core.LocalSandbox({ workingDirectory: folder, ...options });
  await sandbox.start();
  return sandbox;
}

/** ms that a fresh Node process reports for itself. */
function inFreshProcess(script) {
  const run = spawnSync(process.execPath, [path.join(here, script)], { encoding: 'utf8' });
  if (run.status !== 0) throw new Error(`${script}: ${run.stderr}`);
  return Number(run.stdout.trim().split('\n').pop());
}

function freshPair(ours, theirs, rounds) {
  const a = [];
  const b = [];
  inFreshProcess(ours);
  inFreshProcess(theirs);
  for (let i = 0; i < rounds; i++) {
    a.push(inFreshProcess(ours));
    b.push(inFreshProcess(theirs));
  }
  return { ours: median(a), theirs: median(b), ratio: median(a) / median(b) };
}

export async function commands() {
  const folder = mkdtempSync(path.join(tmpdir(), 'bench-'));
  const theirs = await theirSandbox(folder);
  const withBash = await ourSandbox({ shell: '/bin/bash' });
  const withSh = await ourSandbox({ shell: '/bin/sh' });
  const echo = (sandbox) => () => sandbox.executeCommand('echo hello');
  const argv = (sandbox) => () => sandbox.executeCommand('echo', ['hello']);

  report('echo, /bin/sh', await pair(echo(withSh.sandbox), echo(theirs), { rounds: 200 }), 0.6);
  report('echo, bash', await pair(echo(withBash.sandbox), echo(theirs), { rounds: 200 }), 0.85);
  report('echo, argv', await pair(argv(withSh.sandbox), argv(theirs), { rounds: 200 }), 0.5);

  const output = 'head -c 52428800 /dev/zero | tr "\\\\0" a';
  const flood = (sandbox) => () => sandbox.executeCommand(output);
  report('50 MB of output', await pair(flood(withSh.sandbox), flood(theirs), { rounds: 7, warmup: 1 }), 0.5);

  try {
    const bwrap = await theirSandbox(folder, { isolation: 'bwrap' });
    report("echo against Mastra's bwrap mode", await pair(echo(withSh.sandbox), echo(bwrap), { rounds: 100 }), 0.2);
    await bwrap.destroy();
  } catch (error) {
    console.log(`echo against Mastra's bwrap mode: not run (${error.message})`);
  }

  await Promise.all([withBash.destroy(), withSh.destroy(), theirs.destroy()]);
  rmSync(folder, { recursive: true });

  report('import, create, first command in a fresh process', freshPair('first-ours.js', 'first-theirs.js', 9), 0.3);
  report('the same through createMastraWorkspace', freshPair('first-mastra.js', 'first-theirs.js', 9));
  const added = [];
  for (let i = 0; i < 9; i++) {
    added.push(inFreshProcess('import-added.js'));
  }
  console.log(`importing sandbox-sdk-native/mastra after @mastra/core/workspace adds ${median(added).toFixed(1)} ms (goal 15 ms)`);
}
