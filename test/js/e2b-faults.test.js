// What E2B answers when something is wrong: the right code, whether trying again
// helps, what to do; and no sandbox is made twice.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inspect } from 'node:util';

import { createSandbox, isSandboxError } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { startFake } from '../fakes/e2b.js';

let fake;
before(async () => (fake = await startFake()));
after(() => fake.close());

const provider = options => e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url, ...options });
const json = (status, message, more) => ({ respond: { status, headers: { 'content-type': 'application/json' }, body: JSON.stringify({ code: status, message, ...more }) } });
const creating = { method: 'POST', path: '/v2/sandboxes' };

const table = [
  ['400', json(400, 'Timeout cannot be greater than 1 hours'), 'invalid_input', false, '1 hours'],
  ['401', json(401, 'Invalid API key'), 'authentication', false, 'E2B_API_KEY'],
  ['403', json(403, 'your team is blocked'), 'permission', false, 'blocked'],
  ['404', json(404, "template 'base' not found"), 'not_found', false, "template 'base' not found"],
  ['409', json(409, 'in transition'), 'conflict', true, 'again'],
  ['429 without a time', json(429, 'maximum number of concurrent E2B sandboxes'), 'rate_limited', true, 'concurrent'],
  ['429 for an hour', { rateLimit: { retryAfter: '3600' } }, 'rate_limited', true, '3600 s'],
  ['500', json(500, 'boom'), 'provider_error', true, 'boom'],
  ['503', json(503, 'no room', { error_code: 'sandbox_capacity_unavailable' }), 'unavailable', true, 'capacity'],
  ['504', json(504, 'placement timeout'), 'timeout', true, 'placement'],
  ['an HTML page for 502', { html502: true }, 'unavailable', true, '502'],
  ['an HTML page for 201', { respond: { status: 201, headers: { 'content-type': 'text/html' }, body: '<html><body>Log in</body></html>' } }, 'provider_error', false, 'apiUrl'],
  ['nonsense', { respond: { status: 201, headers: { 'content-type': 'application/json' }, body: '{"sandboxID":' } }, 'provider_error', false, 'E2B'],
  ['a redirect', { redirect: 'http://169.254.169.254/latest/meta-data' }, 'provider_error', false, 'apiUrl'],
  ['a foreign domain', { patch: answer => ({ ...answer, domain: 'evil.example' }) }, 'provider_error', false, 'domain', { sandboxUrl: undefined }],
];

for (const [name, fault, code, retryable, words, options] of table) {
  test(`create: ${name}`, async () => {
    const mark = fake.mark();
    const set = fake.fault({ match: creating, times: 9, ...fault });
    try {
      await assert.rejects(createSandbox({ provider: provider(options) }), error => {
        assert.ok(isSandboxError(error, code), `${error.code}: ${error.message}`);
        assert.equal(error.retryable, retryable);
        assert.ok(error.message.includes(words), error.message);
        assert.ok(!/[<>]|meta-data/.test(error.message), error.message);
        assert.ok(!inspect(error, { depth: 9 }).includes(fake.apiKey));
        return true;
      });
    } finally {
      set.remove();
    }
    assert.equal(fake.since(mark).filter(request => request.method === 'POST' && request.path === '/v2/sandboxes').length, 1);
    assert.ok(fake.since(mark).every(request => request.path !== '/latest/meta-data'));
  });
}

test('create: a template that does not exist is named with its option; so is a tag', async () => {
  const refused = async (given, words) => {
    await assert.rejects(createSandbox({ provider: provider(given) }), error => {
      assert.ok(isSandboxError(error, 'not_found'), `${error.code}: ${error.message}`);
      assert.equal(error.retryable, false);
      for (const word of words) assert.ok(error.message.includes(word), error.message);
      return true;
    });
  };
  const option = 'check the option template';
  await refused({ template: 'xyz' }, ['template "xyz" does not exist', option, "template 'xyz' not found"]);
  const set = fake.fault({ match: creating, ...json(404, "tag 'v9' does not exist for template 'base'") });
  await refused({ template: 'base:v9' }, ['template "base:v9" does not exist', option, "tag 'v9'"]);
  assert.equal(set.used, 1);
  const other = fake.fault({ match: creating, ...json(404, 'Not Found') });
  await refused({}, ['E2B answered 404: Not Found']);
  assert.equal(other.used, 1);
});

test('create: an id that is a path is looked up instead', async () => {
  fake.fault({ match: creating, patch: answer => ({ ...answer, sandboxID: '../../x' }) });
  const sandbox = await createSandbox({ provider: provider() });
  assert.match(sandbox.metadata.sandboxId, /^i[a-z0-9]{20}$/);
  await sandbox.destroy();
});

test('create: 429 with a time that fits is waited for', async () => {
  fake.fault({ match: creating, times: 2, rateLimit: { retryAfter: '1' } });
  const sandbox = await createSandbox({ provider: provider() });
  assert.equal((await sandbox.run('echo ok')).stdout, 'ok\n');
  await sandbox.destroy();
});

test('a lost answer of create: the sandbox is looked up, not made again', async () => {
  const mark = fake.mark();
  fake.fault({ match: creating, loseAnswer: true });
  const sandbox = await createSandbox({ id: 'lost', provider: provider() });
  assert.equal((await sandbox.run('echo ok')).stdout, 'ok\n');
  assert.equal(fake.since(mark).filter(request => request.method === 'POST' && request.path === '/v2/sandboxes').length, 1);
  assert.equal([...fake.sandboxes.values()].filter(one => one.metadata['sandbox-sdk-native-id'] === 'lost').length, 1);
  await sandbox.destroy();
});

test('a look-up that fails is not "not found"', async () => {
  for (const fault of [json(500, 'boom'), { html502: true }, { respond: { status: 200, body: '{}' } }, { empty404: true }, json(401, 'no')]) {
    const mark = fake.mark();
    const set = fake.fault({ match: { method: 'GET', path: '/v2/sandboxes' }, times: 99, ...fault });
    try {
      await assert.rejects(createSandbox({ id: 'unsure', provider: provider({ requestTimeout: 1500 }) }));
    } finally {
      set.remove();
    }
    assert.equal(fake.since(mark).filter(request => request.method === 'POST' && request.path === '/v2/sandboxes').length, 0);
  }
});

test('nothing is left of sandboxes that were refused', () => {
  assert.deepEqual([...fake.sandboxes.values()].filter(one => one.state !== 'killed').map(one => one.state), []);
});

test('no answer: a timeout that says so', async () => {
  const set = fake.fault({ match: creating, times: 9, hang: true });
  try {
    await assert.rejects(createSandbox({ provider: provider({ requestTimeout: 300 }) }), error => {
      assert.ok(isSandboxError(error, 'timeout'), `${error.code}: ${error.message}`);
      return true;
    });
  } finally {
    set.remove();
  }
});

test('nobody listens: unavailable, with the address', async () => {
  await assert.rejects(createSandbox({ provider: provider({ apiUrl: 'http://127.0.0.1:9', requestTimeout: 1000 }) }), error => {
    assert.ok(isSandboxError(error, 'unavailable') || isSandboxError(error, 'timeout'), `${error.code}: ${error.message}`);
    assert.ok(error.message.includes('127.0.0.1'), error.message);
    return true;
  });
});

// ---- the sandbox's own side: what its edge and envd answer, at a command and a file

const onSandbox = [
  ['400', json(400, 'bad request'), 'invalid_input', false, 'bad request'],
  ['401', json(401, 'token'), 'authentication', false, 'start the sandbox again'],
  ['403', json(403, 'no'), 'permission', false, 'no'],
  ['409', json(409, 'still transitioning'), 'conflict', true, 'again'],
  ['429', json(429, 'too many connections'), 'rate_limited', true, 'later'],
  ['500', json(500, 'boom'), 'provider_error', true, 'boom'],
  ['507', json(507, 'full'), 'provider_error', false, 'disk is full'],
  ['an HTML page for 502', { html502: true }, 'unavailable', true, '502'],
  ['an HTML page for 200', { respond: { status: 200, headers: { 'content-type': 'text/html' }, body: '<html><body>Log in</body></html>' } }, 'provider_error', undefined, 'E2B'],
  ['nothing for 404', { empty404: true }, undefined, undefined, '404'],
  ['a redirect', { redirect: 'http://169.254.169.254/latest/meta-data' }, 'provider_error', false, 'sandboxUrl'],
  ['a cut before the head', { reset: true }, 'unavailable', true, '127.0.0.1'],
];

for (const [name, fault, code, retryable, words] of onSandbox) {
  test(`a command: ${name}`, async () => {
    const sandbox = await createSandbox({ provider: provider() });
    const mark = fake.mark();
    const set = fake.fault({ match: { rpc: 'Start' }, times: 99, ...fault });
    try {
      await assert.rejects(sandbox.run('echo x >> ran'), error => {
        if (code) assert.equal(error.code, code, error.message);
        else assert.notEqual(error.code, 'internal');
        if (retryable !== undefined) assert.equal(error.retryable, retryable, error.message);
        assert.ok(error.message.includes(words), error.message);
        assert.ok(!/[<>]|meta-data/.test(error.message), error.message);
        assert.ok(!inspect(error, { depth: 9 }).includes(fake.sandboxes.get(sandbox.metadata.sandboxId).token));
        return true;
      });
      const starts = fake.since(mark).filter(one => one.rpc === 'Start' && one.body.includes('echo x'));
      assert.equal(starts.length, 1, 'it was sent once');
    } finally {
      set.remove();
    }
    assert.equal((await sandbox.run('cat ran 2>/dev/null')).stdout, '');
    await sandbox.destroy();
  });
}

test('an answer of create that is cut is looked up', async () => {
  const mark = fake.mark();
  fake.fault({ match: creating, truncate: 20 });
  const sandbox = await createSandbox({ id: 'cut', provider: provider() });
  assert.equal((await sandbox.run('echo ok')).stdout, 'ok\n');
  assert.equal(fake.since(mark).filter(request => request.method === 'POST' && request.path === '/v2/sandboxes').length, 1);
  await sandbox.destroy();
});

test('TLS: a stranger’s certificate, and a server that speaks none', async () => {
  const secure = await startFake({ tls: true });
  try {
    for (const [url, words] of [[secure.url, /NODE_EXTRA_CA_CERTS/], [fake.url.replace('http:', 'https:'), /127\.0\.0\.1/]]) {
      await assert.rejects(createSandbox({ provider: provider({ apiUrl: url, requestTimeout: 30_000 }) }), error => {
        assert.ok(isSandboxError(error, 'unavailable'), `${error.code}: ${error.message}`);
        assert.match(error.message, words);
        assert.ok(!inspect(error, { depth: 9 }).includes(fake.apiKey));
        return true;
      });
    }
    assert.equal(secure.requests.length, 0);
  } finally {
    await secure.close();
  }
});

test('a sandbox that is dead: the next command runs in a new one; a file call, too', async () => {
  const sandbox = await createSandbox({ provider: provider() });
  for (const work of [() => sandbox.run('echo on'), () => sandbox.files.write('a', 'b')]) {
    const id = sandbox.metadata.sandboxId;
    await fake.expire(id);
    await work();
    assert.notEqual(sandbox.metadata.sandboxId, id);
  }
  await sandbox.destroy();
});
