// Whatever happens to the host process, nothing of a session stays: no process,
// no temporary folder.
// In a mount namespace of its own: others on this machine mount things, too.
import '../helpers/private-mounts.js';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { childEnv } from '../helpers/child-env.js';

const here = path.dirname(fileURLToPath(import.meta.url));
const orphans = path.join(here, '../../build/native/orphans');
const victim = path.join(here, '../helpers/victim.js');
const run = promisify(execFile);
// SBX_TEST_STORM multiplies the rounds; the deep checks set it.
const storm = Number(process.env.SBX_TEST_STORM ?? 1);

function mounts() {
  return readFileSync('/proc/self/mounts', 'utf8').split('\n').length;
}

/** Runs the victim in a folder of its own; -> what it left. */
async function aftermath(way, delay, isolation) {
  const folder = mkdtempSync(path.join(tmpdir(), 'leftovers-'));
  const before = mounts();
  try {
    const { stdout, stderr } = await run(orphans, ['60000', process.execPath, victim, way, String(delay)], {
      env: childEnv(
        { PATH: process.env.PATH, TMPDIR: folder, HOME: folder, VICTIM_ISOLATION: isolation },
        { leaks: false },
      ),
    });
    const left = Number(/left (\d+)/.exec(stdout)?.[1] ?? -1);
    return { left, folders: readdirSync(folder), mounts: mounts() - before, stdout, stderr };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function check(way, delay, isolation = 'auto') {
  const result = await aftermath(way, delay, isolation);
  const where = `${isolation}, ${way} after ${delay} ms: ${result.stdout}${result.stderr}`;
  assert.equal(result.left, 0, `processes left: ${where}`);
  assert.deepEqual(result.folders, [], `folders left: ${where}`);
  assert.equal(result.mounts, 0, `mounts left: ${where}`);
}

for (const way of ['sigkill', 'exit', 'throw', 'worker', 'worker-exit', 'destroy']) {
  test(`nothing is left after ${way} at a random moment`, async () => {
    for (let round = 0; round < 6 * storm; round++) {
      // A start takes about 10 ms; every other round ends inside it.
      await check(way, Math.random() * (round % 2 ? 60 : 12));
    }
  });
  test(`nothing is left after ${way} with commands running`, async () => {
    await check(way, 400);
  });
  test(`nothing is left at level landlock after ${way}`, async () => {
    for (let round = 0; round < 3 * storm; round++) await check(way, Math.random() * (round % 2 ? 60 : 12), 'landlock');
    await check(way, 400, 'landlock');
  });
}
