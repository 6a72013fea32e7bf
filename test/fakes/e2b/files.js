// envd's plain HTTP: uploads, downloads, compose, signed URLs.
import { createHash, timingSafeEqual } from 'node:crypto';
import * as fs from 'node:fs';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip, gunzipSync } from 'node:zlib';
import { chown, users } from '../machine.js';
import { errnoText, expandPath, Files } from './filesystem.js';

const types = {
  '.txt': 'text/plain; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.svg': 'image/svg+xml',
  '.pdf': 'application/pdf',
};

export class FileError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function sameText(a, b) {
  const left = createHash('sha256').update(a).digest();
  return timingSafeEqual(left, createHash('sha256').update(b).digest());
}

/** The signature of a path, an operation, a user and perhaps an expiry. */
export function sign({ path: name, operation, user, token, expiration }) {
  const parts = [name, operation, user, token];
  if (expiration !== undefined) parts.push(expiration);
  return `v1_${createHash('sha256').update(parts.join(':')).digest('base64').replace(/=+$/, '')}`;
}

function checkSignature(sandbox, query, operation) {
  const signature = query.get('signature');
  if (!signature) throw new FileError(401, 'missing signature query parameter');
  const expiration = query.get('signature_expiration') ?? undefined;
  const right = sign({
    path: query.get('path') ?? '',
    operation,
    user: query.get('username') ?? '',
    token: sandbox.token,
    expiration,
  });
  if (!sameText(signature, right)) throw new FileError(401, 'invalid signature');
  if (expiration !== undefined && Number(expiration) * 1000 < sandbox.store.now())
    throw new FileError(401, 'signature is already expired');
}

function authorize(sandbox, request, operation) {
  if (!sandbox.token) return;
  const given = request.headers['x-access-token'];
  if (given === undefined) checkSignature(sandbox, request.query, operation);
  else if (!sameText(given, sandbox.token)) throw new FileError(401, 'access token present in header but does not match');
}

function userOf(sandbox, request) {
  const name = request.query.get('username');
  if (!name && !sandbox.has('0.4.0')) throw new FileError(400, 'Query argument username is required, but not found');
  const user = name || 'user';
  if (!Object.hasOwn(users, user)) throw new FileError(401, `error looking up user '${user}': user: unknown user ${user}`);
  return user;
}

function expand(wanted, user) {
  try {
    return expandPath(wanted, user);
  } catch (error) {
    throw new FileError(400, `error resolving path: ${error.message}`);
  }
}

// ---- download ----

function contentType(name, host) {
  const known = types[path.extname(name).toLowerCase()];
  if (known) return known;
  const start = Buffer.alloc(512);
  const fd = fs.openSync(host, 'r');
  const length = fs.readSync(fd, start, 0, 512, 0);
  fs.closeSync(fd);
  return start.subarray(0, length).some((byte) => byte < 9 || (byte > 13 && byte < 32 && byte !== 27))
    ? 'application/octet-stream'
    : 'text/plain; charset=utf-8';
}

/** -> undefined (all of it), null (no such range) or { start, end }. */
function readRange(text, size) {
  const found = /^bytes=(\d*)-(\d*)$/.exec(text ?? '');
  if (!found || (!found[1] && !found[2])) return undefined;
  if (!found[1]) return { start: Math.max(0, size - Number(found[2])), end: size - 1 };
  const start = Number(found[1]);
  const end = found[2] ? Math.min(Number(found[2]), size - 1) : size - 1;
  return start >= size || start > end ? null : { start, end };
}

// -> 'gzip', 'identity' or undefined: nothing that the client takes.
function encodingFor(sandbox, header) {
  if (!header || !sandbox.has('0.5.3')) return 'identity';
  const wants = new Map(
    header.split(',').map((one) => {
      const [name, weight] = one.trim().split(/;\s*q=/);
      return [name.toLowerCase(), weight === undefined ? 1 : Number(weight)];
    }),
  );
  if (wants.get('gzip') > 0) return 'gzip';
  return (wants.get('identity') ?? wants.get('*') ?? 1) > 0 ? 'identity' : undefined;
}

async function pump(answer, stream) {
  for await (const data of stream) {
    if (answer.gone) return stream.destroy();
    if (!answer.write(data)) await answer.ready();
  }
  answer.end();
}

async function sendFile(sandbox, request, answer, name, host, stat) {
  const encoding = encodingFor(sandbox, request.headers['accept-encoding']);
  if (!encoding) throw new FileError(406, 'no acceptable encoding found, supported: [identity, gzip]');
  const headers = {
    'accept-ranges': 'bytes',
    'content-disposition': `inline; filename=${path.basename(name)}`,
    'content-type': contentType(name, host),
    'last-modified': stat.mtime.toUTCString(),
    vary: 'Accept-Encoding',
    'x-content-type-options': 'nosniff',
  };
  const since = Date.parse(request.headers['if-modified-since'] ?? '');
  if (since >= Math.floor(stat.mtimeMs / 1000) * 1000) return answer.send(304, { 'last-modified': headers['last-modified'] });
  if (encoding === 'gzip') {
    answer.head(200, { ...headers, 'content-encoding': 'gzip' });
    return pump(answer, fs.createReadStream(host).pipe(createGzip()));
  }
  const range = readRange(request.headers.range, stat.size);
  if (range === null) {
    return answer.send(416, { ...headers, 'content-range': `bytes */${stat.size}` }, Buffer.from('invalid range: failed to overlap\n'));
  }
  const length = range ? range.end - range.start + 1 : stat.size;
  if (range) headers['content-range'] = `bytes ${range.start}-${range.end}/${stat.size}`;
  answer.head(range ? 206 : 200, { ...headers, 'content-length': length });
  if (!length || request.method === 'HEAD') return answer.end();
  return pump(answer, fs.createReadStream(host, range));
}

export async function download(sandbox, request, answer) {
  authorize(sandbox, request, 'read');
  const user = userOf(sandbox, request);
  const name = expand(request.query.get('path'), user);
  const files = new Files(sandbox);
  let host;
  let stat;
  try {
    host = files.locate(name).host;
    stat = fs.statSync(host);
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') throw new FileError(404, `path '${name}' does not exist`);
    throw new FileError(500, `error opening file '${name}': ${errnoText(error)}`);
  }
  if (stat.isDirectory()) throw new FileError(400, `path '${name}' is a directory`);
  if (!stat.isFile()) throw new FileError(400, `path '${name}' is not a regular file`);
  await sendFile(sandbox, request, answer, name, host, stat);
}

// ---- upload ----

function metadataOf(sandbox, request) {
  const found = {};
  if (!sandbox.has('0.6.2')) return found;
  for (const [name, value] of Object.entries(request.headers)) {
    if (!name.startsWith('x-metadata-')) continue;
    if (!/^[\x20-\x7e]*$/.test(value)) throw new FileError(400, `invalid metadata: value of ${name} is not printable`);
    found[name.slice('x-metadata-'.length)] = value;
  }
  return found;
}

function openTarget(sandbox, name, user) {
  const files = new Files(sandbox);
  try {
    files.makeParents(path.posix.dirname(name), user);
  } catch (error) {
    throw new FileError(500, `error ensuring directories: ${error.message}`);
  }
  const { inner, host } = files.locate(name);
  if (fs.statSync(host, { throwIfNoEntry: false })?.isDirectory()) throw new FileError(400, `path is a directory: ${name}`);
  if (!sandbox.machine.writable(inner)) throw new FileError(500, `error opening file: open ${name}: read-only file system`);
  try {
    const fd = fs.openSync(host, 'w', 0o644);
    chown(host, users[user].uid);
    return { fd, host };
  } catch (error) {
    throw new FileError(500, `error opening file: open ${name}: ${errnoText(error)}`);
  }
}

function describe(sandbox, name, host, metadata) {
  new Files(sandbox).setMetadata(host, metadata);
  const info = { name: path.posix.basename(name), path: name, type: 'file' };
  return Object.keys(metadata).length ? { ...info, metadata } : info;
}

function checkSpace(sandbox) {
  if (sandbox.full) throw new FileError(507, 'not enough disk space available');
}

async function uploadRaw(sandbox, request, user) {
  if (!request.query.get('path')) throw new FileError(400, 'path query parameter is required for raw body upload');
  const metadata = metadataOf(sandbox, request);
  const name = expand(request.query.get('path'), user);
  const { fd, host } = openTarget(sandbox, name, user);
  const zipped = request.headers['content-encoding'] === 'gzip' && sandbox.has('0.5.3');
  const sink = fs.createWriteStream('', { fd });
  try {
    await pipeline([request.stream, ...(zipped ? [createGunzip()] : []), sink]);
  } catch (error) {
    throw new FileError(error.code?.startsWith('Z_') ? 400 : 500, `error writing file: ${error.message}`);
  }
  return [describe(sandbox, name, host, metadata)];
}

function headerValue(text, name) {
  return new RegExp(`[;\\s]${name}="((?:[^"\\\\]|\\\\.)*)"`, 'i').exec(text)?.[1].replace(/\\(.)/g, '$1');
}

/** The parts of a multipart body -> [{ name, filename, data }]. */
export function readParts(body, boundary) {
  const mark = Buffer.from(`--${boundary}`);
  const parts = [];
  let at = body.indexOf(mark);
  while (at >= 0) {
    const start = at + mark.length;
    if (body.subarray(start, start + 2).toString() === '--') return parts;
    const end = body.indexOf(Buffer.concat([Buffer.from('\r\n'), mark]), start);
    const head = body.indexOf('\r\n\r\n', start);
    if (end < 0 || head < 0) break;
    const text = body.subarray(start, head).toString();
    const line = /content-disposition:[^\r]*/i.exec(text)?.[0] ?? '';
    parts.push({ name: headerValue(line, 'name'), filename: headerValue(line, 'filename'), data: body.subarray(head + 4, end) });
    at = end + 2;
  }
  throw new FileError(400, 'error parsing multipart form: unexpected EOF');
}

function uploadParts(sandbox, request, user) {
  const boundary = /boundary="?([^";]+)"?/.exec(request.headers['content-type'])?.[1];
  if (!boundary) throw new FileError(400, 'error parsing multipart form: no multipart boundary param in Content-Type');
  const zipped = request.headers['content-encoding'] === 'gzip' && sandbox.has('0.5.3');
  const body = zipped ? gunzipSync(request.body) : request.body;
  const parts = readParts(body, boundary).filter((part) => part.name === 'file');
  const metadata = metadataOf(sandbox, request);
  const seen = new Set();
  return parts.map((part) => {
    const name = expand(request.query.get('path') || part.filename, user);
    if (seen.has(name)) throw new FileError(400, `you cannot upload multiple files to the same path '${name}' in one request`);
    seen.add(name);
    const { fd, host } = openTarget(sandbox, name, user);
    fs.writeFileSync(fd, part.data);
    fs.closeSync(fd);
    return describe(sandbox, name, host, metadata);
  });
}

export async function upload(sandbox, request, answer) {
  authorize(sandbox, request, 'write');
  const user = userOf(sandbox, request);
  checkSpace(sandbox);
  const type = (request.headers['content-type'] ?? '').split(';')[0].trim().toLowerCase();
  const raw = type === 'application/octet-stream' && sandbox.has('0.5.7');
  if (!raw && type !== 'multipart/form-data') {
    throw new FileError(400, `unsupported content type: ${type}, expected multipart/form-data or application/octet-stream`);
  }
  const list = raw ? await uploadRaw(sandbox, request, user) : uploadParts(sandbox, request, user);
  const body = Buffer.from(JSON.stringify(list));
  answer.send(200, { 'content-type': 'text/plain; charset=utf-8', 'content-length': body.length }, body);
}

// ---- compose ----

export function compose(sandbox, request, answer) {
  const message = JSON.parse(request.body.toString() || '{}');
  const user = message.username || 'user';
  if (!Object.hasOwn(users, user)) throw new FileError(401, `error looking up user '${user}': user: unknown user ${user}`);
  const files = new Files(sandbox);
  const sources = (message.source_paths ?? []).map((name) => expand(name, user));
  const destination = expand(message.destination, user);
  if (!sources.length || !message.destination) throw new FileError(400, 'source_paths and destination are required');
  if (sources.includes(destination)) throw new FileError(400, 'destination may not be one of the sources');
  const hosts = sources.map((name) => files.locate(name).host);
  for (const [i, host] of hosts.entries())
    if (!fs.statSync(host, { throwIfNoEntry: false })?.isFile()) throw new FileError(404, `path '${sources[i]}' does not exist`);
  const { fd, host } = openTarget(sandbox, destination, user);
  for (const source of hosts) fs.writeFileSync(fd, fs.readFileSync(source));
  fs.closeSync(fd);
  for (const source of hosts) fs.rmSync(source);
  answer.json(200, describe(sandbox, destination, host, {}));
}
