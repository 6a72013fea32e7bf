// Sandboxes where the machine's mounts are shared, as systemd makes them. Prints
// JSON: what became visible where it must not.
//   unshare -m --propagation shared node shared-mounts.js FOLDER
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';

const folder = process.argv[2];
const at = (...names) => path.join(folder, ...names);
for (const name of ['project/.git/hooks', 'project/sub', 'read/sub', 'write/sub', '.cargo/bin']) mkdirSync(at(name), { recursive: true });
writeFileSync(at('.cargo/credentials.toml'), 'secret\n');
writeFileSync(at('.cargo/bin/tool'), '#!/bin/sh\n', { mode: 0o755 });
Object.assign(process.env, { HOME: folder, PATH: `${at('.cargo/bin')}:${process.env.PATH}` });

const mounts = () => readFileSync('/proc/self/mountinfo', 'utf8').trim().split('\n');
const before = mounts();
const fresh = () => mounts().filter(line => !before.includes(line));
const seen = { shared: /shared:/.test(before[0]), sessions: [] };

const provider = local({ isolation: 'full', readOnlyPaths: [at('read')], readWritePaths: [at('write')] });
const onFirstCreate = one => one.run('mkdir sub; echo > f');
await createSandbox({ provider, identity: 'template', onFirstCreate });
for (const options of [
  { provider: local({ isolation: 'full', directory: at('project'), readOnlyPaths: [at('read')], readWritePaths: [at('write')] }) },
  { provider },
  { provider, identity: 'template', onFirstCreate },
]) {
  const sandbox = await createSandbox(options);
  const during = fresh();
  const late = [at('read/sub'), at('write/sub'), at('project/sub')];
  for (const one of late) {
    execFileSync('mount', ['-t', 'tmpfs', 'late', one]);
    writeFileSync(path.join(one, 'late'), 'x');
  }
  const { stdout } = await sandbox.run(`ls ${at('read/sub')} ${at('write/sub')} sub 2>/dev/null | grep late; grep -cE 'shared:|master:' /proc/self/mountinfo`);
  for (const one of late) execFileSync('umount', [one]);
  await sandbox.destroy();
  seen.sessions.push({ during, inside: stdout.trim(), left: fresh() });
}
await provider.close?.();
console.log(JSON.stringify(seen));
