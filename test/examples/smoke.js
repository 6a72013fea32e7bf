// The smallest whole use of the package: files, a command, a process, an end. On
// this machine, or where E2B_API_URL names a server.
import assert from 'node:assert/strict';
import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { local } from 'sandbox-sdk-native/local';

const provider = process.env.E2B_API_URL ? e2b() : local();
const sandbox = await createSandbox({ provider });
await sandbox.files.write('a.txt', 'héllo\n');
await sandbox.files.write('b.txt', new Uint8Array(new SharedArrayBuffer(3)).fill(98));
assert.equal(await sandbox.files.text('b.txt'), 'bbb');
const run = await sandbox.run('cat a.txt; exit 3');
assert.equal(run.stdout, 'héllo\n');
assert.equal(run.exitCode, 3);
const process_ = await sandbox.processes.start(['cat']);
await process_.write('ping');
await process_.kill();
await process_.wait();
await sandbox.stop();
console.log(`smoke: ${provider.name} ok on Node ${process.version}`);
