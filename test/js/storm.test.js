// Many sessions at once that do what comes to mind, and hosts that are killed in
// the middle of it: nothing is stuck, nothing is left, memory stays flat. The
// deep checks set SBX_STORM_SESSIONS, SBX_STORM_SECONDS and SBX_STORM_KILLS.
// In a mount namespace of its own: others on this machine mount things, too.
import '../helpers/private-mounts.js';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { childEnv } from '../helpers/child-env.js';

const here = import.meta.dirname;
const run = promisify(execFile);
const sessions = Number(process.env.SBX_STORM_SESSIONS ?? 6);
const seconds = Number(process.env.SBX_STORM_SECONDS ?? 5);
const kills = Number(process.env.SBX_STORM_KILLS ?? 6);
// A sanitizer keeps freed memory for a while.
const counted = process.env.LD_PRELOAD?.includes('asan') !== true;

const mounts = () => fs.readFileSync('/proc/self/mounts', 'utf8').split('\n').length;

/** Runs storm.js as a child whose orphans are counted; -> what it printed. */
async function storm(...args) {
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'storm-'));
  const before = mounts();
  try {
    const { stdout, stderr } = await run(
      path.join(here, '../../build/native/orphans'),
      ['60000', process.execPath, path.join(here, '../helpers/storm.js'), ...args.map(String)],
      { env: childEnv({ PATH: process.env.PATH, TMPDIR: folder, HOME: folder }, { leaks: false }), maxBuffer: 1 << 26 },
    );
    assert.match(stdout, /left 0$/m, `processes are left after ${args}: ${stdout}${stderr}`);
    // What lies in a root stays, if its host is killed: the next one finds it.
    assert.deepEqual(fs.readdirSync(folder).filter(name => name !== 'root'), [], `folders after ${args}`);
    assert.equal(mounts(), before);
    const root = path.join(folder, 'root');
    return { text: stdout, kept: fs.existsSync(root) ? fs.readdirSync(root) : [], stderr };
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

const mean = list => list.reduce((sum, one) => sum + one, 0) / list.length;

test(`${sessions} sessions for ${seconds} s`, async t => {
  const { text, kept, stderr } = await storm(sessions, seconds * 1000);
  const seen = JSON.parse(text.split('\n')[0] || 'null');
  assert.ok(seen, stderr);
  t.diagnostic(JSON.stringify({ ...seen, before: seen.before.length, descriptors: seen.descriptors.length, memory: seen.memory.filter((_, i) => i % 4 === 3) }));
  assert.deepEqual(seen.failed, []);
  assert.ok(seen.done.create > sessions);
  assert.deepEqual(kept.filter(name => !name.startsWith('.')), [], 'sessions in the root that was destroyed');
  // What holds templates and snapshots has a monitor, a socket and a pidfd each.
  for (const kind of ['socket', 'pidfd']) {
    const [held, had] = [seen.descriptors, seen.before].map(list => list.filter(name => name.includes(kind)).length);
    assert.ok(held - had <= seen.children, `${held - had} of ${kind} for ${seen.children} monitors`);
  }
  assert.ok(seen.descriptors.length < 60, seen.descriptors.join());
  const quarter = Math.floor(seen.memory.length / 4);
  const [third, last] = [mean(seen.memory.slice(2 * quarter, 3 * quarter)), mean(seen.memory.slice(3 * quarter))];
  if (counted && seconds >= 60) assert.ok(seen.longestTurn <= 50, `a turn of the loop took ${seen.longestTurn} ms of CPU`);
  if (counted && seconds >= 60) assert.ok(last < third * 1.1 + 4096, `memory grows from ${third} to ${last} KiB`);
});

test(`${kills} hosts are killed at a random moment`, async () => {
  for (let i = 0; i < kills; i++) await storm(4, 60_000, Math.random() * (i % 3 ? 1200 : 150));
});
