// The agent inside a sandbox, port 49983: who may call it, and what.
import { users } from '../machine.js';
import { answerError, answerUnary, parseMessage, readEnvelopes, RpcError, Stream } from './connect.js';
import { compose, download, FileError, upload } from './files.js';
import { Files } from './filesystem.js';

const streaming = new Set(['Process/Start', 'Process/Connect', 'Filesystem/WatchDir']);

// method -> [the version that brought it, the call]
const unary = {
  'Filesystem/Stat': ['0.0.0', (sandbox, message, user) => new Files(sandbox).stat(message, user)],
  'Filesystem/ListDir': ['0.0.0', (sandbox, message, user) => new Files(sandbox).listDir(message, user)],
  'Filesystem/MakeDir': ['0.0.0', (sandbox, message, user) => new Files(sandbox).makeDir(message, user)],
  'Filesystem/Move': ['0.0.0', (sandbox, message, user) => new Files(sandbox).move(message, user)],
  'Filesystem/Remove': ['0.0.0', (sandbox, message, user) => new Files(sandbox).remove(message, user)],
  'Filesystem/CreateWatcher': ['0.1.2', (sandbox, message, user) => sandbox.watchers.create(message, user)],
  'Filesystem/GetWatcherEvents': ['0.1.2', (sandbox, message) => sandbox.watchers.drain(message)],
  'Filesystem/RemoveWatcher': ['0.1.2', (sandbox, message) => sandbox.watchers.remove(message)],
  'Process/List': ['0.0.0', (sandbox) => sandbox.processes.list()],
  'Process/SendInput': ['0.0.0', (sandbox, message) => sandbox.processes.sendInput(message)],
  'Process/CloseStdin': ['0.5.2', (sandbox, message) => sandbox.processes.closeStdin(message)],
  'Process/SendSignal': ['0.0.0', (sandbox, message) => sandbox.processes.sendSignal(message)],
  'Process/Update': ['0.0.0', (sandbox, message) => sandbox.processes.update(message)],
};

function methodOf(path) {
  return /^\/(?:filesystem|process)\.((?:Filesystem|Process)\/\w+)$/.exec(path)?.[1];
}

/** The user whom the call names, else envd's default. */
function userOf(sandbox, request, method) {
  const actsAsUser = method.startsWith('Filesystem/') || method === 'Process/Start';
  const header = request.headers.authorization;
  if (!header && actsAsUser && !sandbox.has('0.4.0'))
    throw new RpcError('unauthenticated', 'no user specified');
  if (!header) return 'user';
  const [name] = Buffer.from(header.replace(/^Basic /, ''), 'base64').toString().split(':');
  if (!Object.hasOwn(users, name)) throw new RpcError('unauthenticated', `invalid username: '${name}'`);
  return name;
}

function isOpen(request) {
  if (request.path === '/health') return request.method === 'GET';
  return request.path === '/files' && request.method !== 'PUT';
}

function unauthorized(answer) {
  answer.json(401, {
    code: 401,
    message: 'unauthorized access, please provide a valid access token or method signing if supported',
  });
}

function wantsGzip(sandbox, request) {
  return sandbox.has('0.5.3') && /\bgzip\b/.test(request.headers['accept-encoding'] ?? '');
}

function checkProtocol(request) {
  const version = request.headers['connect-protocol-version'];
  if (version !== undefined && version !== '1')
    throw new RpcError('invalid_argument', `connect-protocol-version must be "1": got "${version}"`);
}

function wrongType(answer, accepted) {
  answer.send(415, { 'accept-post': accepted, 'content-length': 0 });
}

async function callUnary(sandbox, request, answer, method) {
  const { options } = sandbox.store;
  if (!/^application\/json\b/.test(request.headers['content-type'] ?? ''))
    return wrongType(answer, 'application/json, application/proto');
  try {
    checkProtocol(request);
    const message = parseMessage(request.body);
    const value = await unary[method][1](sandbox, message, userOf(sandbox, request, method));
    answerUnary(answer, value, { gzip: wantsGzip(sandbox, request), spaces: options.spaces });
  } catch (error) {
    answerError(answer, error, options);
  }
}

// Once the handler of a stream runs, every failure is its last frame.
function failStream(sandbox, answer, error) {
  const stream = [...sandbox.streams].find((one) => one.answer === answer);
  (stream ?? new Stream(answer, sandbox.store.options)).end(error);
}

function oneMessage(request) {
  const [first] = readEnvelopes(request.body);
  if (!first) throw new RpcError('invalid_argument', 'protocol error: incomplete envelope: unexpected EOF');
  return parseMessage(first.payload);
}

async function callStream(sandbox, request, answer, method) {
  if (!/^application\/connect\+json\b/.test(request.headers['content-type'] ?? ''))
    return wrongType(answer, 'application/connect+json, application/connect+proto');
  const { headers } = request;
  try {
    checkProtocol(request);
    const message = oneMessage(request);
    const user = userOf(sandbox, request, method);
    if (method === 'Process/Start') await sandbox.processes.start(answer, message, user, headers);
    else if (method === 'Process/Connect') sandbox.processes.connect(answer, message, headers);
    else await sandbox.watchers.stream(answer, message, user, headers);
  } catch (error) {
    failStream(sandbox, answer, error);
  }
}

async function callClientStream(sandbox, request, answer) {
  try {
    const messages = readEnvelopes(request.body).map((one) => parseMessage(one.payload));
    const value = await sandbox.processes.streamInput(messages);
    const stream = new Stream(answer, sandbox.store.options);
    stream.send(value);
    stream.end();
  } catch (error) {
    failStream(sandbox, answer, error);
  }
}

async function callFiles(sandbox, request, answer, run) {
  try {
    await run(sandbox, request, answer);
  } catch (error) {
    const status = error instanceof FileError ? error.status : 500;
    const body = Buffer.from(`${JSON.stringify({ code: status, message: error.message })}\n`);
    answer.send(
      status,
      { 'content-type': 'application/json', 'x-content-type-options': 'nosniff', 'content-length': body.length },
      body,
    );
  }
}

function metrics(sandbox) {
  return { ts: Math.floor(sandbox.store.now() / 1000), cpu_count: 2, cpu_used_pct: 1, mem_total: 512 << 20, mem_used: 64 << 20 };
}

async function plain(sandbox, request, answer) {
  const { method, path } = request;
  if (path === '/health' && method === 'GET') return answer.send(204, {});
  if (path === '/files' && (method === 'GET' || method === 'HEAD')) return callFiles(sandbox, request, answer, download);
  if (path === '/files' && method === 'POST') return callFiles(sandbox, request, answer, upload);
  if (path === '/files/compose' && method === 'POST' && sandbox.has('0.5.5'))
    return callFiles(sandbox, request, answer, compose);
  if (path === '/metrics' && method === 'GET') return answer.json(200, metrics(sandbox));
  if (path === '/envs' && method === 'GET') return answer.json(200, sandbox.envVars);
  return answer.text(404, '404 page not found\n');
}

/** Answers one request to envd. */
export async function envd(sandbox, request, answer) {
  if (sandbox.token && !isOpen(request) && request.headers['x-access-token'] !== sandbox.token)
    return unauthorized(answer);
  const method = methodOf(request.path);
  const known = method && (streaming.has(method) || method === 'Process/StreamInput' || unary[method]);
  if (!known) return plain(sandbox, request, answer);
  if (request.method !== 'POST') return answer.send(405, { allow: 'POST', 'content-length': 0 });
  if (unary[method] && !sandbox.has(unary[method][0])) return answer.text(404, '404 page not found\n');
  if (method === 'Process/StreamInput') return callClientStream(sandbox, request, answer);
  if (streaming.has(method)) return callStream(sandbox, request, answer, method);
  return callUnary(sandbox, request, answer, method);
}
