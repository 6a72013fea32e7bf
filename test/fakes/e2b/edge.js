// The edge in front of the sandboxes: which sandbox and port a request means,
// and what it says when that is not there.
import { request as httpRequest } from 'node:http';
import { envd } from './envd.js';

const reserved = new Set(['/init', '/freeze', '/unfreeze', '/collapse', '/fsfreeze', '/fsthaw']);

/** -> { id, port }, { problem } or undefined: not for a sandbox. */
export function readTarget(headers) {
  const host = (headers.host ?? headers[':authority'] ?? '').replace(/:\d+$/, '');
  const plain = host === 'localhost' || host.startsWith('sandbox.') || /^[\d.]+$/.test(host) || host.startsWith('[');
  if (plain) {
    const id = headers['e2b-sandbox-id'];
    if (id === undefined) return host.startsWith('sandbox.') ? { problem: 'missing header' } : undefined;
    return checked(headers['e2b-sandbox-port'], id);
  }
  const [port, id] = host.split('.')[0].split('-');
  if (id === undefined || !/^\d+$/.test(port)) return undefined;
  return checked(port, id);
}

function checked(port, id) {
  if (port === undefined) return { problem: 'missing header' };
  if (!/^[a-z0-9]+$/.test(id)) return { problem: 'Invalid sandbox ID' };
  const number = Number(port);
  if (!Number.isInteger(number) || number < 1 || number > 65535) return { problem: 'Invalid sandbox port' };
  return { id, port: number };
}

function wantsPage(request) {
  const agent = request.headers['user-agent'] ?? '';
  return /mozilla|chrome|safari|firefox|edge|opera|msie/i.test(agent) && !/json/.test(request.headers.accept ?? '');
}

function refuse(request, answer, status, value) {
  const body = { ...value, code: status };
  if (!wantsPage(request)) return answer.json(status, body);
  const page = Buffer.from(`<!DOCTYPE html>\n<html><body><h1>${status}</h1><p>${value.message}</p></body></html>\n`);
  answer.send(status, { 'content-type': 'text/html; charset=utf-8', 'content-length': page.length }, page);
}

function trafficProblem(sandbox, headers) {
  if (!sandbox.trafficToken) return undefined;
  const name = 'e2b-traffic-access-token';
  const given = headers[name];
  if (given === undefined) return `Sandbox is secured with traffic access token. Token header '${name}' is missing`;
  if (given !== sandbox.trafficToken)
    return `Sandbox is secured with traffic access token. Provided token in header '${name}' is invalid`;
  return undefined;
}

// Traffic wakes a sandbox that was made so, if it may pass at all.
async function wake(store, sandbox, request, port) {
  if (sandbox.state !== 'paused' || !sandbox.resumesItself) return undefined;
  const allowed =
    port === 49983
      ? !sandbox.token || request.headers['x-access-token'] === sandbox.token
      : !trafficProblem(sandbox, request.headers);
  if (!allowed) return "The sandbox can't be resumed with the credentials provided";
  await store.resume(sandbox, sandbox.body.timeout ?? 300);
  return undefined;
}

function forwarded(request) {
  const headers = { ...request.headers };
  for (const name of Object.keys(headers)) if (name.startsWith(':')) delete headers[name];
  return { ...headers, host: request.headers.host ?? request.headers[':authority'] };
}

async function passOn(sandbox, request, answer, port) {
  const closed = { sandboxId: sandbox.id, message: 'The sandbox is running but port is not open', port };
  const socket = await sandbox.machine.dial(port);
  if (!socket) return refuse(request, answer, 502, closed);
  const headers = forwarded(request);
  delete headers['transfer-encoding'];
  headers['content-length'] = request.body.length;
  headers.connection = 'close';
  await new Promise((resolve) => {
    const onward = httpRequest({ method: request.method, path: request.url, headers, createConnection: () => socket });
    onward.on('response', async (response) => {
      const kept = { ...response.headers };
      delete kept.connection;
      delete kept['transfer-encoding'];
      answer.head(response.statusCode, kept);
      for await (const data of response) if (!answer.write(data)) await answer.ready();
      answer.end();
      resolve();
    });
    onward.on('error', () => {
      refuse(request, answer, 502, closed);
      resolve();
    });
    answer.onClose(() => socket.destroy());
    onward.end(request.body);
  });
}

/** Answers a request for a sandbox, whatever its port. */
export async function edge(store, request, answer, target) {
  if (target.problem) return answer.text(400, target.problem);
  const { id, port } = target;
  const sandbox = store.get(id);
  const missing = { sandboxId: id, message: 'The sandbox was not found' };
  if (!sandbox || sandbox.state === 'starting') return refuse(request, answer, 502, missing);
  if (port === 49983 && reserved.has(request.path)) {
    const message = 'This endpoint is reserved for the E2B control plane and is not reachable through the sandbox URL';
    return refuse(request, answer, 404, { message, path: request.path });
  }
  const problem = await wake(store, sandbox, request, port);
  if (problem) return refuse(request, answer, 403, { sandboxId: id, message: problem });
  if (sandbox.state === 'pausing' || sandbox.state === 'resuming')
    return refuse(request, answer, 409, { sandboxId: id, message: 'The sandbox is still transitioning. Try again in a moment.' });
  if (sandbox.state !== 'running') return refuse(request, answer, 502, missing);
  if (port === 49983) return envd(sandbox, request, answer);
  const wrong = trafficProblem(sandbox, request.headers);
  if (wrong) return refuse(request, answer, 403, { sandboxId: id, message: wrong });
  return passOn(sandbox, request, answer, port);
}

/** A WebSocket or another upgrade to a port: bytes both ways. */
export async function edgeUpgrade(store, request, socket, head) {
  const target = readTarget(request.headers);
  const sandbox = target && store.get(target.id);
  const allowed = sandbox?.state === 'running' && !trafficProblem(sandbox, request.headers);
  const inner = allowed && (await sandbox.machine.dial(target.port));
  if (!inner) return socket.end('HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
  const lines = [`${request.method} ${request.url} HTTP/1.1`];
  for (let i = 0; i < request.rawHeaders.length; i += 2) lines.push(`${request.rawHeaders[i]}: ${request.rawHeaders[i + 1]}`);
  inner.write(`${lines.join('\r\n')}\r\n\r\n`);
  inner.write(head);
  socket.on('error', () => inner.destroy());
  socket.on('close', () => inner.destroy());
  inner.on('close', () => socket.destroy());
  socket.pipe(inner);
  inner.pipe(socket);
}
