import { createSandbox } from 'sandbox-sdk-native';
import { e2b } from 'sandbox-sdk-native/e2b';
import { startFake } from '../fakes/e2b.js';
import { writeFileSync, chmodSync, existsSync, readdirSync, lstatSync } from 'node:fs';
const fake = await startFake();
const P = o => e2b({ apiKey: fake.apiKey, apiUrl: fake.url, sandboxUrl: fake.url, requestTimeout: 20000, ...o });
const show = e => e?.code ? `${e.code} ${JSON.stringify(e.message)}` : String(e?.stack);
const lim = (p, ms = 20000) => { let t; return Promise.race([p, new Promise((_, j) => { t = setTimeout(() => j(new Error('HANG')), ms); })]).finally(() => clearTimeout(t)); };
const sab = {
  none: '',
  'profile prints': `echo 'echo PROFILE; exit 9' > ~/.profile; cp ~/.profile ~/.bashrc; cp ~/.profile ~/.bash_profile`,
  'PATH tools in workspace': `mkdir bin; for t in stat find base64 od cat ls sh setsid sleep mkdir mv rm head tail; do printf '#!/bin/sh\\necho FAKE; exit 0\\n' > bin/$t; cp bin/$t $t; done; chmod +x bin/* stat find base64 cat`,
  'private folder link': `rm -rf /tmp/.sbx; mkdir /tmp/else; ln -s /tmp/else /tmp/.sbx`,
  'private folder file': `rm -rf /tmp/.sbx; echo x > /tmp/.sbx`,
  'private folder root': `rm -rf /tmp/.sbx; sudo -n mkdir -m 755 /tmp/.sbx 2>/dev/null || echo nosudo`,
  'private read-only': `chmod 500 /tmp/.sbx`,
  'private no perm': `chmod 000 /tmp/.sbx`,
  'lock held by link': `ln -s /etc/passwd /tmp/.sbx/lock`,
  'lock garbage': `echo 'garbage; rm -rf /' > /tmp/.sbx/lock`,
  'lock dir': `mkdir /tmp/.sbx/lock`,
  'lock fifo': `mkfifo /tmp/.sbx/lock`,
  'pid records': `for i in -1 0 1 $$ 2 99999999999999999999; do printf '%s s- %s 0 : x' aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa $i > /tmp/.sbx/p.$i.0; printf '%s s- %s 5 1:-1\\nx' aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa $i > "/tmp/.sbx/p.7$i.5"; echo 'x 99999' > /tmp/.sbx/e.7$i.5; done; mkfifo /tmp/.sbx/p.50.6; mkdir /tmp/.sbx/p.51.6; printf 'a b' > '/tmp/.sbx/p.52.$(touch pwned)'; ln -s /dev/zero /tmp/.sbx/p.53.7`,
  'hostile names': `touch -- '-rf' '$(touch pwned)' "\`touch pwned\`" 'a;touch pwned' "$(printf 'new\\nline')" "$(printf 'esc\\033[31m')" '*' '~' ' ' ' x ' "$(printf 'bad\\377utf')" '...' '-' '--' "'" '"' '\\'`,
  'workspace link': `cd /; mv /workspace /tmp/ws 2>/dev/null && ln -s /etc /workspace || echo cannot`,
  'workspace gone': `rm -rf /workspace 2>/dev/null; ls -d /workspace`,
  'cyclic link': `ln -s loop loop; ln -s . dot; ln -s .. up; ln -s / root`,
  'deep': `i=0; while [ $i -lt 300 ]; do mkdir -p d && cd d; i=$((i+1)); done; true`,
  'many': `mkdir many; cd many; seq 1 20000 | xargs touch`,
  'HOME/IFS/ENV': `true`,
};
const only = process.argv[2];
for (const [name, script] of Object.entries(sab)) {
  if (only && !name.includes(only)) continue;
  const s = await createSandbox({ provider: P(), env: name.startsWith('HOME') ? { HOME: '/x\ny', IFS: 'SBX0123456789', ENV: '/tmp/env', BASH_ENV: '/tmp/env', PATH: '/nowhere', LD_PRELOAD: '/x', PS4: '$(touch pwned)', CDPATH: '/' } : {} });
  const res = [];
  const step = async (label, f) => { const t = Date.now(); let r; try { r = await lim(f()); r = typeof r === 'string' ? JSON.stringify(r) : JSON.stringify(r); } catch (e) { r = show(e); } const d = Date.now() - t; res.push(`   ${label} ${d > 1500 ? d + 'ms SLOW ' : ''}${r?.slice(0, 230)}`); if (/[\x00-\x1f\x7f]/.test(r)) res.push('   CONTROL'); };
  if (name.startsWith('HOME')) await s.files.write('/tmp/env', 'echo ENVFILE; exit 7\n');
  await step('sab', async () => { const r = await s.run(['/bin/sh', '-c', script]); return `${r.exitCode} ${r.stdout}${r.stderr}`.slice(0, 100); });
  await step('write', () => s.files.write('f.txt', 'hello'));
  await step('over', () => s.files.write('f.txt', 'hello2'));
  await step('text', () => s.files.text('f.txt'));
  await step('big', async () => { const b = new Uint8Array(200000).fill(65); await s.files.write('big', b); return (await s.files.read('big')).length; });
  await step('list', async () => { const l = await s.files.list('.', { recursive: true }); return `${l.length}: ${JSON.stringify(l.map(e => e.name).slice(0, 25))}`; });
  await step('stat', async () => (await s.files.stat('f.txt')).size);
  await step('run', async () => { const r = await s.run('echo hi; exit 3'); return [r.exitCode, r.stdout, r.stderr]; });
  await step('bg', async () => { const c = await s.processes.start('echo up; sleep 100'); const l = await s.processes.list(); const mine = l.filter(e => e.pid === c.pid).length; const odd = l.filter(e => e.pid !== c.pid); await c.kill(); return [mine, odd, (await c.wait()).exitCode]; });
  await step('attach', async () => { const out = []; for (const pid of [1, 71, 50, 52, 53]) { try { const c = await lim(s.processes.attach(pid), 6000); const r = await lim(c.wait(), 6000); out.push([pid, r.exitCode]); } catch (e) { out.push([pid, e.code ?? e.message]); } } return out; });
  await step('pwned', async () => (await s.run(['/bin/sh', '-c', 'ls -la /workspace/pwned pwned 2>/dev/null; id -u'])).stdout);
  await step('remove', () => s.files.remove('f.txt'));
  console.log(name + '\n' + res.join('\n'), s.status);
  await lim(s.destroy());
}
await fake.close();
