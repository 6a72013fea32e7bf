// One scenario for whoever speaks to E2B: the official package proves the fake
// with it, and our own provider has to give the same results.
//
// An adapter:
//   name
//   create({ metadata, envs, timeoutMs, network }) -> machine
//   connect(id, { timeoutMs }) -> machine
//   list({ metadata }) -> ids; may be left out
//   startsAgain: use of a sandbox that is gone makes a new one, by our own id
//   code(error) -> 'not_found', 'authentication', 'rate_limited', 'invalid_input' ...
//   withKey(key) -> an adapter with another API key
// A machine (what an adapter cannot do it leaves out; those steps are skipped):
//   id, info() -> { id, state, metadata, endAt: Date }
//   run(command, { cwd, env, timeout, onStdout }) -> { exitCode, stdout, stderr, timedOut }
//   start(command, { stdin, onStdout }) -> { pid, write, closeStdin, kill, wait, drop, terminate }
//   attach(pid) -> like start
//   processes() -> pids
//   write(path, data), read(path) -> Buffer, list(path) -> names, exists, rename, remove, makeDir, stat(path)
//   watch(path, onEvent({ type, name })) -> { close }
//   uploadUrl(path), downloadUrl(path)
//   pty({ cols, rows, onData }) -> { write, resize, kill, wait }
//   pause, resume({ timeoutMs }), setTimeout(ms), kill, host(port), url(port) -> { url, headers }
//   snapshot(name) -> id, deleteSnapshot(id) -> bool, listSnapshots() -> ids, setNetwork({ allowOut, denyOut })
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

async function until(what, test) {
  for (let i = 0; i < 1000; i++) {
    const value = await test();
    if (value) return value;
    await sleep(10);
  }
  throw new Error(`it never happened: ${what}`);
}

async function codeOf(adapter, work) {
  try {
    await work();
    return undefined;
  } catch (error) {
    return adapter.code(error);
  }
}

/** [name, the machine's calls that it needs, what it does]; they run in order. */
export const steps = [
  ['create', [], async (c) => {
    c.machine = await c.adapter.create({ metadata: c.metadata, envs: { FROM: 'create' }, timeoutMs: 600_000 });
    assert.match(c.machine.id, /^i[a-z0-9]{20}$/);
    const sandbox = c.fake.sandboxes.get(c.machine.id);
    assert.equal(sandbox.metadata.user, c.metadata.user);
    assert.equal(Math.round((sandbox.endAt - sandbox.startedAt) / 1000), 600);
  }],
  ['getInfo', ['info'], async (c) => {
    const info = await c.machine.info();
    assert.equal(info.id, c.machine.id);
    assert.equal(info.state, 'running');
    assert.equal(info.metadata.user, c.metadata.user);
    assert.ok(info.endAt.getTime() - c.fake.store.now() > 590_000);
  }],
  ['list by metadata', [], async (c) => {
    if (!c.adapter.list) return;
    assert.deepEqual(await c.adapter.list({ metadata: { user: c.metadata.user } }), [c.machine.id]);
    assert.deepEqual(await c.adapter.list({ metadata: { user: 'nobody' } }), []);
  }],
  ['run: streams and exit code', ['run'], async (c) => {
    const seen = [];
    const result = await c.machine.run('echo out; echo err >&2; exit 7', { onStdout: (text) => seen.push(text) });
    assert.deepEqual([result.exitCode, result.stdout, result.stderr], [7, 'out\n', 'err\n']);
    assert.equal(seen.join(''), 'out\n');
    assert.equal((await c.machine.run('true')).exitCode, 0);
  }],
  ['run: environment, folder, user', ['run'], async (c) => {
    const result = await c.machine.run('echo $FROM $MORE; pwd; whoami; echo $E2B_SANDBOX_ID', { cwd: '/tmp', env: { MORE: 'call' } });
    assert.equal(result.stdout, `create call\n/tmp\nuser\n${c.machine.id}\n`);
  }],
  ['run: text cut between frames', ['run'], async (c) => {
    const text = 'é漢😀'.repeat(20_000);
    await c.machine.write('/home/user/long.txt', text);
    assert.equal((await c.machine.run('cat long.txt', { cwd: '/home/user' })).stdout, text);
  }],
  ['run: a missing program', ['run'], async (c) => {
    const result = await c.machine.run('no-such-program-here');
    assert.equal(result.exitCode, 127);
    assert.match(result.stderr, /not found/);
  }],
  ['run: timeout', ['run'], async (c) => {
    const result = await c.machine.run('echo begun; exec sleep 600', { timeout: 700 });
    assert.equal(result.timedOut, true);
  }],
  ['start: stdin and its end', ['start'], async (c) => {
    const process = await c.machine.start('cat; echo closed', { stdin: true });
    await process.write('one ');
    await process.write('two\n');
    await process.closeStdin();
    const result = await process.wait();
    assert.deepEqual([result.exitCode, result.stdout], [0, 'one two\nclosed\n']);
  }],
  ['start: a large stdin', ['start'], async (c) => {
    const process = await c.machine.start('wc -c', { stdin: true });
    const piece = 'x'.repeat(32_768);
    for (let i = 0; i < 8; i++) await process.write(piece);
    await process.closeStdin();
    assert.equal((await process.wait()).stdout.trim(), '262144');
  }],
  ['processes: list and kill', ['start', 'processes'], async (c) => {
    const process = await c.machine.start('echo up; exec sleep 600');
    assert.ok((await c.machine.processes()).includes(process.pid));
    assert.equal(await process.kill(), true);
    await process.wait();
    await until('the process left the list', async () => !(await c.machine.processes()).includes(process.pid));
  }],
  ['processes: a dropped stream does not kill', ['start', 'attach'], async (c) => {
    let seen = '';
    const process = await c.machine.start('trap "echo got; exit 5" TERM; echo up; while :; do sleep 0.05; done', {
      onStdout: (text) => (seen += text),
    });
    await until('the process is up', () => seen.includes('up'));
    await process.drop();
    const again = await c.machine.attach(process.pid);
    if (again.terminate) await again.terminate();
    else await c.machine.run(`kill -TERM ${process.pid}`);
    const result = await again.wait();
    assert.equal(result.exitCode, 5);
    assert.match(result.stdout, /got\n$/);
  }],
  ['files: write and read', ['write'], async (c) => {
    await c.machine.write('/home/user/deep/er/a.txt', 'hello');
    assert.equal((await c.machine.read('/home/user/deep/er/a.txt')).toString(), 'hello');
    const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, i) => (i * 7) & 255));
    await c.machine.write('/home/user/deep/bytes', bytes);
    assert.ok(bytes.equals(await c.machine.read('/home/user/deep/bytes')));
    await c.machine.write('/home/user/deep/empty', '');
    assert.equal((await c.machine.read('/home/user/deep/empty')).length, 0);
  }],
  ['files: odd names', ['write', 'list'], async (c) => {
    const names = ['a b', 'c&d=e', 'f+g', 'h%20i', 'ünï', "it's", 'q?#'];
    for (const name of names) await c.machine.write(`/home/user/odd/${name}`, name);
    assert.deepEqual((await c.machine.list('/home/user/odd')).sort(), [...names].sort());
    for (const name of names) assert.equal((await c.machine.read(`/home/user/odd/${name}`)).toString(), name);
  }],
  ['files: list, exists, rename, remove, makeDir', ['list'], async (c) => {
    await c.machine.makeDir('/home/user/one/two');
    await c.machine.write('/home/user/one/x', '1');
    assert.deepEqual((await c.machine.list('/home/user/one')).sort(), ['two', 'x']);
    assert.equal(await c.machine.exists('/home/user/one/x'), true);
    assert.equal(await c.machine.exists('/home/user/one/y'), false);
    await c.machine.rename?.('/home/user/one/x', '/home/user/one/two/y');
    const moved = c.machine.rename ? '/home/user/one/two/y' : '/home/user/one/x';
    assert.equal((await c.machine.read(moved)).toString(), '1');
    await c.machine.remove('/home/user/one');
    assert.equal(await c.machine.exists('/home/user/one'), false);
  }],
  ['files: stat', ['stat'], async (c) => {
    await c.machine.write('/home/user/s.txt', 'abc');
    await c.machine.run('chmod 640 s.txt; ln -s s.txt link', { cwd: '/home/user' });
    const stat = await c.machine.stat('/home/user/s.txt');
    assert.deepEqual([stat.size, stat.mode & 0o777, stat.type], [3, 0o640, 'file']);
  }],
  ['files: a missing one', ['read'], async (c) => {
    assert.equal(await codeOf(c.adapter, () => c.machine.read('/home/user/none')), 'not_found');
  }],
  ['files: watch', ['watch'], async (c) => {
    await c.machine.makeDir('/home/user/seen');
    const events = [];
    const watcher = await c.machine.watch('/home/user/seen', (event) => events.push(`${event.type} ${event.name}`));
    await c.machine.write('/home/user/seen/n', 'x');
    await until('a create', () => events.includes('create n'));
    await until('a write', () => events.includes('write n'));
    await c.machine.rename('/home/user/seen/n', '/home/user/seen/m');
    await until('a rename', () => events.includes('rename n') && events.includes('create m'));
    await c.machine.remove('/home/user/seen/m');
    await until('a remove', () => events.includes('remove m'));
    await watcher.close();
  }],
  ['files: signed URLs', ['uploadUrl', 'downloadUrl', 'url'], async (c) => {
    const { headers } = c.machine.url(49983); // one host for all: the headers route
    const form = new FormData();
    form.append('file', new Blob(['signed']), 'ignored.txt');
    const up = await fetch(await c.machine.uploadUrl('/home/user/signed.txt'), { method: 'POST', body: form, headers });
    assert.equal(up.status, 200);
    const url = await c.machine.downloadUrl('/home/user/signed.txt');
    assert.equal(await (await fetch(url, { headers })).text(), 'signed');
    assert.equal((await fetch(url.replace(/signature=v1_../, 'signature=v1_xx'), { headers })).status, 401);
  }],
  ['pty', ['pty'], async (c) => {
    let seen = '';
    const terminal = await c.machine.pty({ cols: 91, rows: 27, onData: (data) => (seen += data) });
    await terminal.write('stty size; tty\n');
    await until('the size', () => seen.includes('27 91') && seen.includes('/dev/pts/'));
    await terminal.resize(101, 33);
    await terminal.write('stty size\n');
    await until('the new size', () => seen.includes('33 101'));
    await terminal.write('exit 4\n');
    assert.equal((await terminal.wait()).exitCode, 4);
  }],
  ['ports', ['host', 'url'], async (c) => {
    assert.match(c.machine.host(8080), new RegExp(`^8080-${c.machine.id}\\.`));
    const process = await c.machine.start('exec python3 -m http.server 8080 --bind 127.0.0.1');
    const { url, headers } = c.machine.url(8080);
    await c.machine.write('/home/user/page.txt', 'served');
    const body = await until('the port answers', async () => {
      const answer = await fetch(`${url}/page.txt`, { headers });
      if (answer.status === 502) assert.match((await answer.json()).message, /port is not open/);
      return answer.status === 200 && answer.text();
    });
    assert.equal(body, 'served');
    await process.kill();
  }],
  ['setTimeout', ['setTimeout'], async (c) => {
    await c.machine.setTimeout(1_200_000);
    const { endAt } = c.fake.sandboxes.get(c.machine.id);
    assert.equal(Math.round((endAt - c.fake.store.now()) / 1000), 1200);
  }],
  ['network', ['setNetwork'], async (c) => {
    await c.machine.setNetwork({ allowOut: ['1.1.1.1'], denyOut: ['0.0.0.0/0'] });
    assert.deepEqual(c.fake.sandboxes.get(c.machine.id).network.allowOut, ['1.1.1.1']);
    const wrong = await codeOf(c.adapter, () => c.machine.setNetwork({ denyOut: ['not an address'] }));
    assert.ok(wrong);
  }],
  ['snapshots', ['snapshot'], async (c) => {
    await c.machine.write('/home/user/kept.txt', 'kept');
    const id = await c.machine.snapshot('my-snap');
    assert.match(id, /:default$/);
    assert.ok((await c.machine.listSnapshots()).includes(id));
    const copy = await c.adapter.create({ template: id, timeoutMs: 60_000 });
    assert.equal((await copy.read('/home/user/kept.txt')).toString(), 'kept');
    await copy.kill();
    assert.equal(await c.machine.deleteSnapshot(id), true);
    assert.equal(await c.machine.deleteSnapshot(id), false);
  }],
  ['pause and resume', ['pause', 'resume'], async (c) => {
    const process = c.machine.attach && (await c.machine.start('exec sleep 600'));
    await process?.drop();
    await c.machine.pause();
    assert.equal(c.fake.sandboxes.get(c.machine.id).state, 'paused');
    await c.machine.resume({ timeoutMs: 900_000 });
    const sandbox = c.fake.sandboxes.get(c.machine.id);
    assert.equal(sandbox.state, 'running');
    assert.equal(Math.round((sandbox.endAt - sandbox.startedAt) / 1000), 900);
    assert.equal((await c.machine.run('cat /home/user/deep/er/a.txt')).stdout, 'hello');
    if (process) assert.ok((await c.machine.processes()).includes(process.pid));
  }],
  ['connect', [], async (c) => {
    const other = await c.adapter.connect(c.machine.id, { timeoutMs: 900_000 });
    assert.equal(other.id, c.machine.id);
    assert.equal((await other.run('cat /home/user/deep/er/a.txt')).stdout, 'hello');
  }],
  ['errors', [], async (c) => {
    if (!c.adapter.startsAgain)
      assert.equal(await codeOf(c.adapter, () => c.adapter.connect('inotherexists0000000', {})), 'not_found');
    const stranger = c.adapter.withKey('e2b_wrong');
    assert.equal(await codeOf(c.adapter, () => stranger.create({})), 'authentication');
    c.fake.fault({ match: { path: '/v2/sandboxes', method: 'POST' }, times: 10, rateLimit: {} });
    assert.equal(await codeOf(c.adapter, () => c.adapter.create({})), 'rate_limited');
    c.fake.clearFaults();
  }],
  ['kill', ['kill'], async (c) => {
    await c.machine.kill();
    assert.equal(c.fake.sandboxes.has(c.machine.id), false);
    if (!c.adapter.startsAgain) assert.ok(await codeOf(c.adapter, () => c.machine.run('true')));
  }],
];

// A recorded request without what differs between two runs.
function summary(request, id) {
  const plain = (text) => (id ? text.replaceAll(id, '<id>') : text);
  const { authorization, 'x-api-key': key, 'x-access-token': token } = request.headers;
  const has = { authorization: Boolean(authorization), key: Boolean(key), token: Boolean(token) };
  return { plane: request.plane, method: request.method, path: plain(request.path), json: request.json, has, status: request.status };
}

/**
 * Runs the steps that the adapter can do.
 * -> [{ name, skipped, requests: [{ plane, method, path, json, has, status }] }]
 */
export async function runScenario(fake, adapter, { only = () => true, onStep = () => {} } = {}) {
  const context = { fake, adapter, metadata: { user: 'a b&c=ü+%', run: 'scenario' } };
  const report = [];
  try {
    for (const [name, needs, work] of steps) {
      if (!only(name)) continue;
      const skipped = context.machine !== undefined && needs.some((call) => !context.machine[call]);
      const mark = fake.mark();
      if (!skipped) await onStep(name, () => work(context));
      report.push({ name, skipped, requests: fake.since(mark).map((one) => summary(one, context.machine?.id)) });
    }
  } finally {
    if (fake.sandboxes.has(context.machine?.id)) await fake.expire(context.machine.id);
  }
  return report;
}
