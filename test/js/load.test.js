// Much output, many processes, slow readers: nothing is lost, nothing grows.
// SBX_TEST_LONG=1 runs the full sizes.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import v8 from 'node:v8';
import vm from 'node:vm';
import { setTimeout as sleep } from 'node:timers/promises';

import { out, until, using } from '../helpers/workspace.js';

const long = process.env.SBX_TEST_LONG === '1';
// A sanitizer keeps freed memory for a while.
const counted = process.env.LD_PRELOAD?.includes('asan') !== true;
const MB = 1024 * 1024;

const descriptors = () => readdirSync('/proc/self/fd').length;
const threads = () => Number(/^Threads:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]);
const rss = () => Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]) * 1024;

v8.setFlagsFromString('--expose-gc');
const collect = vm.runInNewContext('gc');

/** Memory that is still held after a collection: V8's, and all of it. */
function held() {
  collect();
  collect();
  return { heap: process.memoryUsage().heapUsed, all: rss() };
}

/** The most that `value` is above its value of now, until `stop()`. */
function watch(value) {
  const start = value();
  let most = 0;
  const timer = setInterval(() => (most = Math.max(most, value() - start)), 5);
  return () => {
    clearInterval(timer);
    return Math.max(most, value() - start);
  };
}

test('20 MB of stdout and of stderr arrive whole', using({}, async workspace => {
  const result = await workspace.sandbox.executeCommand("head -c 20000000 /dev/zero | tr '\\0' a; head -c 20000000 /dev/zero | tr '\\0' b >&2");
  assert.deepEqual([result.stdout.length, result.stderr.length, result.stdoutTruncated], [20_000_000, 20_000_000, false]);
  assert.ok(/^a+$/.test(result.stdout) && /^b+$/.test(result.stderr));
}));

test('endless output through spawn keeps memory flat', using({}, async ({ sandbox }) => {
  const size = (long ? 1024 : 128) * MB;
  const block = `dd if=/dev/zero bs=1M count=${size / MB} 2>/dev/null`;
  for (const options of [{}, { onStdout: () => {} }]) {
    await (await sandbox.processes.spawn('dd if=/dev/zero bs=1M count=40 2>/dev/null', options)).wait();
    const stop = watch(rss);
    const handle = await sandbox.processes.spawn(`${block}; printf END`, options);
    const result = await handle.wait();
    const grown = stop();
    assert.equal(result.stdoutDroppedBytes, size + 3 - MB);
    assert.ok(result.stdout.endsWith('\0END'));
    // Text for a callback is garbage of V8's, which collects when it likes.
    if (counted && !options.onStdout) assert.ok(grown < 32 * MB, `grew by ${Math.round(grown / MB)} MiB`);
  }
}));

test('yes with a timeout of 2 s ends, and the loop is alive meanwhile', using({}, async ({ sandbox }) => {
  await sandbox.start();
  let ticks = 0;
  const timer = setInterval(() => ticks++, 10);
  const stop = watch(rss);
  const result = await sandbox.executeCommand('yes', [], { timeout: 2000, maxRetainedBytes: 65536 });
  clearInterval(timer);
  assert.deepEqual([result.exitCode, result.timedOut, result.stdout.length], [124, true, 65536]);
  assert.ok(ticks > 20, `${ticks} ticks`);
  const grown = stop();
  if (counted) assert.ok(grown < 64 * MB, `grew by ${Math.round(grown / MB)} MiB`);
}));

test('a reader that is not read blocks the producer', using({}, async ({ sandbox }) => {
  const handle = await sandbox.processes.spawn('read go; dd if=/dev/zero bs=64k count=1600 2>progress; echo all > written');
  const { reader } = handle;
  await handle.sendStdin('go\n');
  await until(() => reader.readableLength > 0);
  const stop = watch(rss);
  await sleep(200);
  assert.equal(await out({ sandbox }, 'cat written 2>/dev/null'), '', 'the producer has gone on to its end');
  assert.equal(handle.exitCode, undefined);
  const grown = stop();
  if (counted) assert.ok(grown < 48 * MB, `grew by ${Math.round(grown / MB)} MiB`);
  let total = 0;
  for await (const chunk of reader) {
    total += chunk.length;
    if (total === 5 * MB) await sleep(20);
  }
  assert.equal(total, 1600 * 65536);
  assert.equal((await handle.wait()).exitCode, 0);
}));

test('many processes at once', using({}, async ({ sandbox }) => {
  await sandbox.executeCommand('true');
  const count = long ? 1000 : 200;
  const before = descriptors();
  const handles = await Promise.all(Array.from({ length: count }, (_, i) => sandbox.processes.spawn(`echo ${i}; read x; exit ${i % 100}`)));
  assert.equal(new Set(handles.map(handle => handle.pid)).size, count);
  assert.equal((await sandbox.processes.list()).filter(one => one.running).length, count);
  await Promise.all(handles.map(handle => handle.closeStdin()));
  const results = await Promise.all(handles.map(handle => handle.wait()));
  results.forEach((result, i) => assert.deepEqual([result.stdout, result.exitCode], [`${i}\n`, i % 100]));
  await until(() => descriptors() <= before);
}));

test('as many in sequence: no growth of descriptors, threads, memory', using({}, async ({ sandbox }) => {
  const some = async count => {
    for (let i = 0; i < count; i++) {
      const { exitCode } = await sandbox.executeCommand('true', [], { onStdout: () => {} });
      assert.equal(exitCode, 0);
      if (i % 10 === 0) await (await sandbox.processes.spawn('true')).wait();
      if (i % 10 === 0) for (const { pid } of await sandbox.processes.list()) sandbox.processes.release?.(pid);
    }
  };
  const count = long ? 10_000 : 500;
  await some(count / 5);
  const before = [descriptors(), threads()];
  const memory = [held()];
  for (let half = 0; half < 2; half++) {
    await some(count / 2);
    memory.push(held());
  }
  await until(() => descriptors() <= before[0] && threads() <= before[1]);
  // What each command leaves grows in both halves; V8's own heap, which counts with
  // the rest, may grow by megabytes in one.
  const grown = kind => Math.min(memory[1][kind] - memory[0][kind], memory[2][kind] - memory[1][kind]);
  // A kilobyte that each command leaves would be seen.
  assert.ok(grown('heap') < count * 250 + 50_000, `V8 holds ${grown('heap')} bytes more`);
  if (counted) assert.ok(grown('all') < 4 * MB, `grew by ${Math.round(grown('all') / MB)} MiB`);
  assert.match(await out({ sandbox }, 'ls /proc | grep -cE "^[0-9]+$"'), /^[0-9]\n$/, 'processes are left inside');
}));

test('fifty commands at once keep apart', using({}, async ({ sandbox }) => {
  const results = await Promise.all(
    Array.from({ length: 50 }, (_, i) => sandbox.executeCommand('for k in 1 2 3; do echo $N; done; echo e$N >&2; exit $N', [], { env: { N: String(i) } })),
  );
  results.forEach((result, i) => assert.deepEqual([result.stdout, result.stderr, result.exitCode], [`${i}\n`.repeat(3), `e${i}\n`, i]));
}));
