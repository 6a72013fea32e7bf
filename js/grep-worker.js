// Searches gathered files line by line; as a worker thread, so that a pattern
// that backtracks for ever can be ended.
import { parentPort, workerData } from 'node:worker_threads';

import { eachGathered } from './listing.js';

// The lines around line `at` that exist.
function context(lines, at, count) {
  return {
    before: lines.slice(Math.max(0, at - count), at),
    after: lines.slice(at + 1, at + 1 + count),
  };
}

// Mastra's own search: lines end at "\n", a match is the first of its line.
function searchText(text, { regex, contextLines }, limit) {
  const matches = [];
  const lines = text.split('\n');
  for (let at = 0; at < lines.length && matches.length < limit; at++) {
    regex.lastIndex = 0;
    const match = regex.exec(lines[at]);
    if (!match) continue;
    const found = { line: at + 1, column: match.index, text: lines[at] };
    if (contextLines > 0) Object.assign(found, context(lines, at, contextLines));
    matches.push(found);
  }
  return matches;
}

function decode(content) {
  try {
    return content.utf8Slice(0, content.length);
  } catch {
    return ''; // longer than a string can be: Mastra's search cannot read it either
  }
}

const isPruned = (path, prune) => prune.length > 0 && path.split('/').slice(0, -1).some(one => prune.includes(one));

/** Searches one GATHER answer for a job {listing, pattern, flags, whole, skip, prune,
 * maxCountPerFile, room, contextLines}. `whole` says that a test of the whole text with the flag m
 * finds every text with a line that matches; `skip` has a 1 for each file and `prune` the names of
 * folders that are left out. Returns [{path, matches}]; `progress(path)` tells where it is. */
export function searchBatch(job, progress) {
  const regex = new RegExp(job.pattern, job.flags);
  const whole = job.whole ? new RegExp(job.pattern, job.flags.replace('g', 'm')) : undefined;
  const results = [];
  let room = job.room;
  let index = 0;
  eachGathered(job.listing, (path, content) => {
    if (job.skip?.[index++] || isPruned(path, job.prune)) return true;
    progress?.(path);
    const text = decode(content);
    if (whole && !whole.test(text)) return true;
    const matches = searchText(text, { regex, contextLines: job.contextLines }, Math.min(room, job.maxCountPerFile));
    if (matches.length > 0) results.push({ path, matches });
    room -= matches.length;
    return room > 0;
  });
  return results;
}

if (workerData?.sandboxSdkGrep) {
  const where = new Uint8Array(workerData.where);
  // The main thread reads the name when it has to end this one.
  const progress = path => {
    const { written } = new TextEncoder().encodeInto(path, where.subarray(0, -1));
    where[written] = 0;
  };
  parentPort.on('message', job => {
    const { entries, count } = job.listing;
    job.listing = { entries: Buffer.from(entries.buffer, entries.byteOffset, entries.byteLength), count };
    try {
      parentPort.postMessage({ results: searchBatch(job, progress) });
    } catch (error) {
      parentPort.postMessage({ error });
    }
  });
}
