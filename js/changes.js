// What a session changed on top of its template, as a list and as a patch.
import { SandboxError, unsupported } from './errors.js';
import { BASE, flag, verb, WORKSPACE } from './native.js';

const kinds = { A: 'added', M: 'modified', D: 'deleted' };
const types = { f: 'file', d: 'directory', l: 'symlink', o: 'other' };

/** [{path, change, type}] by path; broken UTF-8 in names becomes U+FFFD. */
async function listOf(lease) {
  const records = (await lease.native.file(WORKSPACE, verb.CHANGES, '')).toString('utf8').split('\0');
  const found = new Map();
  for (const record of records) {
    if (record === '') continue;
    const change = { path: record.slice(2), change: kinds[record[0]], type: types[record[1]] };
    found.set(`${change.path}\0${change.change}`, change);
  }
  return [...found.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

// git refuses a whole patch for one such path.
const ofGit = /(^|\/)(\.git|git~1)(\/|$)/i;

/** {changes, patch}. `patch` has the files in git's format, but none of git's own. */
export async function changesOf(lease) {
  if (lease.session.facts.template !== 'overlay') {
    throw unsupported(
      'changes() needs a sandbox that lies on a template: one of a given `identity` after the first, ' +
        'with neither `directory` nor `root`. Elsewhere use git in the workspace.',
      'changes',
    );
  }
  const changes = await listOf(lease);
  return { changes, patch: await patchOf(lease, changes) };
}

// git writes the patch, in a sandbox of its own where nothing of the agent's
// runs that could change it.
async function patchOf(lease, changes) {
  const { native, provider } = lease;
  const reviewer = provider.open({ id: 'changes', named: false, cwd: '/workspace', ports: [] });
  try {
    await reviewer.create();
    for (const side of ['a', 'b']) await reviewer.file(WORKSPACE, verb.MKDIR, side, {});
    for (const { path, change, type } of changes) {
      if (type !== 'file' || ofGit.test(path)) continue;
      if (change !== 'added') await copy(native, BASE, `/${path}`, reviewer, `a/${path}`);
      if (change !== 'deleted') await copy(native, WORKSPACE, path, reviewer, `b/${path}`);
    }
    return await diff(reviewer);
  } finally {
    await reviewer.close();
  }
}

// What vanished meanwhile, or may not be read, is missing in the patch only.
async function copy(native, scope, from, reviewer, to) {
  const data = await native.file(scope, verb.READ, from).catch(() => undefined);
  if (data === undefined) return;
  const { mode } = await native.file(scope, verb.STAT, from);
  await reviewer.file(WORKSPACE, verb.WRITE, to, { data, mode: mode | 0o600, flags: flag.PARENTS });
}

function diff(native) {
  return new Promise((resolve, reject) => {
    native.spawn(
      {
        argv: ['git', 'diff', '--no-index', '--no-color', '--binary', '--no-prefix', 'a', 'b'],
        cwd: '/workspace',
        env: ['GIT_CONFIG_NOSYSTEM=1', 'PATH=/usr/local/bin:/usr/bin:/bin', 'LC_ALL=C', 'HOME=/nonexistent'],
        retain: Infinity,
        collect: true,
      },
      {
        onExit(exit) {
          if (exit.error) reject(exit.error);
          else if (exit.exitCode <= 1) resolve(exit.stdout);
          else if (exit.exitCode === 127) resolve(undefined); // no git on this machine
          else reject(new SandboxError('provider_error', `git diff ended with ${exit.exitCode}: ${exit.stderr.trim()}`));
        },
      },
    );
  });
}
