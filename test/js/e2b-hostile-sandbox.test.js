// What runs in the sandbox turns against the tools that look into it: the calls
// still settle, with the truth or a clear error, and nothing of ours is run.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { createSandbox, isSandboxError } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { startFake } from '../fakes/e2b.js';

let fake;
before(async () => (fake = await startFake()));
after(() => fake.close());

const nonce = 'a'.repeat(32);
const names = `touch -- '-rf' '$(touch pwned)' 'a;touch pwned' '*' '~' ' ' '--' "$(printf 'new\\nline')" "$(printf 'esc\\033[31m')"`;
const tools = 'stat find base64 cat od sh setsid sleep mkdir mv rm head tail ln readlink';
const forged = `for i in -1 0 1 2 99999999999999999999; do
  printf '%s s- %s 0 : x' ${nonce} $i > /tmp/.sbx/p.$i.0
  printf '%s s- %s 5 1:-1\\nx' ${nonce} $i > /tmp/.sbx/p.7$i.5
  printf '%s s- 9999 5 1:-1\\nx' ${nonce} > /tmp/.sbx/p.$i.5
  echo 'x 99999' > /tmp/.sbx/e.7$i.5
done
mkfifo /tmp/.sbx/p.900050.6; mkdir /tmp/.sbx/p.900051.6; ln -s /dev/zero /tmp/.sbx/p.900053.7
printf '%s s- 5 5 :\\nab\\0cd' ${nonce} > /tmp/.sbx/p.900054.8
echo garbage > '/tmp/.sbx/p.900052.$(touch pwned)'
rm -f /tmp/.sbx/e.72.5; mkfifo /tmp/.sbx/e.72.5`;

const table = [
  ['start-up files that print and exit', `echo 'echo NO; exit 9' > ~/.profile; cp ~/.profile ~/.bashrc; cp ~/.profile ~/.bash_profile`],
  ['tools of the same names', `for t in ${tools}; do printf '#!/bin/sh\\necho NO\\n' > $t; chmod +x $t; done`],
  ['the private folder is a link', 'rm -rf /tmp/.sbx; mkdir /tmp/else; ln -s /tmp/else /tmp/.sbx'],
  ['the private folder is a file', 'rm -rf /tmp/.sbx; echo x > /tmp/.sbx'],
  ['the private folder is gone', 'rm -rf /tmp/.sbx'],
  ['the private folder has no rights', 'chmod 000 /tmp/.sbx'],
  ['the lock is a link', 'ln -s /etc/passwd /tmp/.sbx/lock'],
  ['the lock is a folder', 'mkdir -p /tmp/.sbx/lock/x'],
  ['the lock is a FIFO', 'mkfifo /tmp/.sbx/lock'],
  ['the lock names nobody', 'echo "garbage; touch pwned" > /tmp/.sbx/lock'],
  ['records of commands that are none', forged],
  ['names that look like code and options', names],
  ['links in circles', 'ln -s loop loop; ln -s . dot; ln -s .. up; ln -s / root'],
];

for (const [name, script] of table) {
  test(name, { timeout: 60_000 }, async () => {
    const sandbox = await createSandbox({ provider: e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url }) });
    const { files } = sandbox;
    assert.equal((await sandbox.run(['/bin/sh', '-c', script])).exitCode, 0);
    await files.write('f.txt', 'one');
    await files.write('f.txt', 'two');
    assert.equal(await files.text('f.txt'), 'two');
    const big = new Uint8Array(100_000).fill(65);
    await files.write('big', big);
    assert.equal((await files.read('big')).length, big.length);
    assert.equal((await files.stat('f.txt')).size, 3);
    const listed = (await files.list('.')).map(one => one.name);
    assert.ok(listed.includes('f.txt') && listed.includes('big') && !listed.includes('pwned'), listed.join());
    const { exitCode, stdout, stderr } = await sandbox.run('echo hi; exit 3');
    assert.deepEqual([exitCode, stdout, stderr], [3, 'hi\n', '']);
    const child = await sandbox.processes.start('echo up; exec sleep 600');
    const pids = (await sandbox.processes.list()).map(one => one.pid);
    for (const pid of pids) assert.ok(Number(pid) > 1);
    if (script === forged) assert.ok(pids.includes(child.pid), pids.join());
    assert.equal(await child.kill(), true);
    assert.equal((await child.wait()).exitCode, 137);
    for (const pid of [1, 900050, 900051, 900052, 900053]) {
      await assert.rejects(sandbox.processes.attach(pid), error => isSandboxError(error, 'not_found'));
    }
    await files.remove('f.txt');
    assert.equal(await files.exists('f.txt'), false);
    await sandbox.destroy();
  });
}
