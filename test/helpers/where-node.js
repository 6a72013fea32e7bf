// Prints as JSON what a sandbox of this Node sees of it and of its home folder.
import { createSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';

const [home] = process.argv.slice(2);
const sandbox = await createSandbox({ provider: local({ isolation: 'full' }) });
const out = async (line) => (await sandbox.run(line)).stdout.trim();
console.log(
  JSON.stringify({
    which: await out('command -v node'),
    version: await out('node -v'),
    npm: await out('npm --version'),
    npx: await out('npx --version'),
    listing: await out(`ls -A /home/${home}`),
    homeWrite: (await sandbox.run('touch "$HOME/x"')).exitCode,
  }),
);
await sandbox.stop();
