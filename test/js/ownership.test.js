// Who owns what: files made by tools are edited by commands and back, git works,
// and no set-id bit reaches the host.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { local } from 'sandbox-sdk-native/local';

const root = process.getuid() === 0;
const utf8 = { encoding: 'utf-8' };

function kinds() {
  const own = { name: 'a session folder', make: () => undefined };
  const plain = { name: 'a directory of the own user', make: (dir) => dir };
  if (!root) return [own, plain];
  const chown = (uid) => (dir) => (fs.chownSync(dir, uid, uid), dir);
  return [
    own,
    plain,
    { name: 'a directory of uid 1000', make: chown(1000), owner: 1000 },
    { name: 'a directory of uid 70000', make: chown(70000), owner: 70000 },
    {
      name: 'a directory with mixed owners',
      owner: 1000,
      make(dir) {
        chown(1000)(dir);
        for (const [name, uid] of [['of-root.txt', 0], ['of-1001.txt', 1001], ['of-1000.txt', 1000]]) {
          fs.writeFileSync(path.join(dir, name), `${name}\n`);
          fs.chownSync(path.join(dir, name), uid, uid);
        }
        return dir;
      },
    },
  ];
}

/** Files with a set-id bit below `dir`, as the host sees them. */
function setIdFiles(dir) {
  return fs
    .readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .filter((file) => fs.lstatSync(file).mode & 0o6000);
}

for (const { name, make, owner } of kinds()) {
  describe(name, () => {
    let workspace;
    let parent;
    let directory;

    before(async () => {
      parent = fs.mkdtempSync(path.join(tmpdir(), 'owner-'));
      fs.chmodSync(parent, 0o755);
      directory = path.join(parent, 'project');
      fs.mkdirSync(directory);
      directory = make(directory);
      workspace = createMastraWorkspace({ provider: local({ directory, isolation: 'full' }) });
      await workspace.init();
    });

    after(async () => {
      await workspace.destroy();
      fs.rmSync(parent, { recursive: true });
    });

    const sh = async (line) => {
      const result = await workspace.sandbox.executeCommand(line);
      assert.equal(result.exitCode, 0, `${line}: ${result.stderr}`);
      return result.stdout;
    };

    test('a command edits what a tool made, and back', async () => {
      const files = workspace.filesystem;
      await files.writeFile('deep/by-tool.txt', 'tool\n');
      await sh('echo command >> deep/by-tool.txt && mkdir -p made && echo command > made/by-command.txt');
      assert.equal(await files.readFile('deep/by-tool.txt', utf8), 'tool\ncommand\n');
      await files.writeFile('made/by-command.txt', 'tool\n');
      await files.appendFile('made/by-command.txt', 'more\n');
      await files.moveFile('made/by-command.txt', 'made/moved.txt');
      assert.equal(await sh('cat made/moved.txt && rm made/moved.txt && rmdir made'), 'tool\nmore\n');
      await files.deleteFile('deep/by-tool.txt');
    });

    test('both make files of the same owner', async () => {
      await workspace.filesystem.writeFile('tool.txt', '');
      await sh('touch command.txt');
      assert.equal(await sh('stat -c %u:%g tool.txt'), await sh('stat -c %u:%g command.txt'));
      assert.equal(await sh('stat -c %u tool.txt'), await sh('id -u'));
      if (owner === undefined) return;
      for (const file of ['tool.txt', 'command.txt']) {
        assert.equal(fs.statSync(path.join(directory, file)).uid, owner, file);
      }
    });

    test('git works', async () => {
      await sh('git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first');
      await workspace.filesystem.writeFile('new.txt', 'x');
      assert.match(await sh('git status --porcelain'), /\?\? new\.txt/);
    });

    test('no set-id bit appears on the host', async () => {
      await sh('cp /bin/true u && chmod u+s u && cp /bin/true g && chmod 2755 g');
      await sh("python3 -c \"import os; os.fchmod(os.open('u', os.O_RDONLY), 0o6755)\"");
      await workspace.sandbox.executeCommand("python3 -c \"import os; os.open('made', os.O_CREAT, 0o6755)\"");
      await sh('mkdir shared && chmod g+s shared && stat -c %A shared | grep -q s && touch shared/f');
      if (directory) assert.deepEqual(setIdFiles(directory), []);
      assert.equal(await sh('find . -type f -perm /6000'), '');
    });
  });
}
