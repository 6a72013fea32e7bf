// Starts a sandbox with stubborn processes in it and ends in the way named:
//   victim.js sigkill|exit|throw|worker|worker-exit|destroy DELAY_MS
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { fileURLToPath } from 'node:url';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { local } from 'sandbox-sdk-native/local';

const stubborn =
  "trap '' TERM HUP INT; (setsid sh -c \"trap '' TERM HUP INT; while :; do sleep 60; done\" &) ; while :; do sleep 60; done";

const isolation = process.env.VICTIM_ISOLATION;

const ends = {
  sigkill: () => process.kill(process.pid, 'SIGKILL'),
  exit: () => process.exit(0),
  throw: () => {
    throw new Error('an uncaught exception');
  },
};

async function work(workspace) {
  try {
    await workspace.init();
    workspace.sandbox.executeCommand(stubborn).catch(() => {});
    await workspace.sandbox.processes.spawn(stubborn);
    // File calls are on the thread pool at every moment from here.
    await workspace.sandbox.executeCommand('truncate -s 64M big');
    for (;;) await Promise.all(Array.from({ length: 8 }, () => workspace.filesystem.readFile('big')));
  } catch {
    // It was destroyed meanwhile.
  }
}

function later(ms, what) {
  const start = performance.now();
  // Timers are too coarse for a random moment of a start that takes 8 ms.
  const tick = () => (performance.now() - start >= ms ? what() : setImmediate(tick));
  tick();
}

function inThread(delay, then) {
  const worker = new Worker(fileURLToPath(import.meta.url), { workerData: { delay } });
  worker.once('message', () => later(delay, () => then(worker)));
}

if (!isMainThread) {
  const { parentPort } = await import('node:worker_threads');
  const workspace = createMastraWorkspace({ provider: local({ isolation }) });
  work(workspace);
  parentPort.postMessage('started');
  setInterval(() => {}, 1000);
} else {
  const [way, text] = process.argv.slice(2);
  const delay = Number(text);
  if (way === 'worker') inThread(delay, (worker) => worker.terminate());
  else if (way === 'worker-exit') inThread(delay, () => process.exit(0));
  else {
    const workspace = createMastraWorkspace({ provider: local({ isolation }) });
    work(workspace);
    later(delay, way === 'destroy' ? () => workspace.destroy() : ends[way]);
  }
}
