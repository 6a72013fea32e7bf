// The options of e2b(): each is checked before any request, and none leaks.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';

import * as core from '@mastra/core/workspace';
import { capabilityMode, createSandbox, isSandboxError, providerFromEnvironment, withSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { startFake } from '../fakes/e2b.js';

const apiKey = 'e2b_0123456789abcdef0123456789abcdef01234567';
const nowhere = 'http://127.0.0.1:9'; // nothing may be sent

// what a wrong option says, at the factory or when the sandbox is opened
async function refused(options, words, code = 'invalid_input') {
  await assert.rejects(
    async () => createSandbox({ provider: e2b({ apiKey, apiUrl: nowhere, ...options }) }),
    error => {
      assert.ok(isSandboxError(error, code), `${error.code}: ${error.message}`);
      for (const word of words) assert.ok(error.message.includes(word), `${word} is not in: ${error.message}`);
      assert.ok(!inspect(error, { depth: 9, showHidden: true }).includes(apiKey));
      return true;
    },
  );
}

test('a wrong option names itself and what to write instead', async () => {
  await refused({ apikey: 'x' }, ['"apikey"', 'apiKey']);
  await refused({ apiKey: 7 }, ['apiKey', 'string']);
  await refused({ template: '' }, ['template']);
  for (const timeout of [0, -1, NaN, Infinity, '5m']) await refused({ timeout }, ['timeout', 'milliseconds']);
  await refused({ timeout: 1e15 }, ['timeout']);
  for (const requestTimeout of [-1, 'x']) await refused({ requestTimeout }, ['requestTimeout']);
  for (const apiUrl of ['api.e2b.app', 'ftp://x', 'https://u:p@x', 'https://x?y', 'wss://x']) await refused({ apiUrl }, ['apiUrl']);
  await refused({ sandboxUrl: 'file:///etc' }, ['sandboxUrl']);
  for (const domain of ['https://e2b.app', 'e2b.app/', 'a b']) await refused({ domain }, ['domain']);
  for (const user of ['', 'a:b', 'a b']) await refused({ user }, ['user']);
  await refused({ metadata: { a: 1 } }, ['metadata.a']);
  await refused({ metadata: { 'sandbox-sdk-native-id': 'x' } }, ['metadata', 'sandbox-sdk-native-id']);
  await refused({ metadata: ['a'] }, ['metadata']);
  for (const name of ['secure', 'autoPause', 'allowInternetAccess']) await refused({ [name]: 'yes' }, [name]);
  await refused({ network: 'open' }, ['network', '"deny"']);
  await refused({ network: ['example.com:8443'] }, ['network', 'example.com:8443', 'port']);
  await refused({ network: ['https://example.com'] }, ['network', 'https://example.com']);
  await refused({ network: ['[::1]'] }, ['network', 'IPv6']);
  await refused({ network: { allowOut: 'x' } }, ['network.allowOut']);
  await refused({ network: { allow: ['a'], allowOut: ['b'] } }, ['allow', 'allowOut']);
  await refused({ network: 'deny', allowInternetAccess: true }, ['allowInternetAccess', 'deny']);
  await refused({ network: 'allow', allowInternetAccess: false }, ['allowInternetAccess', 'allow']);
});

test('no key: authentication, before any request', async () => {
  const before = process.env.E2B_API_KEY;
  delete process.env.E2B_API_KEY;
  try {
    await refused({ apiKey: '' }, ['E2B_API_KEY'], 'authentication');
    await refused({ apiKey: 'e2b\r\nX: y' }, ['E2B_API_KEY'], 'authentication');
  } finally {
    if (before !== undefined) process.env.E2B_API_KEY = before;
  }
});

test('no key yet: it is looked for again before the first request', async () => {
  const before = process.env.E2B_API_KEY;
  delete process.env.E2B_API_KEY;
  const fake = await startFake();
  const provider = e2b({ apiUrl: fake.url, sandboxUrl: fake.url });
  const missing = error => {
    assert.equal(error.code, 'authentication');
    assert.match(error.message, /^E2B needs an API key: set E2B_API_KEY .* apiKey/);
    return true;
  };
  try {
    const workspace = createMastraWorkspace({ provider });
    await assert.rejects(workspace.init(), error => error instanceof core.SandboxError && missing(error));
    await assert.rejects(createSandbox({ provider }), error => isSandboxError(error) && missing(error));
    assert.equal(fake.requests.length, 0);
    process.env.E2B_API_KEY = fake.apiKey;
    await withSandbox({ provider }, async sandbox => assert.equal((await sandbox.run('echo on')).stdout, 'on\n'));
    await workspace.destroy();
  } finally {
    if (before === undefined) delete process.env.E2B_API_KEY;
    else process.env.E2B_API_KEY = before;
    await fake.close();
  }
});

test('secrets are not printed with the provider', () => {
  const provider = e2b({ apiKey, env: { TOKEN: 'hunter2' } });
  const shown = inspect(provider, { depth: 9 }) + JSON.stringify(provider) + Object.keys(provider);
  assert.ok(!shown.includes(apiKey));
  assert.ok(!shown.includes('hunter2'));
});

test('capabilities are known without a request', () => {
  const provider = e2b({ apiKey, apiUrl: nowhere });
  assert.equal(capabilityMode(provider, 'commands'), 'native');
  assert.equal(capabilityMode(provider, 'files'), 'emulated');
  assert.equal(capabilityMode(provider, 'computer'), 'unsupported');
});

test('providerFromEnvironment: SANDBOX_PROVIDER=e2b, with the variables that were given', async () => {
  const provider = await providerFromEnvironment({ apiUrl: nowhere }, { SANDBOX_PROVIDER: 'e2b', E2B_API_KEY: apiKey });
  assert.equal(provider.name, 'e2b');
  assert.equal(capabilityMode(provider, 'pty'), 'native');
  const keyless = await providerFromEnvironment({}, { SANDBOX_PROVIDER: 'e2b' });
  assert.equal(capabilityMode(keyless, 'pty'), 'native');
});
