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

/** Searches one GATHER answer. `job`: {listing, pattern, flags, whole,
 * maxCountPerFile, room, contextLines}; `whole` is a pattern that is found in every text with a line
 * that matches. Returns [{path, matches}]; `progress(name)` tells where it is. */
export function searchBatch(job, progress) {
  const regex = new RegExp(job.pattern, job.flags);
  const whole = job.whole === undefined ? undefined : new RegExp(job.whole, job.wholeFlags);
  const results = [];
  let room = job.room;
  eachGathered(job.listing, (path, content) => {
    progress?.(path);
    const text = content.utf8Slice(0, content.length);
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
