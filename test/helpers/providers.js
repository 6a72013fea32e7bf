// Which provider the tests of this process use: Local, or the one that
// SBX_TEST_PROVIDER names against its fake. Files such as tools-e2b.test.js set
// that and then load the tests that were written for Local.
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
  after(() => started.close());
  return started;
}

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

/** The same of its workspace. */
export function workspaceOf(sandbox) {
  return path.join(machineRoot(sandbox), 'workspace');
}
