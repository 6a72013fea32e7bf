// Builds the addon against the headers of the Node that runs this script.
//   node .ci/build.js [--release] [--sanitize=LIST]
// --release also puts a stripped copy into prebuilds/.
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const release = process.argv.includes('--release');
const sanitize = process.argv.find((arg) => arg.startsWith('--sanitize='));
const env = { ...process.env };

// node-gyp lets a user's own `nodedir` setting win over its --nodedir flag;
// this variable wins over both. Node's own tarballs carry their headers.
const prefix = path.dirname(path.dirname(process.execPath));
if (existsSync(path.join(prefix, 'include/node/node_api.h'))) {
  env.npm_package_config_node_gyp_nodedir = prefix;
}

const gyp = createRequire(import.meta.url).resolve('node-gyp/bin/node-gyp.js');

function nodeGyp(...args) {
  const run = spawnSync(process.execPath, [gyp, ...args], {
    cwd: root,
    env,
    encoding: 'utf8',
    maxBuffer: 64 << 20,
  });
  if (run.status === 0) return run.stdout + run.stderr;
  process.stderr.write(run.stdout + run.stderr);
  console.error(`build: node-gyp ${args[0]} failed`);
  process.exit(1);
}

// The addon embeds the launcher; make does not see that an assembler file reads
// another file.
function buildLauncher() {
  const launcher = path.join(root, 'build/launcher/sbx-launcher');
  const sources = [
    ...readdirSync(path.join(root, 'native/launcher')).map((name) => `native/launcher/${name}`),
    'native/launcher/preload/memory.c',
    'native/remove.c',
    'native/remove.h',
    '.ci/build-launcher',
  ];
  const changed = (file) => statSync(path.join(root, file)).mtimeMs;
  if (existsSync(launcher) && statSync(launcher).mtimeMs > Math.max(...sources.map(changed))) return;
  const run = spawnSync('sh', ['.ci/build-launcher', launcher], { cwd: root, stdio: 'inherit' });
  if (run.status !== 0) process.exit(1);
  rmSync(path.join(root, 'build/Release/obj.target/addon/native/session/launcher_blob.o'), { force: true });
}

// The same for the shell programs of the remote kit.
function renewScripts() {
  const object = path.join(root, 'build/Release/obj.target/addon/providers/kit/scripts.o');
  const scripts = readdirSync(path.join(root, 'providers/kit/shell')).map((name) => path.join(root, 'providers/kit/shell', name));
  const newest = Math.max(...scripts.map((file) => statSync(file).mtimeMs));
  if (existsSync(object) && statSync(object).mtimeMs < newest) rmSync(object);
}

function fetchDeps() {
  const run = spawnSync('bash', ['.ci/fetch-deps'], { cwd: root, stdio: 'inherit' });
  if (run.status !== 0) process.exit(1);
}

// What lies in the binaries besides our own code: its licences go with them.
function writeLicenses(file) {
  const require = createRequire(import.meta.url);
  const doc = ['/usr/share/doc/libc6-dev/copyright', '/usr/share/common-licenses/LGPL-2.1'];
  const parts = [
    ['cJSON, in addon.node', path.join(root, 'build/deps/cjson/LICENSE')],
    ['wslay, in addon.node', path.join(root, 'build/deps/wslay/COPYING')],
    [
      'node-addon-api, in addon.node',
      path.join(path.dirname(require.resolve('node-addon-api')), 'LICENSE.md'),
    ],
    [
      'GNU C Library, linked statically into the launcher that addon.node carries.\n' +
        "The launcher's source and the script that links it (.ci/build-launcher) are in\n" +
        "this package's source repository: it can be linked again with another version",
      ...doc.filter(existsSync),
    ],
  ];
  const rule = '='.repeat(78);
  const text = parts.map(([title, ...files]) => {
    const licenses = files.map((name) => readFileSync(name, 'utf8').trim());
    return [rule, title, rule, '', licenses.join(`\n\n${'-'.repeat(78)}\n\n`), ''].join('\n');
  });
  writeFileSync(
    file,
    `The prebuilt binaries in this folder hold code of others, under these terms.\n\n${text.join('\n')}`,
  );
}

fetchDeps();
buildLauncher();
renewScripts();
nodeGyp('configure', '--silent', ...(sanitize ? ['--', `-D${sanitize.slice(2)}`] : []));
const output = nodeGyp('build', '--jobs', '2', '--loglevel=warn');
const warnings = output.split('\n').filter((line) => /\bwarning:/.test(line));
if (warnings.length) console.error(warnings.join('\n'));

const addon = path.join(root, 'build/Release/addon.node');
if (release) {
  const folder = path.join(root, `prebuilds/linux-${process.arch}-glibc`);
  mkdirSync(folder, { recursive: true });
  const target = path.join(folder, 'addon.node');
  copyFileSync(addon, target);
  spawnSync('strip', ['--strip-unneeded', target]);
  writeLicenses(path.join(root, 'prebuilds/THIRD_PARTY_LICENSES'));
}
