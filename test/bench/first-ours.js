// The time of this whole script is import, create, first command and end.
import { createSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';

const sandbox = await createSandbox({ provider: local({ isolation: 'full', shell: '/bin/sh' }) });
await sandbox.run('echo hello');
console.log(performance.now());
await sandbox.stop();
