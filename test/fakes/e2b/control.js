// The control plane: the REST calls about sandboxes, snapshots, templates.

class ApiError extends Error {
  constructor(status, message, extra) {
    super(message);
    this.status = status;
    this.extra = extra;
  }
}

const clientID = '6532622b';

function invalid(detail) {
  return new ApiError(400, `validation error: error in openapi3filter.RequestError: ${detail}`);
}

function authenticate(options, request) {
  const key = request.headers['x-api-key'];
  if (key === undefined) throw new ApiError(401, 'authorization header is missing');
  if (!key.startsWith('e2b_')) throw new ApiError(401, 'authorization header is malformed');
  if (key !== options.apiKey)
    throw new ApiError(401, 'Invalid API key, please visit https://e2b.dev/docs/api-key for more information.\nfailed to get the team from the key');
}

function goTime(ms) {
  const [whole, rest] = new Date(ms).toISOString().slice(0, -1).split('.');
  const digits = `${rest}`.replace(/0+$/, '');
  return `${whole}${digits ? `.${digits}` : ''}Z`;
}

function bodyOf(request) {
  if (!request.body.length) throw invalid('request body has an error: value is required but missing');
  if (!/^application\/json\b/.test(request.headers['content-type'] ?? ''))
    throw invalid(`request body has an error: header Content-Type has unexpected value "${request.headers['content-type'] ?? ''}"`);
  let value;
  try {
    value = JSON.parse(request.body.toString());
  } catch (error) {
    throw invalid(`request body has an error: failed to decode request body: ${error.message}`);
  }
  if (!value || typeof value !== 'object' || Array.isArray(value))
    throw invalid("request body has an error: doesn't match schema: value must be an object");
  return value;
}

// ---- what is checked in bodies ----

const kinds = {
  string: (value) => typeof value === 'string',
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === 'boolean',
  object: (value) => value !== null && typeof value === 'object' && !Array.isArray(value),
  array: Array.isArray,
  strings: (value) => kinds.object(value) && Object.values(value).every((one) => typeof one === 'string'),
};

const createSchema = {
  templateID: 'string',
  timeout: 'integer',
  envVars: 'strings',
  metadata: 'strings',
  allow_internet_access: 'boolean',
  network: 'object',
  autoPause: 'boolean',
  autoPauseMemory: 'boolean',
  autoResume: 'object',
  secure: 'boolean',
  volumeMounts: 'array',
};

function checkSchema(body, schema) {
  for (const [name, kind] of Object.entries(schema))
    if (body[name] !== undefined && !kinds[kind](body[name]))
      throw invalid(`request body has an error: doesn't match schema: Error at "/${name}": value must be of type ${kind}`);
}

function checkTimeout(options, seconds) {
  if (seconds <= 0) throw new ApiError(400, 'Timeout must be greater than 0');
  if (seconds > options.maxAge) throw new ApiError(400, `Timeout cannot be greater than ${options.maxAge / 3600} hours`);
}

function isAddress(text) {
  return /^(\d{1,3}\.){3}\d{1,3}(\/\d{1,2})?$/.test(text) || (text.includes(':') && /^[0-9a-f:.]+(\/\d{1,3})?$/i.test(text));
}

function checkNetwork({ allowOut = [], denyOut = [], rules = {} }, sandboxVersion) {
  for (const entry of denyOut) if (!isAddress(entry)) throw new ApiError(400, `invalid denied CIDR ${entry}`);
  const named = allowOut.some((entry) => !isAddress(entry));
  if (named && !denyOut.includes('0.0.0.0/0'))
    throw new ApiError(400, "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to block all other traffic.");
  const names = Object.keys(rules);
  if (names.length > 10) throw new ApiError(400, 'too many network rules: at most 10 domains are allowed');
  if (names.length && !sandboxVersion('0.5.13')) throw new ApiError(400, 'network rules need a newer envd');
}

// ---- what is told of sandboxes ----

function withoutEmpty(value) {
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined));
}

function describe(store, sandbox) {
  return withoutEmpty({
    alias: sandbox.alias,
    clientID,
    domain: store.options.domain,
    envdAccessToken: sandbox.token,
    envdVersion: sandbox.envdVersion,
    sandboxID: sandbox.id,
    templateID: sandbox.templateID,
    trafficAccessToken: sandbox.trafficToken,
  });
}

function listed(sandbox) {
  return withoutEmpty({
    alias: sandbox.alias,
    allowInternetAccess: sandbox.allowInternetAccess,
    clientID,
    cpuCount: 2,
    diskSizeMB: 10240,
    endAt: goTime(sandbox.endAt),
    envdVersion: sandbox.envdVersion,
    memoryMB: 512,
    metadata: sandbox.metadata,
    sandboxID: sandbox.id,
    startedAt: goTime(sandbox.startedAt),
    state: sandbox.state === 'paused' ? 'paused' : 'running',
    templateID: sandbox.templateID,
    volumeMounts: sandbox.state === 'paused' ? undefined : (sandbox.body.volumeMounts ?? []),
  });
}

function withoutPassword(network) {
  if (!network?.egressProxy) return network;
  const { password, ...proxy } = network.egressProxy;
  return { ...network, egressProxy: proxy };
}

function detail(store, sandbox) {
  return withoutEmpty({
    ...listed(sandbox),
    domain: store.options.domain,
    envdAccessToken: sandbox.token,
    lifecycle: { autoResume: sandbox.resumesItself, onTimeout: sandbox.pausesItself ? 'pause' : 'kill' },
    network: withoutPassword(sandbox.network),
  });
}

// ---- the calls ----

function missing(id) {
  return new ApiError(404, `Sandbox "${id}" doesn't exist or you don't have access to it`);
}

function sandboxOf(store, text) {
  const id = text.split('-')[0];
  if (!/^[a-z0-9]+$/.test(id)) throw new ApiError(400, 'Invalid sandbox ID');
  const sandbox = store.get(id);
  if (!sandbox) throw missing(id);
  return sandbox;
}

async function create(store, body, defaults) {
  const { options } = store;
  checkSchema(body, createSchema);
  if (typeof body.templateID !== 'string')
    throw invalid('request body has an error: doesn\'t match schema: Error at "/templateID": property "templateID" is missing');
  const timeout = body.timeout ?? defaults.timeout;
  checkTimeout(options, timeout);
  const has = (version) => store.versionHas(version);
  if (body.network) checkNetwork(body.network, has);
  const secure = defaults.secure || body.secure === true;
  if (body.network?.allowPublicTraffic === false && !secure)
    throw new ApiError(400, 'You cannot disable public traffic of a sandbox that is not secure');
  if (!store.findTemplate(body.templateID)) throw new ApiError(404, `template '${body.templateID}' not found`);
  const running = [...store.all.values()].filter((one) => one.state === 'running').length;
  if (running >= options.maxSandboxes)
    throw new ApiError(429, `you have reached the maximum number of concurrent E2B sandboxes (${options.maxSandboxes}). If you need more, please contact support.`);
  return store.create(body, { secure, timeout });
}

async function settle(store, id) {
  for (let i = 0; i < 500; i++) {
    const { state } = sandboxOf(store, id);
    if (state === 'running' || state === 'paused') return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new ApiError(409, 'The sandbox is still transitioning. Try again in a moment.');
}

async function connect(store, answer, sandbox, body, timeout) {
  checkTimeout(store.options, timeout);
  await settle(store, sandbox.id);
  if (sandbox.state === 'running' && body.memory !== false) {
    store.extend(sandbox, timeout);
    return answer.json(200, describe(store, sandbox));
  }
  await store.resume(sandbox, timeout, body.memory !== false);
  return answer.json(201, describe(store, sandbox));
}

async function pause(store, answer, sandbox, body) {
  if (sandbox.state === 'paused')
    throw new ApiError(409, `Error pausing sandbox - sandbox '${sandbox.id}' is already paused`);
  if (sandbox.state !== 'running') throw new ApiError(409, 'The sandbox is still transitioning. Try again in a moment.');
  await store.pause(sandbox, body.memory !== false);
  answer.send(204, {});
}

/** Undoes what three layers of encoding did to the metadata filter. */
export function readMetadataFilter(value) {
  const unescape = (text) => decodeURIComponent(text.replace(/\+/g, ' '));
  return unescape(value)
    .split('&')
    .filter(Boolean)
    .map((pair) => pair.split('=').map((part) => unescape(part)));
}

function filtered(store, query, states) {
  let all = [...store.all.values()].filter((one) => one.state !== 'starting');
  all = all.filter((one) => states.includes(one.state === 'paused' ? 'paused' : 'running'));
  const filter = query.get('metadata');
  if (filter) {
    const pairs = readMetadataFilter(filter);
    all = all.filter((one) => pairs.every(([name, value = '']) => one.metadata[name] === value));
  }
  const template = query.get('template');
  if (template) all = all.filter((one) => one.templateID === template || one.alias === template);
  const after = Date.parse(query.get('startedAfter') ?? '');
  if (after >= 0) all = all.filter((one) => one.startedAt > after);
  all.reverse(); // the newest first
  if (query.get('order') === 'asc') all.reverse();
  return all;
}

function page(items, query, options, key) {
  const limit = Number(query.get('limit') ?? 100);
  if (!Number.isInteger(limit) || limit < 1 || limit > 100)
    throw invalid('parameter "limit" in query has an error: number must be between 1 and 100');
  const token = query.get('nextToken');
  let start = 0;
  if (token) {
    const last = Buffer.from(token, 'base64url').toString();
    const at = items.findIndex((one) => one[key] === last);
    if (at < 0) throw new ApiError(400, `Invalid next token`);
    start = at + 1;
  }
  const size = Math.min(limit, options.pageLimit);
  const part = items.slice(start, start + size);
  const more = start + size < items.length;
  return { part, headers: more ? { 'x-next-token': Buffer.from(part.at(-1)[key]).toString('base64url') } : {} };
}

function list(store, answer, query) {
  const states = (query.get('state') ?? 'running,paused').split(',');
  const all = filtered(store, query, states);
  const { part, headers } = page(all, query, store.options, 'id');
  const running = [...store.all.values()].filter((one) => one.state === 'running').length;
  answer.json(200, part.map(listed), { ...headers, 'x-total-running': String(running) });
}

function snapshot(store, answer, sandbox, body) {
  if (!sandbox.has('0.5.0')) throw new ApiError(400, 'Snapshots need a newer envd; rebuild the template');
  if (sandbox.state !== 'running') throw new ApiError(409, `Sandbox '${sandbox.id}' is not running`);
  answer.json(201, store.snapshot(sandbox, body.name));
}

function listSnapshots(store, answer, query) {
  let all = store.snapshots();
  if (query.get('sandboxID')) all = all.filter((one) => one.sandboxID === query.get('sandboxID'));
  if (query.get('name')) all = all.filter((one) => one.names.some((name) => name.endsWith(query.get('name'))));
  const { part, headers } = page(all, query, store.options, 'id');
  answer.json(200, part.map((one) => store.describeSnapshot(one)), headers);
}

function deleteTemplate(store, answer, name) {
  const template = store.findTemplate(name);
  if (!template) throw new ApiError(404, `template '${name}' not found`);
  for (const state of ['running', 'paused'])
    if ([...store.all.values()].some((one) => one.templateID === template.id && one.state === state))
      throw new ApiError(400, `cannot delete template '${name}' because there are ${state} sandboxes using it`);
  store.deleteTemplate(template);
  answer.send(204, {});
}

async function fork(store, answer, sandbox, body) {
  const made = [];
  for (let i = 0; i < (body.count ?? 1); i++)
    made.push({ sandbox: describe(store, await store.fork(sandbox, body.timeout ?? 300)) });
  answer.json(201, made);
}

function updateNetwork(store, answer, sandbox, body) {
  if (sandbox.state !== 'running') throw new ApiError(409, `Sandbox '${sandbox.id}' is not running`);
  checkNetwork(body, (version) => sandbox.has(version));
  const { allow_internet_access: allowed, ...network } = body;
  sandbox.network = { ...network, allowPublicTraffic: sandbox.network?.allowPublicTraffic };
  sandbox.allowInternetAccess = allowed ?? null;
  answer.send(204, {});
}

function setTimeoutOf(store, answer, sandbox, body) {
  if (!Number.isInteger(body.timeout) || body.timeout < 0)
    throw invalid('request body has an error: doesn\'t match schema: Error at "/timeout"');
  if (sandbox.state !== 'running') throw new ApiError(409, `Sandbox '${sandbox.id}' is not running`);
  store.setTimeout(sandbox, body.timeout);
  answer.send(204, {});
}

function refresh(store, answer, sandbox, body) {
  store.extend(sandbox, Math.max(15, body.duration ?? 15));
  answer.send(204, {});
}

const onSandbox = {
  'POST timeout': (store, answer, sandbox, request) => setTimeoutOf(store, answer, sandbox, bodyOf(request)),
  'POST refreshes': (store, answer, sandbox, request) => refresh(store, answer, sandbox, bodyOf(request)),
  'POST pause': (store, answer, sandbox, request) => pause(store, answer, sandbox, request.body.length ? bodyOf(request) : {}),
  'PUT network': (store, answer, sandbox, request) => updateNetwork(store, answer, sandbox, bodyOf(request)),
  'POST snapshots': (store, answer, sandbox, request) => snapshot(store, answer, sandbox, bodyOf(request)),
  'POST fork': (store, answer, sandbox, request) => fork(store, answer, sandbox, bodyOf(request)),
  'GET metrics': (store, answer) => answer.json(200, []),
};

async function oneSandbox(store, request, answer, id, verb) {
  const { method } = request;
  if (!verb && method !== 'GET' && method !== 'DELETE') throw notAllowed();
  const call = onSandbox[`${method} ${verb}`];
  if (verb && verb !== 'connect' && verb !== 'resume' && !call) throw noOperation();
  const sandbox = sandboxOf(store, id);
  if (call) return call(store, answer, sandbox, request);
  if (verb === 'connect') return connectOld(store, request, answer, sandbox);
  if (verb === 'resume') return resumeOld(store, request, answer, sandbox);
  if (method === 'GET') return answer.json(200, detail(store, sandbox));
  await store.kill(sandbox);
  answer.send(204, {});
}

function connectOld(store, request, answer, sandbox) {
  const body = bodyOf(request);
  if (!Number.isInteger(body.timeout))
    throw invalid('request body has an error: doesn\'t match schema: Error at "/timeout": property "timeout" is missing');
  return connect(store, answer, sandbox, {}, body.timeout);
}

async function resumeOld(store, request, answer, sandbox) {
  const body = bodyOf(request);
  if (sandbox.state === 'running') throw new ApiError(409, `Sandbox '${sandbox.id}' is already running`);
  return connect(store, answer, sandbox, body, body.timeout ?? 15);
}

function noOperation(status = 400) {
  return new ApiError(status, 'validation error: no matching operation was found');
}

function notAllowed(status = 405) {
  return new ApiError(status, 'validation error: method not allowed');
}

async function route(store, request, answer) {
  const { method, query } = request;
  const newer = store.options.api === 'v2';
  const parts = request.path.split('/').slice(1);
  const v2 = parts[0] === 'v2';
  if (v2) parts.shift();
  const [group, rawId, verb, more] = parts;
  const id = rawId && decodeURIComponent(rawId);
  if (more !== undefined) throw noOperation();
  if (group === 'sandboxes' && rawId === undefined) {
    if (method === 'GET' && v2 && store.options.list === 'v1') throw noOperation(store.options.oldStatus);
    if (method === 'GET') return v2 ? list(store, answer, query) : listOld(store, answer, query);
    if (method !== 'POST') throw notAllowed();
    if (v2 && !newer) throw notAllowed(store.options.oldStatus);
    const defaults = v2 ? { secure: true, timeout: 300 } : { secure: false, timeout: 15 };
    return answer.json(201, describe(store, await create(store, bodyOf(request), defaults)));
  }
  if (v2 && newer && group === 'sandboxes' && verb === 'connect' && method === 'POST') {
    const body = bodyOf(request);
    return connect(store, answer, sandboxOf(store, id), body, body.timeout ?? 300);
  }
  if (v2) throw noOperation(newer ? 400 : store.options.oldStatus);
  if (group === 'sandboxes') return oneSandbox(store, request, answer, id, verb);
  if (group === 'snapshots' && rawId === undefined && method === 'GET') return listSnapshots(store, answer, query);
  if (group === 'templates' && id && !verb && method === 'DELETE') return deleteTemplate(store, answer, id);
  throw noOperation();
}

function listOld(store, answer, query) {
  answer.json(200, filtered(store, query, ['running']).map(listed));
}

/** Whether a path is the control plane's. */
export function isControlPath(path) {
  return /^\/(v2\/|v3\/)?(sandboxes|snapshots|templates|health|teams|volumes)(\/|$)/.test(path);
}

/** Answers one request to the control plane. */
export async function control(store, request, answer) {
  try {
    if (request.path === '/health') return answer.text(200, 'Health check successful');
    authenticate(store.options, request);
    await route(store, request, answer);
  } catch (error) {
    if (!(error instanceof ApiError)) store.options.report(error);
    const status = error instanceof ApiError ? error.status : 500;
    answer.json(status, { code: status, message: error.message, ...error.extra });
  }
}
