// E2B Desktop: screen, mouse and keyboard of a sandbox whose template has a desktop,
// with stand-ins for its X programs in the fake's machine.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import * as core from '@mastra/core/workspace';

import { capabilityMode, createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { startFake } from '../fakes/e2b.js';
import { toolsOf } from '../helpers/workspace.js';

const pixel = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
const programs = {
  xdpyinfo: '[ -e ~/up ]',
  Xvfb: 'touch ~/up; exec sleep 600',
  startxfce4: 'touch ~/desktop; exec sleep 600',
  scrot: '[ "$DISPLAY" = :0 ] && [ "$1" = --pointer ] && cp ~/pixel.png "$2"',
  xdotool: `case $1 in
getdisplaygeometry) echo 1024 768;;
getmouselocation) echo x:12 y:34 screen:0 window:56;;
*) for one in "$@"; do printf '[%s]' "$one"; done >>~/calls; echo >>~/calls;;
esac`,
};

let fake;
before(async () => {
  fake = await startFake({
    onCreate: ({ machine, alias }) => {
      if (alias === 'base') return;
      const folder = `${machine.root}/home/user/bin`;
      mkdirSync(folder);
      for (const [name, body] of Object.entries(programs)) {
        writeFileSync(`${folder}/${name}`, `#!/bin/sh\n${body}\n`);
        chmodSync(`${folder}/${name}`, 0o755);
      }
      writeFileSync(`${machine.root}/home/user/pixel.png`, pixel);
    },
  });
});
after(() => fake.close());

const provider = options =>
  e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url, env: { PATH: '/home/user/bin:/usr/bin:/bin' }, ...options });

test('a desktop: every call, one command each', async () => {
  const sandbox = await createSandbox({ provider: provider({ template: 'desktop' }) });
  const { computer } = sandbox;
  assert.equal(sandbox.capabilities.computer, 'emulated');
  const { data, mediaType } = await computer.screenshot(); // starts the desktop
  assert.equal(mediaType, 'image/png');
  assert.ok(pixel.equals(Buffer.from(data)));
  assert.equal((await sandbox.run('ls ~')).stdout.includes('desktop\n'), true);
  assert.deepEqual(await computer.getScreenSize(), { width: 1024, height: 768 });
  assert.deepEqual(await computer.getCursorPosition(), { x: 12, y: 34 });
  const mark = fake.mark();
  await computer.leftClick(1, 2);
  assert.equal(fake.count(mark), 1);
  await computer.rightClick(3, 4);
  await computer.doubleClick(5, 6);
  await computer.moveMouse(7, 8);
  await computer.drag({ x: 1, y: 2 }, { x: 3, y: 4 });
  await computer.scroll('up', 3);
  await computer.scroll('down', 1);
  await computer.type('-n it’s $(id); "x"\nline');
  await computer.press('Enter');
  await computer.press(['ctrl', 'shift', 's']);
  await computer.press('+');
  await computer.press('ArrowLeft');
  await computer.press('f5');
  const calls = (await sandbox.run('cat ~/calls')).stdout;
  assert.equal(
    calls,
    [
      '[mousemove][--sync][1][2][click][1]',
      '[mousemove][--sync][3][4][click][3]',
      '[mousemove][--sync][5][6][click][--repeat][2][--delay][100][1]',
      '[mousemove][--sync][7][8]',
      '[mousemove][--sync][1][2][mousedown][1][mousemove][--sync][3][4][mouseup][1]',
      '[click][--repeat][3][4]',
      '[click][--repeat][1][5]',
      '[type][--delay][12][--][-n it’s $(id); "x"\nline]',
      '[key][--][Return]',
      '[key][--][ctrl+shift+s]',
      '[key][--][U002B]',
      '[key][--][Left]',
      '[key][--][F5]',
      '',
    ].join('\n'),
  );
  await sandbox.destroy();
});

test('a wrong argument is refused before anything is asked', async () => {
  const sandbox = await createSandbox({ provider: provider({ template: 'desktop' }) });
  const { computer } = sandbox;
  const mark = fake.mark();
  for (const work of [
    () => computer.leftClick(-1, 0),
    () => computer.leftClick(1.5, 0),
    () => computer.moveMouse('1; id', 0),
    () => computer.drag(undefined, { x: 1, y: 1 }),
    () => computer.scroll('left', 1),
    () => computer.scroll('up', 0),
    () => computer.type(7),
    () => computer.press(''),
    () => computer.press([]),
    () => computer.press('ctrl+s; id'),
  ]) {
    await assert.rejects(work, { code: 'invalid_input' });
  }
  assert.equal(fake.count(mark), 0);
  await sandbox.destroy();
});

test('programs that fail or are not there: what to do', async () => {
  const sandbox = await createSandbox({ provider: provider({ computer: true }) }); // the template "base"
  await assert.rejects(sandbox.computer.screenshot(), { code: 'unsupported', message: /template "desktop"/ });
  await sandbox.destroy();
  const other = await createSandbox({ provider: provider({ template: 'desktop' }) });
  const home = `${fake.sandboxes.get(other.metadata.sandboxId).machine.root}/home/user`;
  writeFileSync(`${home}/bin/xdotool`, '#!/bin/sh\necho no display >&2; exit 1\n');
  writeFileSync(`${home}/pixel.png`, 'text');
  await assert.rejects(other.computer.leftClick(1, 1), { code: 'provider_error', message: /no display/ });
  await assert.rejects(other.computer.screenshot(), { code: 'provider_error', message: /no PNG/ });
  await other.destroy();
});

test('Mastra’s agents get the tools for it, where there is one', { skip: core.supportsComputer === undefined && 'this core knows no computer' }, async () => {
  const plain = createMastraWorkspace({ provider: provider() });
  assert.equal(core.supportsComputer(plain.sandbox), false);
  assert.equal(plain.sandbox.sandboxSdk.computer, undefined);
  assert.equal(capabilityMode(provider(), 'computer'), 'unsupported');
  const workspace = createMastraWorkspace({ provider: provider({ template: 'desktop' }) });
  assert.equal(core.supportsComputer(workspace.sandbox), true);
  await workspace.init();
  const tools = await toolsOf(workspace);
  const names = Object.keys(tools).filter(name => name.startsWith('computer_'));
  assert.equal(names.length, 11, names.join());
  const { computer } = workspace.sandbox;
  await computer.leftClick(9, 9);
  const { machine } = fake.sandboxes.get(workspace.sandbox.getInfo().metadata.sandboxId);
  assert.match(readFileSync(`${machine.root}/home/user/calls`, 'utf8'), /\[9\]\[9\]/);
  await workspace.destroy();
});
