// A host for tests that runs as another machine would (dockerlike.c). Takes JSON
// on its command line: {options, commands, attack}; prints JSON: what the sandbox
// says of itself, what came of the commands, which attacks worked.
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { local } from 'sandbox-sdk-native/local';

const { options = {}, commands = [], attack } = JSON.parse(process.argv[2]);

// A folder of the host with what an attacker wants to reach.
async function bait() {
  const folder = mkdtempSync(path.join(tmpdir(), 'outside-'));
  writeFileSync(path.join(folder, 'secret'), 'do-not-leak-me\n', { mode: 0o644 });
  writeFileSync(path.join(folder, 'writable'), '');
  chmodSync(path.join(folder, 'writable'), 0o666);
  chmodSync(folder, 0o755);
  const listen = at => new Promise((resolve, reject) => {
    const server = createServer(socket => socket.destroy()).on('error', reject).listen(at, () => resolve(server)).unref();
  });
  const servers = [await listen(path.join(folder, 'socket')), await listen({ port: 0, host: '127.0.0.1' })];
  const { port } = servers[1].address();
  servers.push(await listen(`\0sandbox-attack-${port}`));
  return { folder, servers, port };
}

const left = () =>
  ['/tmp', '/var/tmp', '/dev/shm'].flatMap(at => readdirSync(at).filter(name => name === `sandbox-attack-${process.pid}`));

const workspace = createMastraWorkspace({ provider: local({ ...options, env: { HOST_PID: String(process.pid) } }) });
const answer = { results: [], pid: process.pid };
try {
  await workspace.init();
  const { sandbox, filesystem } = workspace;
  const { metadata } = sandbox.getInfo();
  Object.assign(answer, { metadata, instructions: sandbox.getInstructions() });
  for (const command of commands) {
    const { exitCode, stdout, stderr } = await sandbox.executeCommand(command);
    answer.results.push({ exitCode, stdout, stderr });
  }
  await filesystem.writeFile('/one.txt', 'one');
  answer.spellings = [];
  for (const name of ['one.txt', '/one.txt', '/workspace/one.txt', `${metadata.workspaceInside}/one.txt`]) {
    answer.spellings.push(await filesystem.readFile(name, { encoding: 'utf8' }).catch(error => error.message));
  }
  const { files } = sandbox.sandboxSdk;
  answer.absolute = await files.text('/workspace/one.txt').catch(error => error.message);
  answer.foreign = await files.text('/etc/hostname').catch(error => error.code);
  answer.cwd = (await sandbox.executeCommand('pwd', [], { cwd: '/workspace' })).stdout.trim();
  if (attack) {
    const { folder, servers, port } = await bait();
    const line = `"${attack}" ${process.pid} ${folder} ${port}`;
    const { stdout, stderr } = await sandbox.executeCommand(line);
    answer.attacks = stdout.trim().split('\n');
    answer.attackErrors = stderr;
    answer.secret = existsSync(path.join(folder, 'secret')) && readFileSync(path.join(folder, 'secret'), 'utf8');
    answer.outside = readdirSync(folder).sort();
    answer.left = left();
    for (const server of servers) server.close();
    rmSync(folder, { recursive: true });
  }
} catch (error) {
  answer.error = { message: error.message, step: error.step ?? error.details?.step, code: error.code };
} finally {
  await workspace.destroy();
}
console.log(JSON.stringify(answer));
