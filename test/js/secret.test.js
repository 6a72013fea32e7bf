// A secret that a function gives: which calls of the addon's object ask for it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { native } from '../../js/native.js';
import { calls, Secret } from '../../js/secret.js';
import { startFake } from '../fakes/e2b.js';

let fake;
before(async () => (fake = await startFake()));
after(() => fake.close());

const open = () => native().open('e2b', { apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url, session: 'secret', cwd: '/workspace' });

// What the addon's class has now, whoever remembered to list it.
function methods() {
  const sandbox = open();
  const found = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(sandbox));
  sandbox.close();
  return Object.keys(found).filter(name => name !== 'constructor' && typeof found[name].value === 'function');
}

/** An object with every call of the addon's, for which Secret is made; `call` is what each does. */
function guarded(call, more) {
  const object = { sets: [], ...more };
  for (const name of methods()) object[name] = () => call(name, object);
  object.setSecret = value => object.sets.push(value);
  let asked = 0;
  const secret = new Secret({ ask: () => `key ${++asked}`, name: 'apiKey' }, 'e2b');
  return secret.open(() => object);
}

const turn = () => new Promise(setImmediate);

test('every call of the addon is listed, once', () => {
  assert.deepEqual(Object.values(calls).flat().sort(), methods().sort());
});

test('a call of the account has the secret, and is made again with another where it is refused', async () => {
  for (const name of calls.account) {
    const object = guarded((_, { sets }) => {
      if (sets.length === 1) throw Object.assign(new Error('no'), { code: 'authentication' });
      return 'done';
    });
    assert.equal(await object[name](), 'done', name);
    assert.deepEqual(object.sets, ['key 1', 'key 2'], name);
  }
});

test('a call of the sandbox brings a new secret where one was refused on the way', async () => {
  for (const name of calls.sandbox) {
    const object = guarded(() => 'done', { stale: true });
    assert.equal(object[name](), 'done', name);
    await turn();
    assert.deepEqual(object.sets, ['key 1'], name);
  }
});

test('the others ask nobody', async () => {
  const sandbox = open();
  await sandbox.create();
  const mark = fake.mark();
  const given = { unexpose: [80], onDenied: [() => {}], setSecret: [fake.apiKey] };
  for (const name of calls.none.filter(one => one !== 'close')) await sandbox[name](...(given[name] ?? []));
  const other = open();
  await other.close();
  assert.equal(fake.count(mark), 0);
  await sandbox.destroy();
  const last = fake.mark();
  await sandbox.close();
  assert.equal(fake.count(last), 0);
});
