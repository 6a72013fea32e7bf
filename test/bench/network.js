// The network: an exposed port against the same server on this machine's own
// loopback, and the proxy against a chain of two socat, which is how other
// sandboxes let traffic out. Throughput, so the ratio is theirs to ours.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';
import { median } from './pair.js';

const MB = 1 << 20;
const size = 256 * MB;

// What people serve: a Node program that sends as fast as it is read. The port
// is the argument.
const source = `
const block = Buffer.alloc(262144, 'x');
require('net').createServer(c => {
  let left = ${size};
  const more = () => {
    while (left > 0) {
      left -= block.length;
      if (!c.write(block)) { c.once('drain', more); return; }
    }
    c.end();
  };
  c.on('error', () => {}).once('data', () => { c.write('HTTP/1.1 200 OK\\r\\n\\r\\n'); more(); });
}).listen(Number(process.argv[1]), '127.0.0.1', function () { console.log(this.address().port); });
`;

// Reads all and prints the seconds from the first byte sent to the last one read.
const client = `
import socket, sys, time
host, port, head = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode().decode('unicode_escape').encode()
buffer = bytearray(262144)
start = time.perf_counter()
c = socket.create_connection((host, port))
c.sendall(head)
seen = 0
while True:
    n = c.recv_into(buffer)
    if n == 0: break
    seen += n
assert seen > ${size}, seen
print(time.perf_counter() - start)
`;

function first(child) {
  return new Promise(resolve => child.stdout.once('data', data => resolve(String(data).trim())));
}

function outside(program, ...args) {
  return spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
}

async function seconds(child) {
  const text = await first(child);
  await new Promise(resolve => (child.exitCode === null ? child.on('exit', resolve) : resolve()));
  return Number(text);
}

const here = (port, head) => () => seconds(outside('python3', '-c', client, '127.0.0.1', String(port), head));

function inside(box, port, head) {
  return async () => {
    const { stdout, stderr } = await box.run(['python3', '-c', client, '127.0.0.1', String(port), head]);
    if (!stdout) throw new Error(stderr);
    return Number(stdout);
  };
}

async function throughput(name, ours, theirs, goal, rounds = 15) {
  const a = [];
  const b = [];
  await ours();
  await theirs();
  for (let i = 0; i < rounds; i++) {
    a.push(await ours());
    b.push(await theirs());
  }
  const rate = times => size / MB / median(times);
  const ratio = rate(a) / rate(b);
  console.log(
    `${name.padEnd(52)} ${rate(a).toFixed(0).padStart(7)} MB/s ${rate(b).toFixed(0).padStart(7)} MB/s  ` +
      `${ratio.toFixed(2)}x (goal at least ${goal}x)  ${ratio >= goal ? 'ok' : 'BELOW'}`,
  );
}

async function bridge(port) {
  const box = await createSandbox({ provider: local({ isolation: 'full', ports: [3000] }) });
  let up;
  const listening = new Promise(resolve => (up = resolve));
  await box.processes.start(['node', '-e', source, '3000'], { onStdout: () => up() });
  await listening;
  const { url } = await box.ports.expose(3000);
  const outer = new URL(url).port;
  const head = number => `GET / HTTP/1.1\\r\\nHost: 127.0.0.1:${number}\\r\\n\\r\\n`;
  await throughput('exposed port against direct loopback', here(outer, head(outer)), here(port, head(port)), 0.6);
  await box.stop();
}

// TCP inside -> UNIX -> TCP outside, as two processes.
async function socats(port) {
  const folder = mkdtempSync(path.join(tmpdir(), 'bench-'));
  const link = path.join(folder, 'link');
  const entry = 20000 + (process.pid % 20000);
  const children = [
    outside('socat', `UNIX-LISTEN:${link},fork`, `TCP:127.0.0.1:${port}`),
    outside('socat', `TCP-LISTEN:${entry},bind=127.0.0.1,fork,reuseaddr`, `UNIX-CONNECT:${link}`),
  ];
  for (let up = false; !up; ) {
    up = await new Promise(resolve => {
      const probe = net.connect(entry, '127.0.0.1', () => (probe.destroy(), resolve(true)));
      probe.on('error', () => setTimeout(resolve, 20, false));
    });
  }
  return {
    entry,
    end() {
      for (const child of children) child.kill();
      rmSync(folder, { recursive: true });
    },
  };
}

async function proxy(port) {
  if (spawnSync('socat', ['-V']).error) {
    console.log('proxy against a chain of socat: not run, for socat is not installed (apt-get install socat)');
    return;
  }
  const box = await createSandbox({ provider: local({ isolation: 'full', network: [`127.0.0.1:${port}`] }) });
  const { stdout } = await box.run('printf %s "${HTTP_PROXY#http://}"');
  const auth = Buffer.from(stdout.split('@')[0]).toString('base64');
  const chain = await socats(port);
  const tunnel = `CONNECT 127.0.0.1:${port} HTTP/1.1\\r\\nProxy-Authorization: Basic ${auth}\\r\\n\\r\\nGET / HTTP/1.1\\r\\n\\r\\n`;
  await throughput(
    'proxy against a chain of two socat',
    inside(box, 3128, tunnel),
    here(chain.entry, 'GET / HTTP/1.1\\r\\n\\r\\n'),
    4,
  );
  chain.end();
  await box.stop();
}

export async function network() {
  const server = outside(process.execPath, '-e', source, '0');
  const port = Number(await first(server));
  try {
    await bridge(port);
    await proxy(port);
  } finally {
    server.kill();
  }
}
