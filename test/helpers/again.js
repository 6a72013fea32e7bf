// Opens a session that another process made, changes a file and leaves:
//   again.js ROOT ID FILE
import { createSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';

const [root, id, file] = process.argv.slice(2);
let outcome = 'connected';
const sandbox = await createSandbox({ provider: local({ root }), id, onFirstCreate: () => void (outcome = 'created') });
const text = `${await sandbox.files.text(file)}, then changed`;
await sandbox.files.write(file, text);
process.stdout.write(`${outcome}: ${text}`);
await sandbox.stop();
