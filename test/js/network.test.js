// The network policy: what a list lets through, what it says to the rest. The
// servers are fakes on this machine's loopback, listed by their address.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { createSandbox, isSandboxError, supports } from 'sandbox-sdk-native';
import { createMastraSandbox } from 'sandbox-sdk-native/mastra';
import { local } from 'sandbox-sdk-native/local';
import { childEnv } from '../helpers/child-env.js';

// Programs keep away from the proxy for loopback addresses, where these fakes are.
const through = { NO_PROXY: '', no_proxy: '' };
const has = program => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
const without = program => !has(program) && `${program} is not installed`;

let folder;
let server;
let port;
let other; // a second port, which is not listed
let listed;
const denials = [];

before(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'network-'));
  server = http.createServer((request, answer) => {
    const file = path.join(folder, path.normalize(new URL(request.url, 'http://x').pathname));
    if (request.method === 'POST') request.pipe(answer);
    else if (fs.existsSync(file) && fs.statSync(file).isFile()) fs.createReadStream(file).pipe(answer);
    else answer.end(`${request.method} ${request.url} ${request.headers.host} ${request.headers['proxy-authorization']}`);
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  ({ port } = server.address());
  const spare = net.createServer();
  await new Promise(resolve => spare.listen(0, '127.0.0.1', resolve));
  other = spare.address().port;
  after(() => spare.close());
  listed = await createSandbox({
    provider: local({ isolation: 'full', network: [`127.0.0.1:${port}`, `localhost:${port}`, `*:${port}`, '*.example'] }),
    env: through,
    onNetworkDenied: denial => denials.push(denial),
  });
});
after(async () => {
  await listed.stop();
  server.close();
  fs.rmSync(folder, { recursive: true });
});

async function out(box, line, options) {
  const { stdout, stderr, exitCode } = await box.run(line, { timeout: 30000, ...options });
  assert.equal(exitCode, 0, `${line}: ${stdout}${stderr}`);
  return stdout;
}

const expected = () => `GET /a 127.0.0.1:${port} undefined`;

test('curl: plain HTTP, a tunnel, SOCKS5', { skip: without('curl') }, async () => {
  const target = `http://127.0.0.1:${port}/a`;
  assert.equal(await out(listed, `curl -sS ${target}`), expected());
  assert.equal(await out(listed, `curl -sS -p ${target}`), expected());
  assert.equal(await out(listed, `curl -sS -x "socks5h\${HTTP_PROXY#http}" ${target}`), expected());
  const sent = await out(listed, `head -c 3000000 /dev/zero | curl -sS --data-binary @- ${target} | wc -c`);
  assert.equal(sent.trim(), '3000000');
});

test('python', { skip: without('python3') }, async () => {
  const code = `import urllib.request as u; print(u.urlopen("http://127.0.0.1:${port}/a").read().decode())`;
  assert.equal((await out(listed, ['python3', '-c', code])).trim(), expected());
  const denied = 'import urllib.request as u; u.urlopen("https://denied.test/")';
  const { stderr } = await listed.run(['python3', '-c', denied]);
  assert.match(stderr, /403 Blocked by the sandbox's network policy \(network: \[\.\.\., "denied\.test"\] allows it\)/);
});

test('fetch of Node, where it honours the proxy', async t => {
  const code = `fetch('http://127.0.0.1:${port}/a').then(r => r.text()).then(console.log, e => console.log('failed', e.cause?.code))`;
  const text = (await out(listed, ['node', '-e', code])).trim();
  if (/^failed/.test(text)) return t.skip('this Node does not know NODE_USE_ENV_PROXY');
  assert.equal(text, expected());
});

test('git over HTTP', { skip: without('git') }, async () => {
  const repo = path.join(folder, 'repo');
  const git = (...args) => execFileSync('git', ['-C', repo, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args], {
    env: childEnv({ PATH: process.env.PATH, HOME: folder }, { leaks: false }),
  });
  fs.mkdirSync(repo);
  git('init', '-q');
  fs.writeFileSync(path.join(repo, 'file'), 'content\n');
  git('add', '.');
  git('commit', '-qm', 'one');
  git('update-server-info');
  assert.equal(await out(listed, `git clone -q http://127.0.0.1:${port}/repo/.git copy && cat copy/file`), 'content\n');
  const { stderr, exitCode } = await listed.run('git clone http://denied.test/repo');
  assert.notEqual(exitCode, 0);
  assert.match(stderr, /403/);
});

test('what is not listed is refused, with its name and the remedy', { skip: without('curl') }, async () => {
  const text = await out(listed, 'curl -sS http://not.listed.test/');
  assert.match(text, /"not\.listed\.test" is not among the hosts/);
  assert.match(text, /network: \[\.\.\., "not\.listed\.test"\] of local\(\).*"\.\.\." stands for what is listed now/);
  assert.match(await out(listed, `curl -sS http://127.0.0.1:${other}/`), new RegExp(`network: \\[\\.\\.\\., "127\\.0\\.0\\.1:${other}"\\]`));
  const denial = denials.find(({ host }) => host === 'not.listed.test');
  assert.deepEqual([denial.port, typeof denial.reason], [80, 'string']);
});

test('a name that resolves to this machine is refused, however it is spelled', { skip: without('curl') }, async () => {
  const box = await createSandbox({
    provider: local({ isolation: 'full', network: { allow: [`localhost:${port}`, `*:${port}`] } }),
    env: through,
  });
  for (const host of ['localhost', 'LOCALHOST.', '127.1', '2130706433', '0x7f000001', '127.0.0.1', '[::1]', '[::ffff:127.0.0.1]', '0.0.0.0']) {
    const text = await out(box, ['curl', '-sS', '-g', '--path-as-is', `http://${host}:${port}/a`]);
    assert.match(text, /Such addresses are reached only if they are listed themselves|is not among/, `${host}: ${text}`);
  }
  assert.match(await out(box, `curl -sS http://localhost:${port}/`), /127\.0\.0\.1, a loopback address|::1, a loopback address/);
  for (const host of ['169.254.169.254', '10.0.0.1', '[fd00:ec2::254]', '[64:ff9b::7f00:1]']) {
    const text = await out(box, ['curl', '-sS', '-g', `http://${host}:${port}/`]);
    assert.match(text, /is a .* address\. Such addresses/, host);
    assert.equal(/network: \[/.test(text), !/^169|ec2/.test(host), `advice for ${host}: ${text}`);
  }
  await box.stop();
});

test('the proxy wants the token of its sandbox', { skip: without('curl') }, async () => {
  const ask = proxy => out(listed, `curl -sS -o /dev/null -w '%{http_code}' -x ${proxy} http://127.0.0.1:${port}/a`);
  assert.equal(await ask('http://127.0.0.1:3128'), '407');
  assert.equal(await ask('http://x:0000@127.0.0.1:3128'), '407');
  assert.equal(await ask('"$HTTP_PROXY"'), '200');
  const { exitCode } = await listed.run(`curl -sS -x socks5h://x:0000@127.0.0.1:3128 http://127.0.0.1:${port}/a`);
  assert.notEqual(exitCode, 0);
});

/** What the proxy answers to these bytes. */
async function say(box, bytes) {
  const code = `
    const s = require('net').connect(3128, '127.0.0.1', () => s.write(Buffer.from(process.argv[1], 'base64')));
    s.pipe(process.stdout); s.on('error', () => {});`;
  return out(box, ['node', '-e', code, Buffer.from(bytes).toString('base64')]);
}

test('control characters in a host name go nowhere', async () => {
  const before = denials.length;
  for (const host of ['a\x1b[31mb.test', 'a\rb.test', 'a\x00b.test', 'a\x07b', 'ä.test']) {
    assert.match(await say(listed, `CONNECT ${host}:443 HTTP/1.1\r\n\r\n`), /^HTTP\/1\.1 400 /, JSON.stringify(host));
  }
  assert.equal(denials.length, before);
  assert.match(await say(listed, `GET http://x/ HTTP/1.1\r\nA: ${'a'.repeat(17000)}\r\n\r\n`), /^HTTP\/1\.1 431 /);
  assert.match(await say(listed, 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'), /^HTTP\/1\.1 400 .*this is a proxy/s);
});

test('the raw network stays shut, and names are not resolved past the proxy', async () => {
  const code = `
    const s = require('net').connect(${port}, '127.0.0.1');
    s.on('connect', () => console.log('through')).on('error', e => console.log(e.code));
    require('net').connect(80, '1.1.1.1').on('error', e => console.log(e.code));
    require('dns').lookup('example.com', e => console.log(e.code));`;
  const text = await out(listed, ['node', '-e', code]);
  assert.deepEqual(text.trim().split('\n').sort(), ['EAI_AGAIN', 'ECONNREFUSED', 'ENETUNREACH']);
});

test('deny says so, once per host, through the logger of Mastra, too', { skip: without('curl') }, async () => {
  const seen = [];
  const warned = [];
  const sandbox = createMastraSandbox({
    provider: local({ isolation: 'full' }),
    onNetworkDenied: denial => {
      seen.push(denial.host);
      throw new Error('a callback that fails');
    },
  });
  sandbox.__setLogger?.({ debug() {}, info() {}, error() {}, trackException() {}, warn: text => warned.push(text) });
  await sandbox._start();
  const run = line => sandbox.executeCommand(line);
  const { stdout } = await run('curl -sS http://pypi.org/; curl -sS http://pypi.org/');
  assert.match(stdout, /network is off in this sandbox \(network: "deny"\), so "pypi\.org" cannot/);
  assert.deepEqual(seen, ['pypi.org']);
  if (sandbox.__setLogger) assert.match(warned.join(), /pypi\.org/);
  await run('for i in $(seq 100); do curl -sS -o /dev/null http://h$i.test/; done');
  assert.equal(seen.length, 64, 'a loop does not flood');
  assert.equal((await run('echo $NODE_USE_ENV_PROXY')).stdout, '\n');
  assert.match(sandbox.getInstructions(), /network is off/);
  await sandbox._destroy();
});

test('the policy can change while the sandbox runs', { skip: without('curl') }, async () => {
  const box = await createSandbox({ provider: local({ isolation: 'full' }), env: through });
  assert.equal(supports(box, 'networkPolicy'), true);
  const target = `http://127.0.0.1:${port}/a`;
  assert.match(await out(box, `curl -sS ${target}`), /network is off/);
  await box.setNetworkPolicy({ allow: [`127.0.0.1:${port}`, 'npm'] });
  assert.equal(await out(box, `curl -sS ${target}`), expected());
  assert.equal(await out(box, 'echo $NODE_USE_ENV_PROXY'), '1\n');
  // An open tunnel ends when its host is not allowed any more.
  const code = `
    const q = require('http').request({ port: 3128, method: 'CONNECT', path: '127.0.0.1:${port}',
      headers: { 'Proxy-Authorization': 'Basic ' + Buffer.from(new URL(process.env.HTTP_PROXY).username + ':' + new URL(process.env.HTTP_PROXY).password).toString('base64') } });
    q.on('connect', (r, s) => { console.log('open'); s.resume().on('close', () => console.log('closed')).on('error', () => {}); }).end();`;
  let opened;
  const open = new Promise(resolve => (opened = resolve));
  const child = await box.processes.start(['node', '-e', code], { onStdout: text => /open/.test(text) && opened(), env: { NODE_USE_ENV_PROXY: undefined } });
  await open;
  await box.setNetworkPolicy('deny');
  assert.match((await child.wait()).stdout, /open\nclosed/);
  assert.match(await out(box, `curl -sS ${target}`), /network is off/);
  const rejects = (policy, code) => assert.rejects(box.setNetworkPolicy(policy), error => isSandboxError(error, code));
  await rejects('allow', 'unsupported');
  await rejects(['http://a/'], 'invalid_input');
  await rejects(undefined, 'invalid_input');
  await rejects({ hosts: [] }, 'invalid_input');
  await box.stop();
  const open2 = await createSandbox({ provider: local({ isolation: 'full', network: 'allow' }) });
  await assert.rejects(open2.setNetworkPolicy('deny'), error => isSandboxError(error, 'unsupported') && /"allow"/.test(error.message));
  assert.equal(await out(open2, 'echo "$HTTP_PROXY"'), '\n');
  await open2.stop();
});

test('an open tunnel ends with the sandbox', async () => {
  const box = await createSandbox({ provider: local({ isolation: 'full', network: [`127.0.0.1:${port}`] }) });
  const closed = new Promise(resolve => server.once('connection', socket => socket.on('close', resolve)));
  const code = `
    const { username: u, password: p } = new URL(process.env.HTTP_PROXY);
    require('http').request({ port: 3128, method: 'CONNECT', path: '127.0.0.1:${port}',
      headers: { 'Proxy-Authorization': 'Basic ' + Buffer.from(u + ':' + p).toString('base64') } })
      .on('connect', () => { console.log('open'); setInterval(() => {}, 1000); }).end();`;
  let opened;
  const open = new Promise(resolve => (opened = resolve));
  await box.processes.start(['node', '-e', code], { onStdout: () => opened() });
  await open;
  await box.stop();
  await closed;
});

test('wrong lists are refused where they are written', async () => {
  const made = network => createMastraSandbox({ provider: local({ network }) });
  for (const network of [['https://example.com'], ['a b'], { allow: ['a/b'] }, ['a\x1b[2J']]) {
    assert.throws(() => made(network), error => isSandboxError(error, 'invalid_input') && /^[^\x00-\x1f]*network holds[^\x00-\x1f]*$/.test(error.message));
  }
  for (const network of [5, null, { hosts: [] }, { allow: 'a' }, [1]]) {
    assert.throws(() => made(network), { code: 'invalid_input' });
  }
  assert.throws(() => createMastraSandbox({ provider: local({ isolation: 'none', network: ['a.example'] }) }), /needs isolation/);
  assert.match(made(['a.example', 'npm']).getInstructions(), /only these hosts can be reached.*a\.example, npm/);
});

test('level landlock: the proxy listens on this machine, and nothing else can be connected to', { skip: without('curl') }, async t => {
  const box = await createSandbox({ provider: local({ isolation: 'landlock', network: [`127.0.0.1:${port}`] }), env: through });
  const target = `http://127.0.0.1:${port}/a`;
  const { exitCode, stdout } = await box.run(`curl -sS ${target}`);
  const direct = await box.run(`curl -sS --noproxy '*' ${target}`);
  await box.stop();
  assert.notEqual(direct.exitCode, 0, direct.stdout);
  if (exitCode !== 0) return t.skip('this kernel cannot limit TCP by port, so there is none');
  assert.equal(stdout, expected());
});

const congestion = '/proc/sys/net/ipv4/tcp_congestion_control';

function readOnlyProc() {
  try {
    fs.accessSync('/proc/sys', fs.constants.W_OK);
    return false;
  } catch (error) {
    return error.code === 'EROFS' && 'this machine shows /proc/sys read-only';
  }
}

test('the loopback of a sandbox is paced by nobody', { skip: readOnlyProc() }, async () => {
  const outside = fs.readFileSync(congestion, 'utf8');
  assert.equal((await listed.run(['cat', congestion])).stdout, 'reno\n');
  assert.equal(fs.readFileSync(congestion, 'utf8'), outside);
  const shared = await createSandbox({ provider: local({ isolation: 'full', network: 'allow' }) });
  assert.equal((await shared.run(['cat', congestion])).stdout, outside, 'with the machine’s network its own stays');
  await shared.stop();
});
