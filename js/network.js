// The network policy as users write it, ports as URLs, and denials as events.
import { fromNative, invalid, unsupported } from './errors.js';
import { checkNames, checkObject, checkPort, checkString, checkStrings, show } from './options.js';

/** "deny", "allow" or an array of hosts; { allow: [...] } is that array. */
export function checkNetwork(value, name = 'network') {
  if (value === undefined || value === 'deny' || value === 'allow') return value;
  if (Array.isArray(value)) return checkStrings(value, name);
  if (value === null || typeof value !== 'object') {
    throw invalid(`${name} must be "deny", "allow" or an array of host names, not ${show(value)}`);
  }
  checkNames(checkObject(value, name), ['allow'], name);
  return checkStrings(value.allow, `${name}.allow`) ?? [];
}

/** The hosts of a policy that is set while the sandbox runs. */
export function hostsOfPolicy(policy) {
  const checked = checkNetwork(policy, 'the network policy');
  if (checked === undefined) throw invalid('setNetworkPolicy wants "deny" or a list of hosts');
  if (checked === 'allow') {
    throw unsupported(
      'network "allow" is decided when the sandbox is made: ' +
        'give it to the provider and make a new sandbox, or name the hosts here.',
      'setNetworkPolicy',
    );
  }
  return checked === 'deny' ? [] : checked;
}

/** Throws for a port that is not among the declared ones. */
export function checkDeclared(lease, port, operation) {
  checkPort(port);
  const { ports } = lease.options;
  if (ports.includes(port)) return;
  const declared = ports.length > 0 ? `declared are ${ports.join(', ')}` : 'none is declared';
  throw invalid(`port ${port} is not declared (${declared}): add it to the ports option`, operation);
}

export function checkProtocol(value) {
  if (checkString(value, 'protocol') === undefined) return 'http';
  if (!/^[a-z][a-z0-9+.-]*$/.test(value)) {
    throw invalid(`protocol must be a URL scheme such as "http" or "ws", not ${show(value)}`);
  }
  return value;
}

async function reach(lease, port) {
  try {
    return await lease.native.expose(port);
  } catch (error) {
    throw fromNative(error, lease.provider.name);
  }
}

const secure = { http: 'https', ws: 'wss' };

/** The URL of a declared port of a sandbox that runs, without a slash at the end. */
export async function portUrl(lease, port, protocol) {
  const { host, port: outside, url } = await reach(lease, port);
  if (url === undefined) return `${protocol}://${host}:${outside}`;
  const [scheme, rest] = url.split('://');
  return `${scheme === 'https' ? (secure[protocol] ?? protocol) : protocol}://${rest}`;
}

// Node's fetch() keeps what it knows of an origin for ever, and each session has
// an origin of its own: with an agent of its own that goes with the session. Who
// set another kind of agent for the process (a proxy's) keeps that; who set one
// with options gives it in `init`.
function ownAgent() {
  void globalThis.Headers; // its getter loads undici, and with it the agent
  const at = version => globalThis[Symbol.for(`undici.globalDispatcher.${version}`)];
  const shared = at(2) ?? at(1);
  return shared?.constructor.name === 'Agent' ? { dispatcher: new shared.constructor() } : undefined;
}

/** What ports.expose() gives: { url, request(path, init) }. */
export async function exposedPort(lease, port) {
  const { host, port: outside, url = `http://${host}:${outside}`, header } = await reach(lease, port);
  let agent;
  return Object.freeze({
    url,
    // A redirect is an answer of the sandbox, which must not choose what this
    // process connects to.
    request: (path = '/', init = undefined) =>
      fetch(checkTarget(url, path), {
        redirect: 'manual',
        ...(agent ??= ownAgent()),
        ...init,
        ...withHeader(init, header),
      }),
  });
}

// What the service wants to see, such as a token; the caller's own come first.
function withHeader(init, header) {
  if (header === undefined) return undefined;
  const colon = header.indexOf(':');
  const headers = new Headers(init?.headers);
  const name = header.slice(0, colon);
  if (!headers.has(name)) headers.set(name, header.slice(colon + 1).trim());
  return { headers };
}

function checkTarget(url, path) {
  if (checkString(path, 'path') === undefined || !path.startsWith('/')) {
    throw invalid(`path must begin with "/", not be ${show(path)}`, 'request');
  }
  return url + path;
}
