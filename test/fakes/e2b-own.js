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
    terminate: () => started.signal('TERM'),
    drop: () => {}, // another host attaches
  };
}

async function machine(first, again, base) {
  let sandbox = first;
  const id = first.metadata.sandboxId;
  const { url } = await first.ports.expose(8080);
  return {
    id,
    host: (port) => new URL(url).host.replace(/^8080/, port),
    url: (port) => ({ url: base, headers: { 'e2b-sandbox-id': id, 'e2b-sandbox-port': String(port) } }),
    attach: async (pid) => process(await (await again()).processes.attach(pid)),
    setNetwork: ({ allowOut, denyOut }) => sandbox.setNetworkPolicy(allowOut ?? denyOut),
    run: (command, options) => sandbox.run(command, options),
    start: async (command, { stdin = false, onStdout } = {}) =>
      process(await sandbox.processes.start(command, { stdin, onStdout, cwd: '/home/user' })), // where theirs starts
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
    pause: () => sandbox.pause(),
    // By another host, which says its own time; then this one goes on, too.
    resume: async (how) => {
      const before = sandbox;
      sandbox = await again(how);
      await before.resume();
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
      ports: [8080],
      provider: e2b({ apiKey, apiUrl: fake.url, sandboxUrl: fake.url, timeout: timeoutMs, metadata, template, env: envs }),
    });
  const made = async (id, how) => {
    const sandbox = await open(id, how);
    ids.set(sandbox.metadata.sandboxId, id);
    return machine(sandbox, (later) => open(id, { ...how, ...later }), fake.url);
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
