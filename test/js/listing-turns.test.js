// A long listing of a sandbox at a service is taken apart on the thread pool and
// in turns: the event loop goes on meanwhile.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { plainEnv } from '../helpers/child-env.js';

const COUNT = 30_000;

// In a process of its own: what it does is no turn of ours.
let server;
let provider;
before(async () => {
  const script = fileURLToPath(new URL('../fakes/serve-e2b.js', import.meta.url));
  const env = { ...plainEnv(), TMPDIR: existsSync('/dev/shm') ? '/dev/shm' : tmpdir() };
  server = spawn(process.execPath, [script], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  const [line] = await once(server.stdout, 'data');
  const { url, apiKey } = JSON.parse(line);
  provider = e2b({ apiKey, apiUrl: url, sandboxUrl: url });
});
after(async () => {
  const closed = once(server, 'close');
  server.stdin.end();
  await closed;
});

/** CPU of the longest turn and of all together, in us, while `work` goes on. */
async function turns(work) {
  const start = process.cpuUsage();
  const spent = () => {
    const { user, system } = process.cpuUsage(start);
    return user + system;
  };
  let longest = 0;
  let last = 0;
  let timer = setImmediate(function turn() {
    const now = spent();
    longest = Math.max(longest, now - last);
    last = now;
    timer = setImmediate(turn);
  });
  const result = await work();
  clearImmediate(timer);
  return { longest, all: spent(), result };
}

test('30,000 names: no turn does all of it, and none is missing', async t => {
  const sandbox = await createSandbox({ provider });
  t.after(() => sandbox.destroy());
  await sandbox.run(`mkdir many && cd many && seq -f 'file-with-a-name-%05g' ${COUNT} | xargs touch`);
  let part = 1;
  for (let i = 0; i < 5 && part >= 0.25; i++) {
    const { longest, all, result } = await turns(() => sandbox.files.list('many'));
    part = Math.min(part, longest / all);
    assert.equal(result.length, COUNT);
    result.forEach(({ name }, at) => assert.equal(name, `file-with-a-name-${String(at + 1).padStart(5, '0')}`));
  }
  assert.ok(part < 0.25, `${part} of its work was one turn`);

  const ended = Promise.allSettled(Array.from({ length: 6 }, () => sandbox.files.list('many')));
  const first = await sandbox.files.list('many');
  await sandbox.destroy();
  assert.equal(first.length, COUNT);
  for (const { status, reason, value } of await ended) {
    if (status === 'rejected') assert.match(reason.code, /^(aborted|unavailable|conflict)$/);
    else assert.equal(value.length, COUNT);
  }
});
