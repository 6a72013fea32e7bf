// Ports of a sandbox as URLs on this machine: who gets through, how much, and
// what is left afterwards.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createSandbox, isSandboxError } from 'sandbox-sdk-native';
import { createMastraSandbox } from 'sandbox-sdk-native/mastra';
import { local } from 'sandbox-sdk-native/local';
import { until } from '../helpers/workspace.js';

// One server for most tests: HTTP, an upgrade that echoes, and big answers.
const server = `
  const http = require('http');
  const make = host => http.createServer((q, s) => {
    if (q.url === '/big') { s.end(Buffer.alloc(32 << 20, 'x')); return; }
    if (q.url === '/echo') { q.pipe(s); return; }
    if (q.url === '/away') { s.writeHead(302, { location: 'http://169.254.169.254/' }); s.end(); return; }
    s.end(q.method + ' ' + q.url + ' ' + host);
  }).on('upgrade', (q, socket, head) => {
    socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: echo\\r\\nConnection: Upgrade\\r\\n\\r\\n');
    socket.write(head);
    socket.on('data', d => socket.write(d)).on('end', () => socket.end('bye')).on('error', () => {});
  }).listen(host === '::1' ? 3001 : 3000, host, () => console.log('up ' + host));
  make('127.0.0.1');
  make('::1');
`;
let sandbox;
let url;

async function listening(box, code, mark) {
  let seen;
  const up = new Promise(resolve => (seen = resolve));
  let text = '';
  const child = await box.processes.start(['node', '-e', code], {
    onStdout: piece => mark.test((text += piece)) && seen(),
  });
  await Promise.race([up, child.wait().then(({ stderr }) => assert.fail(`the server ended: ${stderr}`))]);
  return child;
}

before(async () => {
  sandbox = await createSandbox({ provider: local({ isolation: 'full', ports: [3000, 3001, 3002] }) });
  await listening(sandbox, server, /up .*up /s);
  ({ url } = await sandbox.ports.expose(3000));
});
after(() => sandbox.stop());

function get(target, headers) {
  return new Promise((resolve, reject) => {
    http.get(target, { headers, agent: false }, answer => {
      let body = '';
      answer.on('data', piece => (body += piece)).on('end', () => resolve({ status: answer.statusCode, body }));
    }).on('error', reject);
  });
}

/** Writes, half-closes if asked to, and resolves with all that came. */
function raw(text, { end = false, until } = {}) {
  const { port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    let seen = '';
    socket.on('error', reject).on('data', piece => {
      seen += piece;
      if (until && seen.includes(until)) socket.end();
    });
    socket.on('end', () => (socket.end(), resolve(seen)));
    socket.write(text);
    if (end) socket.end();
  });
}

test('a server inside is reached, by IPv4 and IPv6 of both sides', async () => {
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.equal(await (await fetch(`${url}/a?b`)).text(), 'GET /a?b 127.0.0.1');
  const six = await sandbox.ports.expose(3001);
  assert.equal(await (await six.request('/x', { method: 'PUT' })).text(), 'PUT /x ::1');
  if (fs.existsSync('/proc/net/if_inet6')) {
    assert.equal((await get(`${url.replace('127.0.0.1', '[::1]')}/y`)).body, 'GET /y 127.0.0.1');
  }
  assert.equal((await sandbox.ports.expose(3000)).url, url, 'the same port has one URL');
});

test('a page whose name was rebound to this machine gets nothing', async () => {
  const { port } = new URL(url);
  for (const host of ['evil.example', `evil.example:${port}`, '127.0.0.1', `127.0.0.1.evil.example:${port}`]) {
    const { status, body } = await get(url, { host });
    assert.equal(status, 421, host);
    assert.doesNotMatch(body, /GET/);
  }
  assert.equal((await get(url, { host: `localhost:${port}` })).status, 200);
  assert.match(await raw('\x01\x02\x03'), /^HTTP\/1\.1 400 /);
  assert.match(await raw(`GET / HTTP/1.1\r\nX: ${'a'.repeat(20000)}`), /^HTTP\/1\.1 431 /);
});

test('nothing listens: an answer that says so', async () => {
  const { request } = await sandbox.ports.expose(3002);
  const answer = await request('/');
  assert.equal(answer.status, 502);
  assert.match(await answer.text(), /port 3002 in the sandbox: Connection refused/);
});

test('request does not leave the sandbox', async () => {
  const { request } = await sandbox.ports.expose(3000);
  assert.equal((await request('/away')).status, 302);
  await assert.rejects(async () => request('http://example.com/'), { code: 'invalid_input' });
  assert.equal(await (await request('//example.com/')).text(), 'GET //example.com/ 127.0.0.1');
});

test('an upgraded connection carries bytes both ways, and half-closes', async () => {
  const { host } = new URL(url);
  const head = `GET /ws HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n`;
  const seen = await raw(`${head}first bytes`, { end: true });
  assert.match(seen, /101 Switching Protocols[^]*first bytesbye$/);
  assert.match(await raw(`${head}ping`, { until: 'ping' }), /pingbye$/);
});

test('a WebSocket works', { skip: typeof WebSocket === 'undefined' && 'this Node has no WebSocket' }, async () => {
  const code = `
    const crypto = require('crypto');
    require('http').createServer().on('upgrade', (q, s) => {
      const key = crypto.createHash('sha1').update(q.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
      s.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: ' + key + '\\r\\n\\r\\n');
      s.write(Buffer.from([0x81, 5, ...Buffer.from('hello')]));
    }).listen(3002, () => console.log('up'));`;
  const child = await listening(sandbox, code, /up/);
  const target = (await sandbox.ports.expose(3002)).url.replace('http', 'ws');
  const message = await new Promise((resolve, reject) => {
    const socket = new WebSocket(target);
    socket.onmessage = event => (socket.close(), resolve(event.data));
    socket.onerror = reject;
  });
  assert.equal(message, 'hello');
  await child.kill();
});

test('large bodies arrive whole in both directions', async () => {
  const big = Buffer.from(await (await fetch(`${url}/big`)).arrayBuffer());
  assert.equal(big.length, 32 << 20);
  const sent = Buffer.alloc(8 << 20, 'abcdefg');
  const back = Buffer.from(await (await fetch(`${url}/echo`, { method: 'POST', body: sent })).arrayBuffer());
  assert.ok(back.equals(sent));
});

test('more large transfers at once than there are large pipes', async () => {
  const whole = async () => Buffer.from(await (await fetch(`${url}/big`)).arrayBuffer()).length;
  const sent = Buffer.alloc(4 << 20, 'abcdefg');
  const echoed = async () => Buffer.from(await (await fetch(`${url}/echo`, { method: 'POST', body: sent })).arrayBuffer()).equals(sent);
  const results = await Promise.all(Array.from({ length: 12 }, (_, i) => (i % 2 ? whole() : echoed())));
  assert.deepEqual(results, Array.from({ length: 12 }, (_, i) => (i % 2 ? 32 << 20 : true)));
  // A reader that goes away in the middle of it.
  const { host, port } = new URL(url);
  for (let i = 0; i < 12; i++) {
    await new Promise(resolve => {
      let seen = 0;
      const socket = net.connect(port, '127.0.0.1', () => socket.write(`GET /big HTTP/1.1\r\nHost: ${host}\r\n\r\n`));
      socket.on('data', piece => (seen += piece.length) > (4 << 20) && socket.destroy()).on('close', resolve);
    });
  }
  assert.equal(await whole(), 32 << 20);
});

test('300 connections at once: all are served, 256 at a time', async () => {
  const { host, port } = new URL(url);
  const sockets = await Promise.all(
    Array.from({ length: 300 }, () => new Promise((resolve, reject) => {
      const socket = net.connect(port, '127.0.0.1', () => resolve(socket)).on('error', reject);
    })),
  );
  const answers = await Promise.all(sockets.map(socket => new Promise(resolve => {
    let seen = '';
    socket.on('data', piece => (seen += piece)).on('end', () => resolve(seen));
    socket.write(`GET /many HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  })));
  assert.equal(answers.filter(answer => answer.endsWith('GET /many 127.0.0.1')).length, 300);
});

test('ports below 1024 and wrong ones', async () => {
  await assert.rejects(sandbox.ports.expose(80), error => isSandboxError(error, 'invalid_input') && /not declared/.test(error.message));
});

test('Mastra: getPortUrl starts, networking wakes nothing, stop closes', async () => {
  const box = createMastraSandbox({ provider: local({ isolation: 'full' }), ports: [3000] });
  assert.equal(await box.networking.getPortUrl(3000), null);
  assert.equal(box.status, 'pending');
  await assert.rejects(box.getPortUrl(3001), { code: 'invalid_input' });
  await assert.rejects(box.getPortUrl(3000, 'no scheme'), { code: 'invalid_input' });
  const first = await box.getPortUrl(3000, 'ws');
  assert.match(first, /^ws:\/\/127\.0\.0\.1:\d+$/);
  assert.equal(await box.networking.getPortUrl(3000), first.replace('ws', 'http'));
  assert.equal(await box.networking.getPortUrl(3001), null);
  assert.equal(box.getInfo().metadata.capabilities.ports, 'native');
  const gone = async () => assert.rejects(get(first.replace('ws', 'http')), { code: 'ECONNREFUSED' });
  await box._stop();
  await gone();
  assert.equal(await box.networking.getPortUrl(3000), null);
  const second = await box.getPortUrl(3000);
  await listening(box.sandboxSdk, 'require("http").createServer((q, s) => s.end("again")).listen(3000, () => console.log("up"))', /up/);
  assert.equal((await get(second)).body, 'again');
  const open = net.connect(new URL(second).port, '127.0.0.1');
  await new Promise(resolve => open.on('connect', resolve));
  const closed = new Promise(resolve => open.on('close', resolve).on('error', () => {}).resume());
  await box._destroy();
  await closed;
  await assert.rejects(get(second), { code: 'ECONNREFUSED' });
});

test('no socket is left after many sandboxes', async () => {
  const count = () => fs.readdirSync('/proc/self/fd').length;
  const once = async () => {
    const box = await createSandbox({ provider: local({ isolation: 'full', ports: [3000] }) });
    const exposed = await box.ports.expose(3000);
    await exposed.request('/').then(answer => answer.text());
    await box.stop();
  };
  await once();
  // fetch keeps connections for a while; those it keeps were closed by us.
  const start = count();
  for (let i = 0; i < 5; i++) await once();
  await until(() => count() <= start + 2, `${start} descriptors again`);
});

// Where the versions of Node keep the agent differs; the checks have more of them.
const nodes = path.join(import.meta.dirname, '../../.ci/nodes/node_modules');
const others = fs.existsSync(nodes) && !process.env.LD_PRELOAD ? fs.readdirSync(nodes).filter(name => name.startsWith('node-')) : [];
for (const node of [process.execPath, ...others.map(name => path.join(nodes, name, 'bin/node'))]) {
  test(`what fetch() knows of a port goes with its session: ${path.relative(process.cwd(), node)}`, () => {
    const script = fileURLToPath(new URL('../helpers/many-ports.js', import.meta.url));
    const { stdout, stderr } = spawnSync(node, ['--expose-gc', script], { encoding: 'utf8' });
    assert.ok(Number(stdout.trim() || NaN) < 10_000, `${stdout} bytes for each session\n${stderr}`);
  });
}
