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
      'network "allow" shares the machine\u2019s network, which is decided when the sandbox is made: ' +
        'give it to local() and make a new sandbox, or name the hosts here.',
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

/** The URL of a declared port of a sandbox that runs, without a slash at the end. */
export async function portUrl(lease, port, protocol) {
  try {
    const { host, port: outside } = await lease.native.expose(port);
    return `${protocol}://${host}:${outside}`;
  } catch (error) {
    throw fromNative(error, lease.provider.name);
  }
}

/** What ports.expose() gives: { url, request(path, init) }. */
export function exposedPort(url) {
  return Object.freeze({
    url,
    // A redirect is an answer of the sandbox, which must not choose what this
    // process connects to.
    request: (path = '/', init = undefined) => fetch(checkTarget(url, path), { redirect: 'manual', ...init }),
  });
}

function checkTarget(url, path) {
  if (checkString(path, 'path') === undefined || !path.startsWith('/')) {
    throw invalid(`path must begin with "/", not be ${show(path)}`, 'request');
  }
  return url + path;
}
