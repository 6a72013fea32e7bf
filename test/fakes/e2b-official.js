// The adapter of the official `e2b` package for the scenario.
import * as e2b from 'e2b';

const { CommandExitError, Sandbox } = e2b;

const codes = [
  ['AuthenticationError', 'authentication'],
  ['RateLimitError', 'rate_limited'],
  ['InvalidArgumentError', 'invalid_input'],
  ['FileNotFoundError', 'not_found'],
  ['SandboxNotFoundError', 'not_found'],
  ['NotFoundError', 'not_found'],
  ['TimeoutError', 'timeout'],
];

function code(error) {
  return codes.find(([name]) => e2b[name] && error instanceof e2b[name])?.[1] ?? 'provider_error';
}

// A command that exits with a number is no error; a timeout is a result, too.
async function settled(work) {
  try {
    return { ...pick(await work), timedOut: false };
  } catch (error) {
    if (error instanceof CommandExitError) return { ...pick(error), timedOut: false };
    if (code(error) === 'timeout') return { exitCode: -1, stdout: '', stderr: '', timedOut: true };
    throw error;
  }
}

function pick({ exitCode, stdout, stderr }) {
  return { exitCode, stdout, stderr };
}

function process(sandbox, handle) {
  return {
    pid: handle.pid,
    write: (data) => sandbox.commands.sendStdin(handle.pid, data),
    closeStdin: () => sandbox.commands.closeStdin(handle.pid),
    kill: () => handle.kill(),
    wait: () => settled(handle.wait()),
    drop: () => handle.disconnect(),
  };
}

async function all(paginator) {
  const found = [];
  while (paginator.hasNext) found.push(...(await paginator.nextItems()));
  return found;
}

function machine(sandbox, options, base) {
  const { files, commands, pty } = sandbox;
  return {
    id: sandbox.sandboxId,
    info: async () => {
      const info = await sandbox.getInfo();
      return { id: info.sandboxId, state: info.state, metadata: info.metadata, endAt: info.endAt };
    },
    run: (command, { cwd, env, timeout, onStdout } = {}) =>
      settled(commands.run(command, { cwd, envs: env, timeoutMs: timeout, onStdout })),
    start: async (command, { stdin, onStdout } = {}) =>
      process(sandbox, await commands.run(command, { background: true, stdin, onStdout, timeoutMs: 0 })),
    attach: async (pid) => process(sandbox, await commands.connect(pid, { timeoutMs: 0 })),
    processes: async () => (await commands.list()).map((one) => one.pid),
    write: (path, data) => files.write(path, typeof data === 'string' ? data : new Blob([data])),
    read: async (path) => Buffer.from(await files.read(path, { format: 'bytes' })),
    list: async (path) => (await files.list(path)).map((one) => one.name),
    exists: (path) => files.exists(path),
    rename: (from, to) => files.rename(from, to),
    remove: (path) => files.remove(path),
    makeDir: (path) => files.makeDir(path),
    stat: (path) => files.getInfo(path),
    watch: async (path, onEvent) => {
      const watcher = await files.watchDir(path, onEvent, { timeoutMs: 0 });
      return { close: () => watcher.stop() };
    },
    uploadUrl: (path) => sandbox.uploadUrl(path),
    downloadUrl: (path) => sandbox.downloadUrl(path),
    pty: async ({ cols, rows, onData }) => {
      const handle = await pty.create({ cols, rows, onData: (data) => onData(Buffer.from(data).toString()), timeoutMs: 0 });
      return {
        write: (data) => pty.sendInput(handle.pid, Buffer.from(data)),
        resize: (newCols, newRows) => pty.resize(handle.pid, { cols: newCols, rows: newRows }),
        kill: () => handle.kill(),
        wait: () => settled(handle.wait()),
      };
    },
    pause: () => sandbox.pause(),
    resume: (how) => sandbox.connect(how),
    setTimeout: (ms) => sandbox.setTimeout(ms),
    kill: () => sandbox.kill(),
    host: (port) => sandbox.getHost(port),
    url: (port) => ({ url: base, headers: { 'e2b-sandbox-id': sandbox.sandboxId, 'e2b-sandbox-port': String(port) } }),
    snapshot: async (name) => (await sandbox.createSnapshot({ name })).snapshotId,
    listSnapshots: async () => (await all(sandbox.listSnapshots())).map((one) => one.snapshotId),
    deleteSnapshot: (id) => Sandbox.deleteSnapshot(id, options),
    setNetwork: (network) => sandbox.updateNetwork(network),
  };
}

/** -> an adapter against the fake (its control plane and its edge are one URL). */
export function officialAdapter(fake, { apiKey = fake.apiKey } = {}) {
  const options = { apiKey, apiUrl: fake.url, sandboxUrl: fake.url };
  return {
    name: 'e2b',
    code,
    create: async ({ template = 'base', ...how }) =>
      machine(await Sandbox.create(template, { ...options, ...how }), options, fake.url),
    connect: async (id, how) => machine(await Sandbox.connect(id, { ...options, ...how }), options, fake.url),
    list: async (query) => (await all(Sandbox.list({ ...options, query }))).map((one) => one.sandboxId),
    withKey: (key) => officialAdapter(fake, { apiKey: key }),
  };
}
