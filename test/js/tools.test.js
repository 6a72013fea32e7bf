// Mastra's own workspace tools on the adapter: calls per tool, read before write,
// media, search columns, directory listings.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import * as core from '@mastra/core/workspace';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { provider } from '../helpers/providers.js';
import { countCalls, out, toolsOf, until, using } from '../helpers/workspace.js';

const needsSearch = { skip: !core.UnsupportedGrepPatternError && 'this @mastra/core searches file by file' };
const needsMtime = { skip: !core.StaleFileError && 'this @mastra/core has no expectedMtime' };
const text = result => (typeof result === 'string' ? result : JSON.stringify(result));

test('calls of the addon per tool', needsSearch, using({}, async (workspace, t) => {
  const { filesystem: files, sandbox } = workspace;
  for (const dir of ['a', 'a/b', 'c', 'c/d', 'e', 'f', 'g']) for (const n of [1, 2]) await files.writeFile(`${dir}/${n}.md`, 'needle\n');
  const tools = await toolsOf(workspace);
  const taken = countCalls(sandbox);
  const most = async (limit, name, input) => {
    taken();
    await tools[name](input);
    const count = taken();
    t.diagnostic(`${name}: ${count}`);
    assert.ok(count >= 1 && count <= limit, `${name} took ${count} calls, not ${limit}`);
  };
  await most(3, 'read_file', { path: 'a/1.md' });
  await most(2, 'write_file', { path: 'new/deep/x.md', content: 'x' });
  await most(2, 'write_file', { path: 'a/1.md', content: 'needle' });
  await most(3, 'edit_file', { path: 'a/1.md', old_string: 'needle', new_string: 'thread' });
  await most(2, 'list_files', { path: '/', maxDepth: 5 });
  await most(3, 'grep', { pattern: 'needle' });
  await most(1, 'file_stat', { path: 'a' });
  await most(1, 'mkdir', { path: 'h/i' });
  await most(2, 'delete', { path: 'a/1.md' });
  await most(2, 'delete', { path: 'c', recursive: true });
  await most(1, 'execute_command', { command: 'echo hi' });
  for (const [limit, call] of [
    [1, () => files.copyFile('a', 'copy', { recursive: true })],
    [1, () => files.moveFile('copy', 'moved')],
    [1, () => files.appendFile('log', 'x')],
    [1, () => files.readdir('/', { recursive: true })],
    [1, () => files.walk('/')],
    [1, () => files.rmdir('moved', { recursive: true })],
  ]) {
    taken();
    await call();
    assert.equal(taken(), limit, String(call));
  }
}));

test('information and instructions ask the addon for nothing', using({}, async workspace => {
  await workspace.init();
  const taken = countCalls(workspace.sandbox);
  await workspace.sandbox.getInfo();
  await workspace.filesystem.getInfo();
  assert.match(workspace.getInstructions(), /\/workspace/);
  await workspace.sandbox.networking.getPortUrl(3000);
  assert.equal(taken(), 0);
}));

test('read before write: unread, read, changed meanwhile', needsMtime, using(
  { workspace: { tools: { [core.WORKSPACE_TOOLS.FILESYSTEM.WRITE_FILE]: { requireReadBeforeWrite: true }, [core.WORKSPACE_TOOLS.FILESYSTEM.EDIT_FILE]: { requireReadBeforeWrite: true } } } },
  async workspace => {
    const tools = await toolsOf(workspace);
    await tools.write_file({ path: 'a.txt', content: 'one' }); // new: nothing to read
    const required = error => error.name === 'FileReadRequiredError';
    await assert.rejects(tools.write_file({ path: 'a.txt', content: 'two' }), required);
    await assert.rejects(tools.edit_file({ path: 'a.txt', old_string: 'one', new_string: 'two' }), required);
    await tools.read_file({ path: 'a.txt' });
    await tools.write_file({ path: 'a.txt', content: 'two' });
    assert.equal(await out(workspace, 'cat a.txt'), 'two');
    await tools.read_file({ path: 'a.txt' });
    await sleep(20);
    await out(workspace, 'echo by-command > a.txt');
    await assert.rejects(tools.write_file({ path: 'a.txt', content: 'three' }), required);
    assert.equal(await out(workspace, 'cat a.txt'), 'by-command\n');
    // An older time is a change, too.
    await tools.read_file({ path: 'a.txt' });
    await out(workspace, 'touch -d 2001-01-01 a.txt');
    assert.match(text(await tools.write_file({ path: 'a.txt', content: 'three' }).catch(error => error.message)), /modified|stale/i);
    assert.equal(await out(workspace, 'cat a.txt'), 'by-command\n');
  },
));

test('a change between read and edit is seen without being asked for', needsMtime, using({}, async workspace => {
  const tools = await toolsOf(workspace);
  await tools.write_file({ path: 'a.txt', content: 'one' });
  await tools.read_file({ path: 'a.txt' });
  await sleep(20);
  await out(workspace, 'echo changed >> a.txt');
  for (const call of [
    () => tools.edit_file({ path: 'a.txt', old_string: 'one', new_string: 'two' }),
    () => tools.write_file({ path: 'a.txt', content: 'two' }),
  ]) {
    assert.match(text(await call().catch(error => error.message)), /modified|stale/i);
    await tools.read_file({ path: 'a.txt' });
    await sleep(20);
    await out(workspace, 'echo changed >> a.txt');
  }
  assert.match(await out(workspace, 'cat a.txt'), /^one/);
}));

test('two sandboxes never share what was read', needsMtime, async () => {
  const shared = provider();
  const require = { workspace: { tools: { requireReadBeforeWrite: true, [core.WORKSPACE_TOOLS.FILESYSTEM.WRITE_FILE]: { requireReadBeforeWrite: true } } } };
  const [one, two] = [1, 2].map(() => createMastraWorkspace({ provider: shared, ...require }));
  // One set of tools for both, as an agent has it whose workspace is chosen for each call.
  const made = await core.createWorkspaceTools(one);
  const call = (workspace, name, input) => made[`mastra_workspace_${name}`].execute(input, { workspace });
  for (const workspace of [one, two]) await workspace.filesystem.writeFile('a.txt', 'x');
  await call(one, 'read_file', { path: 'a.txt' });
  await assert.rejects(call(two, 'write_file', { path: 'a.txt', content: 'y' }), { name: 'FileReadRequiredError' });
  await call(one, 'write_file', { path: 'a.txt', content: 'y' });
  await Promise.all([one.destroy(), two.destroy()]);
});

const pixel = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

test('png and pdf are media parts; what is too large or binary is told, not sent', using({}, async (workspace, t) => {
  const { filesystem: files } = workspace;
  await files.writeFile('a.png', pixel);
  await files.writeFile('a.pdf', Buffer.from('%PDF-1.4\n%\xff\xfe\n', 'latin1'));
  await files.writeFile('big.png', Buffer.alloc(11 * 1024 * 1024, 0x41));
  await files.writeFile('a.zip', Buffer.from([0x50, 0x4b, 3, 4, 0xff]));
  const made = await core.createWorkspaceTools(workspace);
  const tool = made[core.WORKSPACE_TOOLS.FILESYSTEM.READ_FILE];
  if (!tool.toModelOutput) return t.skip('this @mastra/core sends text only');
  const seenByModel = async path => {
    const result = await tool.execute({ path }, { workspace });
    return JSON.stringify(tool.toModelOutput?.(result) ?? result);
  };
  const png = await seenByModel('a.png');
  assert.match(png, /"image\/png"/);
  assert.ok(png.includes(pixel.toString('base64')));
  const pdf = await seenByModel('a.pdf');
  assert.match(pdf, /"application\/pdf"/);
  assert.ok(pdf.includes(Buffer.from('%PDF-1.4\n%\xff\xfe\n', 'latin1').toString('base64')));
  for (const name of ['big.png', 'a.zip']) {
    const told = await seenByModel(name);
    assert.ok(told.length < 2000, `${name}: ${told.length} characters`);
    assert.match(told, new RegExp(name.replace('.', '\\.')));
  }
}));

test('search: columns are those of JavaScript, also through the fallback', needsSearch, using({}, async workspace => {
  const line = '  é😀x needle x';
  await workspace.filesystem.writeFile('a.md', `first\n${line}\n`);
  const tools = await toolsOf(workspace);
  for (const pattern of ['é😀x', 'x', 'needle', '(?<=😀)x', '(?<!é😀)x', '\\p{Emoji_Presentation}', '[^ -~ ]+x', '(n)(e)\\2', '(?<w>dle)']) {
    let found;
    try {
      found = new RegExp(pattern).exec(line);
    } catch {}
    const answer = text(await tools.grep({ pattern }));
    if (!found) assert.match(answer, /0 matches|No matches/i, `${pattern}: ${answer}`);
    else assert.ok(answer.includes(`a.md:2:${found.index + 1}:`), `${pattern}: ${answer} but index ${found.index}`);
  }
}));

test('a .gitignore, hidden files and .git are left out as Mastra does', needsSearch, using({}, async workspace => {
  const { filesystem: files } = workspace;
  for (const name of ['src/a.ts', 'dist/b.ts', '.hidden/c.ts', '.git/d.ts', 'node_modules/m/e.ts']) await files.writeFile(name, 'needle');
  await files.writeFile('.gitignore', 'dist\nnode_modules\n');
  const tools = await toolsOf(workspace);
  const listed = text(await tools.list_files({ path: '/', maxDepth: 4 }));
  const found = text(await tools.grep({ pattern: 'needle' }));
  for (const answer of [listed, found]) {
    assert.match(answer, /a\.ts/);
    for (const name of ['b.ts', 'c.ts', 'd.ts', 'e.ts']) assert.ok(!answer.includes(name), `${name} in ${answer}`);
  }
}));

test('an edit keeps BOM and CRLF; text with U+FFFD is not written over bytes', using({}, async workspace => {
  const tools = await toolsOf(workspace);
  await workspace.filesystem.writeFile('dos.txt', '\uFEFFone\r\ntwo\r\n');
  await tools.edit_file({ path: 'dos.txt', old_string: 'two', new_string: '2' });
  assert.equal(await out(workspace, 'od -An -c dos.txt | tr -d " \\n"'), '357273277one\\r\\n2\\r\\n');
  const bytes = Buffer.from('caf\xe9 one\n', 'latin1');
  await workspace.filesystem.writeFile('latin1.txt', bytes);
  const answer = await tools.edit_file({ path: 'latin1.txt', old_string: 'one', new_string: 'two' }).catch(error => error);
  assert.match(text(answer?.message ?? answer), /UTF-8/);
  assert.deepEqual(await workspace.filesystem.readFile('latin1.txt'), bytes);
}));

test('foreground: exit code, tail, cwd, timeout; background: start, output, kill', using({}, async workspace => {
  const tools = await toolsOf(workspace);
  assert.match(text(await tools.execute_command({ command: 'printf "a\\nb\\nc\\n" | tail -1' })), /^(\[.*\]\n)?c\n?$/);
  assert.match(text(await tools.execute_command({ command: 'echo out; echo err >&2; exit 42' })), /out[^]*err[^]*Exit code: 42/);
  await workspace.filesystem.mkdir('sub');
  for (const cwd of ['sub', '/sub', '/workspace/sub']) {
    assert.equal(text(await tools.execute_command({ command: 'pwd', cwd })).trim(), '/workspace/sub');
  }
  assert.match(text(await tools.execute_command({ command: 'pwd', cwd: 'none' })), /does not exist/);
  // In seconds: one is plenty, unless the machine is very busy.
  let partial;
  for (const timeout of [1, 5, 30]) {
    partial = text(await tools.execute_command({ command: 'echo part; sleep 60', timeout }));
    if (/^part/m.test(partial)) break;
  }
  assert.match(partial, /part[^]*(timed out|124)/);
  assert.equal(text(await tools.execute_command({ command: 'cat' })).includes('Error'), false);
  if (!tools.get_process_output) return;
  const started = text(await tools.execute_command({ command: 'echo up; exec sleep 60', background: true }));
  const [pid] = /\d+/.exec(started);
  await until(async () => /up/.test(text(await tools.get_process_output({ pid }))));
  assert.match(text(await tools.kill_process({ pid })), /kill/i);
  assert.match(text(await tools.get_process_output({ pid })), /No background process found/);
}));
