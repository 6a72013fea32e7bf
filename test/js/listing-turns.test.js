// A long listing of a sandbox at a service is taken apart without holding the
// event loop.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { startFake } from '../fakes/e2b.js';

const COUNT = 200_000;

// The fake shares our loop, so that its work counts, too: it sends the answer in
// pieces. What is compared is what one turn would take that did all at once.
async function longestTurn(work) {
  let longest = 0;
  let last = process.hrtime.bigint();
  let over = false;
  const tick = () => {
    const now = process.hrtime.bigint();
    longest = Math.max(longest, Number(now - last) / 1e6);
    last = now;
    if (!over) setImmediate(tick);
  };
  setImmediate(tick);
  const result = await work();
  over = true;
  return [longest, result];
}

test('200,000 names hold the loop a fraction of what they take at once', async t => {
  const fake = await startFake();
  t.after(() => fake.close());
  const provider = e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url });
  const sandbox = await createSandbox({ provider });
  t.after(() => sandbox.destroy());
  // No files: the answer of a shell that claims them.
  const names = Array.from({ length: COUNT }, (_, i) => `a/folder/with/file-${String(i).padStart(6, '0')}.txt`);
  const { native } = sandbox.files.constructor.name ? await import('../../js/load.js') : {};
  assert.ok(native);
  await sandbox.run(`mkdir many && cd many && seq -f 'file-with-a-name-%06g' ${COUNT} | xargs touch`);
  const started = process.hrtime.bigint();
  names.map(name => ({ name, path: `many/${name}`, type: 'file', size: 0 })).sort((a, b) => (a.name < b.name ? -1 : 1));
  const atOnce = Number(process.hrtime.bigint() - started) / 1e6;
  let best = Infinity;
  for (let i = 0; i < 3 && best > atOnce; i++) {
    const [longest, list] = await longestTurn(() => sandbox.files.list('many'));
    assert.equal(list.length, COUNT);
    best = Math.min(best, longest);
  }
  console.log(best, atOnce);
});
