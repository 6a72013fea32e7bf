// What node:22-slim has and no more: a root with Node, the libraries that ldd
// names for it, and this package. No libcurl, no CA file, no shell, no /etc.
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { startFake } from '../fakes/e2b.js';

const top = realpathSync(fileURLToPath(new URL('../..', import.meta.url)));
const unshare = process.getuid() === 0 ? ['-m', '--propagation', 'private'] : ['-Urm', '--propagation', 'private'];
const addon = ['build/Release/addon.node', 'prebuilds/linux-x64-glibc/addon.node'].find(path => existsSync(`${top}/${path}`));
const skip =
  (spawnSync('unshare', [...unshare, 'true']).status !== 0 && 'needs unshare and mount namespaces') ||
  (process.env.LD_PRELOAD?.includes('asan') && 'a sanitizer needs libraries of its own');

const node = realpathSync(process.execPath);
const libraries = () =>
  execFileSync('ldd', [node], { encoding: 'utf8' })
    .split('\n')
    .map(line => /(\/\S+) \(0x/.exec(line)?.[1])
    .filter(Boolean);

// $1: Node, $2: the package, $3: a CA file, $4: the libraries; then the script.
const build = `set -e
root=/mnt
mount -t tmpfs none $root
mkdir -p $root/tmp $root/dev $root/package/build/Release
touch $root/node $root/dev/null
mount --bind "$1" $root/node
mount --bind /dev/null $root/dev/null
for lib in $4; do mkdir -p "$root$(dirname "$lib")"; cp -L "$lib" "$root$lib"; done
cp -r "$2/package.json" "$2/js" $root/package/
cp "$2/${addon}" $root/package/build/Release/addon.node
cp "$3" $root/extra.pem
cp "$0" $root/package/main.mjs
PATH=$PATH:/usr/sbin:/sbin exec chroot $root /node /package/main.mjs
`;

const script = `
import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { readdirSync } from 'node:fs';
const seen = { etc: null };
try { seen.etc = readdirSync('/etc'); } catch {}
try {
  const { url, apiKey } = JSON.parse(process.env.FAKE);
  const sandbox = await createSandbox({ provider: e2b({ apiKey, apiUrl: url, sandboxUrl: url }) });
  const big = 'x'.repeat(300000);
  await sandbox.files.write('a/b.txt', 'text');
  await sandbox.files.write('big', big);
  seen.text = await sandbox.files.text('a/b.txt');
  seen.same = (await sandbox.files.text('big')) === big;
  const { exitCode, stdout, stderr } = await sandbox.run('cat; echo err >&2; exit 3', { stdin: 'in' });
  seen.run = [exitCode, stdout, stderr];
  const child = await sandbox.processes.start('cat');
  await child.write('streamed');
  await child.closeStdin();
  seen.child = (await child.wait()).stdout;
  await sandbox.destroy();
} catch (error) {
  seen.error = { code: error.code, retryable: error.retryable, message: error.message };
}
console.log(JSON.stringify(seen));
`;

async function inside(fake, env) {
  const { mkdtempSync, rmSync, writeFileSync } = await import('node:fs');
  const folder = mkdtempSync('/tmp/slim-');
  const file = `${folder}/main.mjs`;
  writeFileSync(file, script);
  const args = [...unshare, 'sh', '-c', build, file, node, top, fake.ca, libraries().join(' ')];
  try {
    const { stdout } = await promisify(execFile)('unshare', args, {
      env: { PATH: process.env.PATH, FAKE: JSON.stringify({ url: fake.url, apiKey: fake.apiKey }), ...env },
    });
    return JSON.parse(stdout);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test('node:22-slim’s libraries are enough: TLS with Node’s roots and an extra CA', { skip }, async t => {
  const fake = await startFake({ tls: true });
  t.after(() => fake.close());
  const mark = fake.mark();
  const seen = await inside(fake, { NODE_EXTRA_CA_CERTS: '/extra.pem' });
  assert.deepEqual(seen, { etc: null, text: 'text', same: true, run: [3, 'in', 'err\n'], child: 'streamed' });
  assert.ok(fake.count(mark) > 5);
  assert.deepEqual([...fake.sandboxes.values()].filter(one => one.state === 'running'), []);

  // Node's own roots do not know that CA.
  const stranger = await inside(fake, {});
  assert.deepEqual([stranger.error.code, stranger.error.retryable], ['unavailable', false]);
  assert.match(stranger.error.message, /NODE_EXTRA_CA_CERTS/);

  // With neither transport: what to install.
  const none = await inside(fake, { NODE_EXTRA_CA_CERTS: '/extra.pem', SBX_HTTP_TRANSPORT: 'libcurl' });
  assert.deepEqual([none.error.code, none.error.retryable], ['unsupported', false]);
  assert.match(none.error.message, /libcurl.*apt-get install libcurl4/);
});
