// The Local provider: real processes of this machine, isolated by its kernel.
import { homedir, tmpdir } from 'node:os';
import { resolve } from 'node:path';

import { invalid } from './errors.js';
import { checkLimits } from './limits.js';
import { checkNetwork } from './network.js';
import {
  checkAbsolute,
  checkEnv,
  checkNames,
  checkObject,
  checkOneOf,
  checkPorts,
  checkString,
  checkStrings,
  show,
} from './options.js';
import { Provider } from './provider.js';

const isolations = ['auto', 'full', 'landlock', 'none'];
const names = [
  'directory',
  'root',
  'isolation',
  'network',
  'readOnlyPaths',
  'readWritePaths',
  'env',
  'ports',
  'shell',
  'limits',
  'protect',
];

function checkProtect(value, directory) {
  const list = checkStrings(value, 'protect');
  if (list?.length > 0 && directory === undefined) {
    throw invalid('protect is for files of a given directory; leave it out, or give the directory');
  }
  for (const path of list ?? []) {
    if (path !== '' && !path.split('/').some(part => part === '' || part === '.' || part === '..')) continue;
    throw invalid(`protect wants paths relative to the directory, such as ".git/hooks", not ${show(path)}`);
  }
  return list;
}

function checkAbsolutes(value, name) {
  const list = checkStrings(value, name);
  list?.forEach(path => checkAbsolute(path, `each item of ${name}`));
  return list;
}

// A relative one is meant from where Node runs.
function checkFolder(value, name) {
  if (checkString(value, name) === undefined) return undefined;
  if (value === '') throw invalid(`${name} must not be empty`);
  return resolve(value);
}

function hostFacts() {
  return {
    path: process.env.PATH ?? '',
    home: process.env.HOME ?? homedir(),
    execPath: process.execPath,
    tmpdir: tmpdir(),
  };
}

/** The provider for sandboxes on this machine. See local.d.ts for the options. */
export function local(options) {
  const given = checkObject(options, 'the options of local()');
  if (given.agentOs !== undefined) {
    throw invalid(
      'local() has no agentOs: its sandbox is made of processes, not of an AgentOS machine. ' +
        'Use `network` for what that allowed to be reached and `limits` for its resources.',
    );
  }
  checkNames(given, names, 'local()');
  return new Provider('local', {
    options: {
      directory: checkFolder(given.directory, 'directory'),
      root: checkFolder(given.root, 'root'),
      isolation: checkOneOf(given.isolation, isolations, 'isolation'),
      network: checkNetwork(given.network),
      readOnlyPaths: checkAbsolutes(given.readOnlyPaths, 'readOnlyPaths'),
      readWritePaths: checkAbsolutes(given.readWritePaths, 'readWritePaths'),
      shell: checkAbsolute(given.shell, 'shell'),
      limits: checkLimits(given.limits),
      protect: checkProtect(given.protect, given.directory),
    },
    env: checkEnv(given.env),
    ports: checkPorts(given.ports),
    hostFacts,
  });
}
