// The adapter of our own provider for the scenario, through createSandbox().
// Import it only where js/e2b.js is there.
import { createSandbox } from '../../js/index.js';
import { e2b } from '../../js/e2b.js';

function process(started) {
  return {
    pid: Number(started.pid),
    write: (data) => started.write(data),
    closeStdin: () => started.closeStdin(),
    resize: (cols, rows) => started.resize(cols, rows),
    kill: () => started.kill(),
    wait: () => started.wait(),
  };
}

function machine(first, again) {
  let sandbox = first;
  return {
    id: first.metadata.sandboxId,
    run: (command, options) => sandbox.run(command, options),
    start: async (command, { stdin = false, onStdout } = {}) =>
      process(await sandbox.processes.start(command, { stdin, onStdout })),
    processes: async () => (await sandbox.processes.list()).filter((one) => one.running !== false).map((one) => Number(one.pid)),
    write: (path, data) => sandbox.files.write(path, data),
    read: (path) => sandbox.files.read(path),
    list: async (path) => (await sandbox.files.list(path)).map((one) => one.name),
    exists: (path) => sandbox.files.exists(path),
    remove: (path) => sandbox.files.remove(path),
    makeDir: (path) => sandbox.files.mkdir(path),
    stat: (path) => sandbox.files.stat(path),
    pty: async ({ cols, rows, onData }) =>
      process(await sandbox.processes.start(['/bin/bash', '-i', '-l'], { stdin: true, pty: { cols, rows }, onStdout: onData })),
    pause: () => sandbox.stop(),
    resume: async (how) => {
      sandbox = await again(how);
    },
    kill: () => sandbox.destroy(),
  };
}

/** -> an adapter against the fake; every call is a provider instance of its own. */
export function ownAdapter(fake, { apiKey = fake.apiKey } = {}) {
  const ids = new Map(); // the service's id -> ours
  const open = (id, { timeoutMs, metadata, envs, template } = {}) =>
    createSandbox({
      id,
      provider: e2b({ apiKey, apiUrl: fake.url, sandboxUrl: fake.url, timeout: timeoutMs, metadata, template, env: envs }),
    });
  const made = async (id, how) => {
    const sandbox = await open(id, how);
    ids.set(sandbox.metadata.sandboxId, id);
    return machine(sandbox, (later) => open(id, later));
  };
  return {
    name: 'sandbox-sdk-native',
    startsAgain: true, // use of a sandbox that is gone makes a new one
    code: (error) => error.code,
    create: (how) => made(`scenario-${crypto.randomUUID()}`, how),
    connect: (id, how) => made(ids.get(id), how),
    withKey: (key) => ownAdapter(fake, { apiKey: key }),
  };
}
