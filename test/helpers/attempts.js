// Sandboxes to attack, one for each level and kind of ids, and what came of the
// attempts of attack.c in them.
import { spawnSync } from 'node:child_process';
import dgram from 'node:dgram';
import fs from 'node:fs';
import net from 'node:net';
import { constants, tmpdir } from 'node:os';
import path from 'node:path';
import { local } from 'sandbox-sdk-native/local';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { freePort } from './port.js';

const tree = path.join(import.meta.dirname, '../..');
spawnSync('make', ['-s', '-f', '.ci/native.mk', 'helpers'], { cwd: tree, stdio: 'inherit' });

export const tools = path.join(tree, 'build/native');
export const attack = path.join(tools, 'attack');
export const root = process.getuid() === 0;

const plainPath = '/usr/local/bin:/usr/bin:/bin';
const { PATH } = process.env;

/** As root, level landlock is tried with the ids that commands get there by themselves, and with root's. */
export const kinds = [
  { name: 'full', isolation: 'full', PATH },
  { name: 'landlock', isolation: 'landlock', PATH: plainPath },
  ...(root ? [{ name: 'landlock with the ids of the host', isolation: 'landlock', PATH }] : []),
];

/** The one that commands may listen on. */
export const declared = await freePort();

/** What of the host an attacker wants: a folder, sockets and a port that echoes. */
export async function bait() {
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'outside-'));
  fs.chmodSync(folder, 0o755);
  fs.writeFileSync(path.join(folder, 'secret'), 'do-not-leak-me\n', { mode: 0o644 });
  fs.writeFileSync(path.join(folder, 'writable'), '');
  fs.chmodSync(path.join(folder, 'writable'), 0o666);
  const listen = at => new Promise((resolve, reject) => {
    const server = net.createServer(socket => socket.on('error', () => {}).end('reached'));
    server.once('error', reject);
    server.listen(at, () => resolve(server));
  });
  const servers = [await listen(path.join(folder, 'socket')), await listen({ port: 0, host: '127.0.0.1' })];
  const { port } = servers[1].address();
  servers.push(await listen(`\0sandbox-attack-${port}`));
  const udp = dgram.createSocket('udp4', (data, from) => udp.send(data, from.port, from.address));
  await new Promise(resolve => udp.bind(port, '127.0.0.1', resolve));
  return {
    folder,
    port,
    secret: path.join(folder, 'secret'),
    close() {
      for (const server of servers) server.close();
      udp.close();
      fs.rmSync(folder, { recursive: true });
    },
  };
}

/** A workspace of that kind. */
export function open(kind, options = {}, more = {}) {
  const { PATH: before } = process.env;
  process.env.PATH = kind.PATH;
  const workspace = createMastraWorkspace({
    provider: local({ isolation: kind.isolation, readOnlyPaths: [tools], ports: [declared], ...options }),
    ...more,
  });
  return workspace.init().then(
    () => {
      process.env.PATH = before;
      return workspace;
    },
    error => {
      process.env.PATH = before;
      throw error;
    },
  );
}

const names = new Map(Object.entries(constants.errno).map(([name, number]) => [number, name]));

/** attack.c in a workspace; -> Map of an attempt's name to 'worked' or an errno's name. */
export async function attempts(workspace, { folder, port }) {
  const { stdout, stderr } = await workspace.sandbox.executeCommand(`"${attack}" --all ${process.pid} ${folder} ${port}`);
  const lines = stdout.trim().split('\n');
  if (!/^done \d+$/.test(lines.pop())) throw new Error(`the attacks ended early: ${stdout}${stderr}`);
  return new Map(
    lines.map(line => {
      const [name, number] = line.split('\t');
      return [name, number === '-1' ? 'worked' : (names.get(Number(number)) ?? `errno ${number}`)];
    }),
  );
}
