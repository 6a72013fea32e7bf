// Restores or creates a snapshot below a root again and again, until it is killed:
//   node snapshot-victim.js create|restore ROOT
import { createSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';

const [way, root] = process.argv.slice(2);
const sandbox = await createSandbox({ provider: local({ root }), id: 'victim' });
const [kept] = await sandbox.snapshots.list();
console.log('ready');
for (;;) {
  if (way === 'create') await sandbox.snapshots.create('kept');
  else await sandbox.snapshots.restore(kept.id);
}
