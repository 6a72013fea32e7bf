import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { startFake } from '../fakes/e2b.js';
const fake = await startFake();
const P = o => e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url, requestTimeout: 5000, ...o });
const creating = { method: 'POST', path: '/v2/sandboxes' };
const show = e => e.code ? `${e.code} r=${e.retryable} ${JSON.stringify(e.message)}` : String(e.stack);
const odd = [null, true, 0, -1, 1e308, [], {}, '', 'a/b', '../x', 'a\0b', 'a\r\nX-Evil: 1', '\x1b[31mred', '\u009b31m', '\u202eevil', 'x'.repeat(100000), ' ', 'ü', '[', '%2e%2e'];
for (const field of ['sandboxID', 'envdAccessToken', 'trafficAccessToken', 'domain', 'envdVersion', 'clientID', 'templateID', 'alias']) {
  for (const value of odd.concat(undefined)) {
    const mark = fake.mark();
    const f = fake.fault({ match: creating, patch: a => ({ ...a, [field]: value }) });
    let out;
    try { const s = await createSandbox({ provider: P(field === 'domain' ? { sandboxUrl: undefined } : {}) }); out = 'OK ' + JSON.stringify(s.metadata).slice(0, 200);
      if (field === 'trafficAccessToken') try { out += JSON.stringify(await s.ports.expose(3000)) } catch (e) { out += show(e) }
      await s.destroy(); } catch (e) { out = show(e); }
    f.remove();
    const creates = fake.since(mark).filter(r => r.method === 'POST' && r.path === '/v2/sandboxes').length;
    const bad = /[\x00-\x1f\x7f-\x9f\u202e]/.test(out);
    if (!(out.startsWith('OK')) || bad || creates !== 1) console.log(field, JSON.stringify(value)?.slice(0, 40), creates, bad ? 'CONTROL' : '', out.slice(0, 260));
  }
}
console.log('left', [...fake.sandboxes.values()].filter(o => o.state !== 'killed').length);
await fake.close();
