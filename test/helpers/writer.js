// A thread that works in a folder which others work in, too.
import assert from 'node:assert/strict';
import { parentPort, workerData } from 'node:worker_threads';
import { local } from 'sandbox-sdk-native/local';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';

const { directory, name } = workerData;
const utf8 = { encoding: 'utf-8' };
const workspace = createMastraWorkspace({ provider: local({ directory }) });
const files = workspace.filesystem;
for (let i = 0; i < 40; i++) {
  const own = `${name}/${i % 7}.txt`;
  await files.writeFile(own, name + i);
  await files.appendFile('log', `${name} ${i}\n`);
  assert.equal(await files.readFile(own, utf8), name + i);
  await files.writeFile('shared', name.repeat(5000));
  const shared = await files.readFile('shared', utf8);
  assert.equal(shared, shared[0].repeat(5000), 'a file that is half of one writer');
  if (i % 10 === 0) await workspace.sandbox.executeCommand('echo by-command >> log');
  await files.walk('/');
}
await workspace.destroy();
parentPort.postMessage('done');
