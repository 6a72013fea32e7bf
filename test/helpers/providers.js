// Which provider the tests of this process use: Local, or the one that
// SBX_TEST_PROVIDER names against its fake. Files such as tools-e2b.test.js set
// that and then load the tests that were written for Local.
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { after } from 'node:test';

import { local } from 'sandbox-sdk-native/local';

/** 'local' or 'e2b'. */
export const where = process.env.SBX_TEST_PROVIDER ?? 'local';

/** The fake service; undefined for Local. */
export const fake = where === 'e2b' ? await startE2b() : undefined;

async function startE2b() {
  const { startFake } = await import('../fakes/e2b.js');
  const started = await startFake();
  // After the hooks of the test file, which destroy what they have made.
  setImmediate(() => after(() => started.close()));
  return started;
}

const chown = fake && (await import('../fakes/machine.js')).chown;

const e2b = where === 'e2b' ? (await import('sandbox-sdk-native/e2b')).e2b : undefined;

/** A provider instance; `options` are those that all have: env, ports. */
export function provider(options) {
  if (where === 'local') return local(options);
  return e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url, ...options });
}

/** For test(): what only Local has. */
export function onlyLocal(why) {
  return where === 'local' ? {} : { skip: `only Local: ${why}` };
}

/** The root folder, on this machine, of a sandbox at a fake service. */
export function machineRoot(sandbox) {
  const { sandboxId } = sandbox._lease.session.facts;
  return fake.sandboxes.get(sandboxId).machine.root;
}

/** Gives all below a folder of a fake's machine to the user of its commands. */
export function giveToUser(folder) {
  if (!fake) return;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const at = path.join(folder, entry.name);
    chown(at, 1000);
    if (entry.isDirectory()) giveToUser(at);
  }
}
