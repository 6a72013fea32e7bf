// onFirstCreate, and the templates that `identity` makes of it: the first session
// of an identity runs the hook, its workspace is archived in memory, and later
// sessions of the same provider instance unpack that instead.
import { isSandboxError, SandboxError } from './errors.js';
import { listen } from './verbs.js';

export async function firstCreate(lease) {
  const { identity } = lease.options;
  if (identity === undefined) return runHook(lease);
  const { templates } = lease.provider;
  while (templates.has(identity)) {
    const archive = await templates.get(identity).catch(() => undefined);
    if (archive) return unpack(lease, archive);
    // It failed and is forgotten: whoever comes first tries again.
  }
  const made = runHook(lease).then(() => pack(lease));
  templates.set(identity, made);
  made.catch(() => templates.delete(identity));
  await made;
}

async function runHook(lease) {
  try {
    await lease.options.onFirstCreate(lease.sdk);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const code = isSandboxError(error) ? error.code : 'provider_error';
    throw new SandboxError(code, `onFirstCreate failed: ${message}`, {
      cause: error,
      provider: lease.provider.name,
      operation: 'onFirstCreate',
    });
  }
}

// tar keeps modes, links, times and holes, and runs inside, where it can reach
// nothing else. Owners are not kept: a session has one.
async function pack(lease) {
  const chunks = [];
  await tar(lease, ['-cf', '-', '.'], { onBytes: (_, bytes) => chunks.push(bytes) });
  return chunks;
}

async function unpack(lease, chunks) {
  await tar(lease, ['-xpof', '-'], { input: chunks });
}

function tar(lease, args, { onBytes, input }) {
  return new Promise((resolve, reject) => {
    const fail = message =>
      reject(new SandboxError('provider_error', `the template of the identity could not be copied: ${message}`));
    const events = {
      onExit(result) {
        if (result.error) reject(result.error);
        // 1: a file changed while it was read.
        else if (result.exitCode === 0 || (result.exitCode === 1 && onBytes)) resolve();
        else fail(`tar ended with ${result.exitCode}: ${child.output(1).trim()}`);
      },
    };
    if (onBytes) events.onBytes = onBytes;
    const child = lease.native.spawn(
      {
        argv: ['tar', ...args],
        cwd: lease.session.place.inside,
        env: lease.environment.list(),
        stdin: input !== undefined,
        retain: 64 * 1024,
        listenStdout: onBytes ? listen.BYTES : 0,
      },
      events,
    );
    if (input) feed(child, input).catch(() => {}); // the exit tells
  });
}

async function feed(child, chunks) {
  for (const chunk of chunks) await child.write(chunk);
  child.closeStdin();
}
