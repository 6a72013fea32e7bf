// The official package's side of the E2B bench; as a script: import, create,
// first command.
import { fileURLToPath } from 'node:url';
import { Sandbox } from 'e2b';

/** -> { run, write, read, close } against the fake. */
export async function theirs({ url, apiKey }) {
  const sandbox = await Sandbox.create({ apiKey, apiUrl: url, sandboxUrl: url });
  return {
    run: (command) => sandbox.commands.run(command),
    write: (path, data) => sandbox.files.write(path, data),
    read: (path) => sandbox.files.read(path, { format: 'bytes' }),
    close: () => sandbox.kill(),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const sandbox = await theirs(JSON.parse(process.argv[2]));
  await sandbox.run('echo hello');
  console.log(performance.now());
  await sandbox.close();
}
