// The E2B provider: sandboxes at https://e2b.dev, spoken to by the addon itself.
import { Computer } from './computer.js';
import { invalid } from './errors.js';
import { checkNetwork } from './network.js';
import {
  checkBoolean,
  checkEnv,
  checkNames,
  checkObject,
  checkPorts,
  checkString,
  checkStrings,
  checkTimeout,
  show,
} from './options.js';
import { Provider } from './provider.js';
import { Secret } from './secret.js';

const names = [
  'apiKey',
  'template',
  'timeout',
  'domain',
  'apiUrl',
  'sandboxUrl',
  'secure',
  'metadata',
  'autoPause',
  'network',
  'user',
  'allowInternetAccess',
  'requestTimeout',
  'templateMode',
  'computer',
  'env',
  'ports',
];
const variables = ['E2B_API_KEY', 'E2B_DOMAIN', 'E2B_API_URL', 'E2B_SANDBOX_URL', 'E2B_DEBUG'];
const ofService = ['allowOut', 'denyOut', 'allowPublicTraffic', 'maskRequestHost'];

// ours ("deny", "allow", a list of hosts, { allow }) or E2B's own object
function checkPolicy(value) {
  const own = value !== null && typeof value === 'object' && !Array.isArray(value) ? ofService.filter(name => name in value) : [];
  if (own.length === 0) return checkNetwork(value);
  checkNames(value, ['allow', ...ofService], 'network');
  if (value.allow !== undefined && (value.allowOut !== undefined || value.denyOut !== undefined)) {
    throw invalid('network has both "allow" and E2B\u2019s own allowOut or denyOut; leave one of them out');
  }
  return {
    allow: checkStrings(value.allow, 'network.allow'),
    allowOut: checkStrings(value.allowOut, 'network.allowOut'),
    denyOut: checkStrings(value.denyOut, 'network.denyOut'),
    allowPublicTraffic: checkBoolean(value.allowPublicTraffic, 'network.allowPublicTraffic'),
    maskRequestHost: checkString(value.maskRequestHost, 'network.maskRequestHost'),
  };
}

function checkLifetime(value) {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && value > 0 && Number.isFinite(value)) return value;
  throw invalid(
    `timeout must be the sandbox\u2019s time in milliseconds, above 0, not ${show(value)}; ` +
      'use extends it, and autoPause keeps the sandbox afterwards',
  );
}

// As JSON, so that keys may hold any character.
function checkMetadata(value) {
  if (value === undefined) return undefined;
  const metadata = checkObject(value, 'metadata');
  for (const key of Object.keys(metadata)) {
    if (checkString(metadata[key], `metadata.${key}`) === undefined) throw invalid(`metadata.${key} must be a string`);
  }
  return JSON.stringify(metadata);
}

// A function that gives the key is asked before the first request; so is the
// environment where it has none yet: modules load before a .env file does.
function laterKey(value, env) {
  if (value === undefined) return { ask: () => env.E2B_API_KEY, name: 'apiKey', waits: true };
  if (typeof value === 'function') return { ask: value, name: 'apiKey' };
  if (typeof value === 'string') return undefined;
  throw invalid(`apiKey must be a string, or a function that gives one, not ${show(value)}`);
}

function checkTemplateMode(value) {
  if (value === undefined || value === 'archive' || value === 'snapshot') return value;
  throw invalid(`templateMode must be "archive" or "snapshot", not ${show(value)}`);
}

function checkRequestTimeout(value) {
  return value === undefined ? undefined : checkTimeout(value, 'requestTimeout');
}

/** @internal e2b() with the variables of `env`. */
export function e2bIn(options, env) {
  const given = checkObject(options, 'the options of e2b()');
  checkNames(given, names, 'e2b()');
  const later = laterKey(given.apiKey, env);
  const secret = later && new Secret(later, 'e2b');
  const computer = checkBoolean(given.computer, 'computer') ?? given.template === 'desktop';
  return new Provider('e2b', {
    remote: true,
    secret,
    computer: computer ? Computer : undefined,
    templateMode: checkTemplateMode(given.templateMode),
    options: {
      apiKey: secret ? undefined : checkString(given.apiKey, 'apiKey'),
      computer,
      template: checkString(given.template, 'template'),
      timeout: checkLifetime(given.timeout),
      domain: checkString(given.domain, 'domain'),
      apiUrl: checkString(given.apiUrl, 'apiUrl'),
      sandboxUrl: checkString(given.sandboxUrl, 'sandboxUrl'),
      secure: checkBoolean(given.secure, 'secure'),
      metadata: checkMetadata(given.metadata),
      autoPause: checkBoolean(given.autoPause, 'autoPause'),
      network: checkPolicy(given.network),
      user: checkString(given.user, 'user'),
      allowInternetAccess: checkBoolean(given.allowInternetAccess, 'allowInternetAccess'),
      requestTimeout: checkRequestTimeout(given.requestTimeout),
    },
    env: checkEnv(given.env),
    ports: checkPorts(given.ports),
    // Read when a sandbox is opened, so that it may be set after this module loads.
    hostFacts: () => Object.fromEntries(variables.map(name => [name, env[name]])),
  });
}

/** The provider for sandboxes at E2B. See e2b.d.ts for the options. */
export function e2b(options) {
  return e2bIn(options, process.env);
}
