// Our own side of the E2B bench; as a script: import, create, first command.
import { fileURLToPath } from 'node:url';
import { createSandbox } from '../../js/index.js';
import { e2b } from '../../js/e2b.js';

/** -> { run, write, read, close } against the fake. */
export async function ours({ url, apiKey }) {
  const sandbox = await createSandbox({ provider: e2b({ apiKey, apiUrl: url, sandboxUrl: url }) });
  return {
    run: (command) => sandbox.run(command),
    write: (path, data) => sandbox.files.write(path, data),
    read: (path) => sandbox.files.read(path),
    close: () => sandbox.stop(),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const sandbox = await ours(JSON.parse(process.argv[2]));
  await sandbox.run('echo hello');
  console.log(performance.now());
  await sandbox.close();
}
