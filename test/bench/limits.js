// Limits: what a command costs with all of them on, and how fast a large sandbox
// is paused. Both columns are ours here.
import { createMastraSandbox } from 'sandbox-sdk-native/mastra';
import { local } from 'sandbox-sdk-native/local';
import { median, pair, report } from './pair.js';

const MIB = 1024 * 1024;
const all = {
  processes: 1000,
  memory: 1024 * MIB,
  cpu: 2,
  openFiles: 4096,
  fileSize: 512 * MIB,
  workspaceSize: 1024 * MIB,
  outputRate: 64 * MIB,
};

async function started(limits) {
  const sandbox = createMastraSandbox({ provider: local({ isolation: 'full', shell: '/bin/sh', limits }) });
  await sandbox.start();
  return sandbox;
}

async function pauses(sandbox) {
  const { sandboxSdk: sdk } = sandbox;
  const crowd = await sdk.processes.start('i=0; while [ $i -lt 300 ]; do sleep 1000 & i=$((i+1)); done; echo up; wait');
  while (!crowd.stdout.includes('up')) await new Promise(resolve => setTimeout(resolve, 20));
  const times = [];
  for (let i = 0; i < 21; i++) {
    const start = performance.now();
    await sdk.pause();
    await sdk.resume();
    times.push(performance.now() - start);
  }
  const ms = median(times);
  console.log(`pause and resume of 300 processes: ${ms.toFixed(1)} ms (goal 50 ms)${ms <= 50 ? '  ok' : '  ABOVE'}`);
}

export async function limits() {
  const free = await started({});
  const limited = await started(all);
  const echo = sandbox => () => sandbox.executeCommand('echo hello');
  report('echo, all limits against none', await pair(echo(limited), echo(free), { rounds: 300 }), 1.15);
  await pauses(free);
  await Promise.all([free.destroy(), limited.destroy()]);
}
