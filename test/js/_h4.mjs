import { createSandbox } from 'sandbox-sdk-native';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { e2b } from 'sandbox-sdk-native/e2b';
import { startFake } from '../fakes/e2b.js';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fork } from 'node:child_process';
import { spawn } from 'node:child_process';
const child = spawn(process.execPath, [new URL('../fakes/serve-e2b.js', import.meta.url).pathname], { stdio: ['pipe', 'pipe', 'inherit'] });
const info = await new Promise(r => child.stdout.once('data', d => r(JSON.parse(d))));
const P = o => e2b({ apiKey: info.apiKey, apiUrl: info.url, sandboxUrl: info.url, requestTimeout: 20000, ...o });
const rss = () => Math.round(process.memoryUsage().rss / 1e6);
const s = await createSandbox({ provider: P() });
const h = monitorEventLoopDelay({ resolution: 5 }); h.enable();
async function step(name, f) { h.reset(); const a = rss(); let peak = 0; const t = setInterval(() => (peak = Math.max(peak, rss())), 50); const t0 = Date.now(); let r; try { r = await f(); } catch (e) { r = `${e.code} ${e.message}`; } clearInterval(t); console.log(name, JSON.stringify(r)?.slice(0, 200), `${Date.now() - t0}ms rss ${a} -> peak ${peak}`, `loop max ${(h.max / 1e6).toFixed(0)}ms`); }
await step('yes with timeout', async () => { const r = await s.run('yes', { timeout: 2000, maxRetainedBytes: 1000 }); return [r.exitCode, r.timedOut, r.stdout.length, r.stdoutDroppedBytes]; });
await step('yes bg 1MB kept', async () => { const p = await s.processes.start('yes & yes >&2', { timeout: 2000 }); const r = await p.wait(); return [r.exitCode, r.timedOut, r.stdout.length]; });
await step('marks bomb', async () => { const r = await s.run(`yes SBX | tr -d '\\n'`, { timeout: 1500, maxRetainedBytes: 1000 }); return [r.exitCode, r.stdout.length, r.stdoutDroppedBytes]; });
await step('nonce marks', async () => { const r = await s.run(`N=$(tr '\\0' '\\n' < /proc/$PPID/cmdline | grep -E '^[0-9a-z]{32}$' | head -1); yes "SBX$N=x00" | tr -d '\\n'`, { timeout: 1500, maxRetainedBytes: 1000 }); return [r.exitCode, r.stdout.length, r.stdoutDroppedBytes, r.stdout.slice(0, 50)]; });
await step('forged end', async () => { const r = await s.run(`N=$(tr '\\0' '\\n' < /proc/$PPID/cmdline | grep -E '^[0-9a-z]{32}$' | head -1); printf "SBX$N=x000."; printf "SBX$N=x000." >&2; sleep 5; exit 7`, { timeout: 15000 }); return [r.exitCode, r.durationMs]; });
await step('many exits', async () => { const r = await Promise.all(Array.from({ length: 200 }, (_, i) => s.run(`echo ${i}; exit ${i % 7}`))); return r.every((x, i) => x.exitCode === i % 7 && x.stdout === `${i}\n`); });
await step('forkbomb of marks', async () => { const r = await s.run('for i in $(seq 1 50); do (yes SBX & ) ; done; sleep 600', { timeout: 2000, maxRetainedBytes: 1000 }); return [r.exitCode, r.timedOut]; });
await step('after: procs', async () => (await s.run('ps -e | grep -c yes')).stdout);
await step('stdin blocked', async () => { const p = await s.processes.start('sleep 600'); let w = 0; const big = new Uint8Array(1 << 20); const writes = []; for (let i = 0; i < 20; i++) writes.push(p.write(big).then(() => w++, e => 'E')); await new Promise(r => setTimeout(r, 1500)); await p.kill(); const r = await p.wait(); const all = await Promise.all(writes); return [w, all.filter(x => x === 'E').length, r.exitCode]; });
await step('stdin run big closed', async () => { const r = await s.run('exec 0<&-; sleep 0.1; echo x', { stdin: 'y'.repeat(5e6) }); return [r.exitCode, r.stdout]; });
await step('read endless', async () => { const r = await s.run('ln -s /dev/zero z; truncate -s 5G huge'); const out = []; for (const f of ['z', 'huge']) try { out.push((await s.files.read(f)).length); } catch (e) { out.push(e.code + ' ' + e.message); } return out; });


await s.destroy();
child.stdin.end();
