// E2B: our provider through createSandbox() against the official package, both
// on one fake that runs in a process of its own.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { median, report } from './pair.js';

const here = path.dirname(fileURLToPath(import.meta.url));
const runFile = promisify(execFile);

async function startFake() {
  const child = spawn(process.execPath, [path.join(here, '../fakes/serve-e2b.js')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const [line] = await once(child.stdout, 'data');
  const close = async () => {
    const closed = once(child, 'close');
    child.stdin.end();
    await closed;
  };
  return { ...JSON.parse(line), close };
}

/** ms that a fresh process reports for itself. */
async function inFreshProcess(script, fake) {
  const argument = JSON.stringify({ url: fake.url, apiKey: fake.apiKey });
  const { stdout } = await runFile(process.execPath, [path.join(here, script), argument]);
  return Number(stdout.trim().split('\n').pop());
}

async function freshPair(fake, rounds) {
  const a = [];
  const b = [];
  await inFreshProcess('e2b-ours.js', fake);
  await inFreshProcess('e2b-theirs.js', fake);
  for (let i = 0; i < rounds; i++) {
    a.push(await inFreshProcess('e2b-ours.js', fake));
    b.push(await inFreshProcess('e2b-theirs.js', fake));
  }
  return { ours: median(a), theirs: median(b), ratio: median(a) / median(b) };
}

/** What one run costs: { cpu, wall } in ms. */
async function cost(work) {
  const cpu = process.cpuUsage();
  const start = performance.now();
  await work();
  const wall = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return { cpu: (user + system) / 1000, wall };
}

/** Both in turn -> { cpu, wall }, each { ours, theirs, ratio }. */
async function costs(ours, theirs, { rounds, divide = 1 }) {
  const all = { ours: [], theirs: [] };
  await ours();
  await theirs();
  for (let i = 0; i < rounds; i++) {
    const order = i % 2 ? ['ours', 'theirs'] : ['theirs', 'ours'];
    for (const side of order) all[side].push(await cost(side === 'ours' ? ours : theirs));
  }
  const result = {};
  for (const what of ['cpu', 'wall']) {
    const [a, b] = ['ours', 'theirs'].map((side) => median(all[side].map((one) => one[what])) / divide);
    result[what] = { ours: a, theirs: b, ratio: a / b };
  }
  return result;
}

async function smallFiles({ write, read }) {
  for (let i = 0; i < 50; i++) {
    await write(`small/${i % 10}.txt`, 'x'.repeat(1024));
    await read(`small/${i % 10}.txt`);
  }
}

async function flood({ run }) {
  const { stdout } = await run('head -c 52428800 /dev/zero | tr "\\0" a');
  if (stdout.length !== 52_428_800) throw new Error(`bench: ${stdout.length} bytes arrived`);
}

function many({ run }) {
  return Promise.all(Array.from({ length: 64 }, () => run('echo hello')));
}

export async function e2b() {
  if (!existsSync(path.join(here, '../../js/e2b.js'))) {
    console.log('not run: js/e2b.js is not there');
    return;
  }
  const fake = await startFake();
  try {
    report('import, create, first command in a fresh process', await freshPair(fake, 9), 0.3);
    const a = await (await import('./e2b-ours.js')).ours(fake);
    const b = await (await import('./e2b-theirs.js')).theirs(fake);
    const both = (work, how) => costs(() => work(a), () => work(b), how);

    const files = await both(smallFiles, { rounds: 15, divide: 100 });
    report('CPU of a small file operation', files.cpu, 0.4);
    report('time of a small file operation', files.wall);
    const output = await both(flood, { rounds: 5 });
    report('50 MB of output, CPU', output.cpu, 0.5);
    report('50 MB of output, time', output.wall, 1);
    const burst = await both(many, { rounds: 7 });
    report('64 commands at once, CPU', burst.cpu);
    report('64 commands at once, time', burst.wall);
    await Promise.all([a.close(), b.close()]);
  } finally {
    await fake.close();
  }
}
