// Many sessions at once that do what comes to mind, for a while:
//   storm.js SESSIONS MS [DIE_MS]
// Prints JSON: how often each thing was done, what failed that must not, what was
// held at the end and how memory went. With DIE_MS it kills itself then.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import v8 from 'node:v8';
import vm from 'node:vm';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSandbox, isSandboxError } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';

const [sessions, duration, dieMs] = process.argv.slice(2).map(Number);
const start = performance.now();
const done = {};
const over = () => performance.now() - start > duration && (done.create > sessions || performance.now() - start > 10 * duration);
const STUCK_MS = Number(process.env.STORM_STUCK_MS ?? 120_000);

if (dieMs >= 0) {
  // Timers are too coarse for a moment of a start.
  const tick = () => (performance.now() - start >= dieMs ? process.kill(process.pid, 'SIGKILL') : setImmediate(tick));
  tick();
}

const failed = [];
const expected = new Set(['conflict', 'unavailable', 'aborted', 'timeout', 'not_found']);
const any = list => list[Math.floor(Math.random() * list.length)];
const upTo = n => Math.floor(Math.random() * n);

/** Counts; what hangs, or fails in a way that nobody could explain, is noted. */
async function did(name, work, history = []) {
  const at = history.push(name) - 1;
  let timer;
  const stuck = new Promise(resolve => (timer = setTimeout(resolve, STUCK_MS, 'stuck')));
  done[name] = (done[name] ?? 0) + 1;
  try {
    const result = await Promise.race([Promise.resolve().then(work), stuck]);
    history[at] = `(${name})`;
    if (result === 'stuck') failed.push(`${name} is stuck after ${history.slice(0, at)}, then ${history.slice(at + 1)}`);
    return result;
  } catch (error) {
    history[at] = `(${name}: ${error?.code})`;
    // What lost too many races against others of its session says "try again".
    if (!isSandboxError(error) || !(error.retryable || expected.has(error.code))) failed.push(`${name}: ${error.stack}`);
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

const stubborn = "trap '' TERM HUP INT; (setsid sh -c \"trap '' TERM HUP INT; sleep 600\" &); sleep 600";

const things = {
  echo: async box => {
    const { stdout, killed } = await box.run('echo $((6 * 7))');
    if (!killed && stdout !== '42\n') throw new Error(`echo gave ${JSON.stringify(stdout)}`);
  },
  timeout: box => box.run(any(['sleep 600', 'exec sleep 600']), { timeout: 1 + upTo(100) }),
  abort: async box => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), upTo(60));
    await box.run(any([stubborn, 'yes', 'sleep 600']), { signal: controller.signal, maxRetainedBytes: 65536 });
  },
  flood: box => box.run('head -c 3000000 /dev/zero', { maxRetainedBytes: 4096, onStdout: any([undefined, () => {}]) }),
  input: box => box.run('cat', { stdin: 'x'.repeat(upTo(300_000)), maxRetainedBytes: 1000 }),
  deaf: box => box.run('exec 0<&-; sleep 0.02', { stdin: 'x'.repeat(1_000_000) }),
  background: box => box.run('sleep 600 & sleep 600 & echo'),
  orphans: box => box.run('for i in 1 2 3 4 5 6 7 8; do (sleep 0.01 &) ; done'),
  kill: async box => {
    const process = await box.processes.start(any([stubborn, 'yes', 'cat']), { pty: any([undefined, undefined, true]) });
    await sleep(upTo(30));
    await process.kill();
  },
  leave: box => box.processes.start(any([stubborn, 'while :; do echo; sleep 0.01; done', 'cat'])).then(() => {}),
  missing: box => box.run(['no-such-program']),
  files: async box => {
    const name = `f${upTo(20)}/g${upTo(5)}`;
    await box.files.write(name, 'x'.repeat(upTo(50_000)));
    await box.files.read(name).catch(error => error);
    await box.files.list('.', { recursive: true });
    if (upTo(2)) await box.files.remove(path.dirname(name), { force: true });
  },
  pause: async box => {
    await box.pause();
    await sleep(upTo(40));
    await box.resume();
  },
  pausedEnd: async box => {
    await box.pause();
    if (upTo(2)) await box.resume();
    else await box.stop();
  },
  snapshot: async box => {
    const { id } = await box.snapshots.create();
    if (upTo(2)) await box.snapshots.restore(id);
    await box.snapshots.delete(id);
  },
  port: async box => {
    const { request } = await box.ports.expose(3000);
    await request('/').then(answer => answer.text(), () => {});
  },
  policy: box => box.setNetworkPolicy(any(['deny', ['example.com'], ['npm']])),
  suicide: box => box.run('kill -9 $PPID; kill -9 -1; kill -9 1'),
  stop: box => box.stop(),
};
const names = Object.keys(things);

// Each provider that kept a snapshot or a template has a folder, and who removes it.
const stores = 4;
const isolations = ['auto', 'full', 'landlock'];
const providers = isolations.map(isolation => local({ isolation, limits: { processes: 3000 } }));
const rooted = local({ root: path.join(tmpdir(), 'root') });

function optionsOf(i) {
  if (upTo(6) === 0) return { provider: rooted, id: `rooted-${i}` };
  const provider = any(providers);
  if (upTo(4) === 0) return { provider, identity: 'storm', onFirstCreate: box => box.run('mkdir t && echo > t/x') };
  return { provider };
}

async function one(i) {
  while (!over()) {
    const history = [];
    const box = await did('create', () => createSandbox({ ports: [3000], ...optionsOf(i) }), history);
    history.push(box?.metadata?.level);
    if (!box || box === 'stuck') continue;
    const running = [];
    for (let left = upTo(12); left > 0 && !over(); left--) {
      const name = any(names);
      running.push(did(name, () => things[name](box), history));
      if (upTo(3)) await running.at(-1);
    }
    if (upTo(2)) await Promise.all(running);
    await did('end', () => (upTo(3) ? box.destroy() : box.stop()), history);
    await Promise.all(running);
    // What stop() keeps is found again; here nothing is to stay.
    await did('destroy', () => box.destroy(), history);
  }
}

v8.setFlagsFromString('--expose-gc');
const collect = vm.runInNewContext('gc');
const rss = () => Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]);
const descriptors = () =>
  readdirSync('/proc/self/fd').map(fd => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).replace(/\d+/g, 'N');
    } catch {
      return 'gone';
    }
  });
const children = () => readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ').filter(Boolean).length;

/** ms of CPU that the loop's thread took since the last call. */
function spent() {
  const now = Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  const since = now - (spent.before ?? now);
  spent.before = now;
  return since;
}

let longestTurn = 0;
const watch = setInterval(() => (longestTurn = Math.max(longestTurn, spent())), 1);
// The first turns pay for code that is compiled and read from disk.
setTimeout(() => (longestTurn = 0), 2000).unref();
const memory = [];
const sampler = setInterval(() => {
  collect();
  memory.push(rss());
  spent();
}, Math.max(500, duration / 40));

const before = descriptors();
await Promise.all(Array.from({ length: sessions }, (_, i) => one(i)));
clearInterval(watch);
clearInterval(sampler);
// A monitor that removes its folder ends a little later.
for (let i = 0; i < 200 && children() > stores; i++) await sleep(50);
collect();
await sleep(100);
console.log(JSON.stringify({ done, failed, memory, longestTurn: Math.round(longestTurn), before, descriptors: descriptors(), children: children() }));
