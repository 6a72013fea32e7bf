// README.md as a newcomer uses it: every sample runs and compiles as it is
// written, and the tables name the options and capabilities that there are.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { local } from 'sandbox-sdk-native/local';
import { createMastraSandbox, createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { startFake } from '../fakes/e2b.js';

const root = path.join(import.meta.dirname, '../..');
const readme = fs.readFileSync(path.join(root, 'README.md'), 'utf8');
const samples = [...readme.matchAll(/```js\n([^]*?)```/g)].map(({ 1: code, index }) => ({
  code,
  heading: /^#+ (.*)\n(?![^]*^#+ )/m.exec(readme.slice(0, index))[1],
}));

let folder; // an application that has the package installed
let fake;
before(async () => {
  fake = await startFake();
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'readme-'));
  fs.writeFileSync(path.join(folder, 'package.json'), '{"type":"module"}');
  fs.mkdirSync(path.join(folder, 'node_modules'));
  fs.symlinkSync(root, path.join(folder, 'node_modules/sandbox-sdk-native'));
  for (const name of ['@mastra', '@types']) {
    fs.symlinkSync(fs.realpathSync(path.join(root, 'node_modules', name)), path.join(folder, 'node_modules', name));
  }
});
after(async () => {
  fs.rmSync(folder, { recursive: true, force: true });
  await fake.close();
});

const scripted = `import { scriptedModel } from ${JSON.stringify(path.join(root, 'test/examples/scripted-model.js'))};
const model = scriptedModel([
  { calls: [{ tool: 'mastra_workspace_write_file', input: { path: 'hello.js', content: 'console.log(6 * 7)' } }] },
  { calls: [{ tool: 'mastra_workspace_execute_command', input: { command: 'node hello.js' } }] },
  (seen) => ({ text: 'It printed ' + seen.at(-1).output }),
]);
`;

/** The sample as a program, with a model that needs no key and its workspace let go. */
function program(sample) {
  const code = sample.includes("'openai/gpt-5'") ? scripted + sample.replace("'openai/gpt-5'", 'model') : sample;
  const made = /^const workspace = /m.test(code) && !code.includes('workspace.destroy()');
  return made ? `${code}\nawait workspace.init();\nawait workspace.destroy();\n` : code;
}

function run(file) {
  const service = { E2B_API_KEY: fake.apiKey, E2B_API_URL: fake.url, E2B_SANDBOX_URL: fake.url };
  const child = spawn(process.execPath, [file], { cwd: folder, env: { ...process.env, ...service } });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', piece => (text += piece));
  return new Promise(resolve => child.on('close', code => resolve({ code, text })));
}

// what a sample prints, by a word of it
const prints = [
  ['new Agent(', /^It printed 42\s*$/],
  ['6 * 7', /^0 42\n\n\{ running: true \}\n$/],
  ['pty:', /\/dev\/pts\/\d/],
  ["'not_found'", /^\/.*\/config\.json does not exist/],
];

samples.forEach(({ code: sample, heading }, i) => {
  test(`${heading}: sample ${i + 1} runs`, async () => {
    const file = path.join(folder, `sample-${i}.mjs`);
    fs.writeFileSync(file, program(sample));
    const { code, text } = await run(file);
    assert.equal(code, 0, text);
    const [, wanted] = prints.find(([word]) => sample.includes(word)) ?? ['', /^$/];
    assert.match(text, wanted);
  });
});

const require = createRequire(import.meta.url);
const newest = require('../../package.json').devDependencies['@mastra/core'];
const skip = require('@mastra/core/package.json').version !== newest && 'the types are those of the newest @mastra/core';
const tsc = path.join(root, 'node_modules/typescript/bin/tsc');

test('the samples compile', { skip }, () => {
  const files = samples.map(({ code }, i) => {
    fs.writeFileSync(path.join(folder, `sample-${i}.ts`), code);
    return `sample-${i}.ts`;
  });
  const compilerOptions = { strict: true, module: 'nodenext', target: 'es2023', noEmit: true, skipLibCheck: true, preserveSymlinks: true };
  fs.writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
  const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' });
  assert.equal(status, 0, stdout);
});

/** First column of the option table below `heading`. */
function named(heading) {
  const start = readme.indexOf(heading);
  assert.notEqual(start, -1, `README.md has no "${heading}"`);
  const [table] = /(?:^\|.*\n)+/m.exec(readme.slice(start));
  const cells = table.trim().split('\n').slice(2).map(line => line.split('|')[1]);
  return cells.flatMap(cell => [...cell.matchAll(/`([\w.]+)(?:\([^`]*\))?`/g)].map(([, name]) => name)).sort();
}

/** What the function says that it knows. */
function known(call) {
  try {
    call({ provider: local(), 'no such option': 1 });
  } catch (error) {
    return error.message.split('it knows ')[1].split(', ');
  }
  throw new Error('an unknown option was taken');
}

test('the tables name every option, and no other', () => {
  const limits = known(() => local({ limits: { 'no such option': 1 } })).map(name => `limits.${name}`);
  const ofLocal = known(({ provider, ...options }) => local(options)).filter(name => name !== 'limits');
  assert.deepEqual(named('### `local(options)`'), [...ofLocal, ...limits].sort());
  assert.deepEqual(named('### `e2b(options)`'), known(({ provider, ...options }) => e2b(options)).sort());
  const common = named('### `createMastraWorkspace(options)`');
  assert.deepEqual(common, known(createSandbox).sort());
  const more = named('Those of `createMastraWorkspace()`');
  assert.deepEqual([...common, ...more].sort(), known(createMastraWorkspace).sort());
  assert.deepEqual(more.filter(name => !['filesystem', 'workspace'].includes(name)).concat(common).sort(), known(createMastraSandbox).sort());
});

test('the table of capabilities is what the providers answer', () => {
  const [table] = /\| name \| Local \| E2B \|\n(?:\|.*\n)+/.exec(readme);
  const rows = table.trim().split('\n').slice(2).map(line => line.split('|').slice(1, 4).map(cell => cell.trim()));
  const promised = at =>
    Object.fromEntries(rows.flatMap(row => [...row[0].matchAll(/`(\w+)`/g)].map(([, name]) => [name, /^\w+/.exec(row[at])[0]])));
  const answered = provider => Object.fromEntries(provider.capabilityList().map(({ name, mode }) => [name, mode]));
  assert.deepEqual(promised(1), answered(local()));
  // "computer" has two rows where the template has a desktop; the first holds
  const desktop = e2b({ apiKey: fake.apiKey, template: 'desktop' });
  assert.deepEqual(promised(2), { ...answered(desktop), computer: 'emulated' });
});

test('links within the page lead to a heading', () => {
  const anchors = [...readme.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading.toLowerCase().replace(/[^\w\- ]/g, '').replaceAll(' ', '-'),
  );
  for (const [, anchor] of readme.matchAll(/\]\(#([\w-]+)\)/g)) assert.ok(anchors.includes(anchor), `#${anchor}`);
});
