// Content search with JavaScript's own regular expressions: the addon hands
// over the files that can match at all, a worker thread searches them, and a
// pattern that backtracks for ever is ended with it.
import { Worker } from 'node:worker_threads';

import { searchBatch } from './grep-worker.js';
import { eachGathered, lastGathered } from './listing.js';
import { flag, verb, WORKSPACE } from './native.js';
import { patternFacts } from './pattern.js';


// The first answer is small: where it is all, the search may need no thread.
const FIRST_BYTES = 256 * 1024;
const BATCH_BYTES = 1024 * 1024;
// Steps of a pattern that the main thread may spend: one or two milliseconds.
const INLINE_STEPS = 1_000_000;
const WORKERS_MAX = 2;
const NAME_BYTES = 4096;

// -- threads

class Searcher {
  #where = new SharedArrayBuffer(NAME_BYTES);
  #worker;
  #settle;

  constructor() {
    this.#worker = new Worker(new URL('./grep-worker.js', import.meta.url), {
      workerData: { sandboxSdkGrep: true, where: this.#where },
      execArgv: [],
      env: {},
    });
    this.#worker.on('message', ({ results, error }) => this.#done(error, results));
    this.#worker.on('error', error => this.#lost(error));
    this.#worker.on('exit', () => this.#lost(new Error('The search thread ended.')));
    this.#worker.unref();
  }

  run(job) {
    this.#worker.ref();
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
      this.#worker.postMessage(job);
    });
  }

  // The file that is being searched.
  path() {
    const name = Buffer.from(new Uint8Array(this.#where));
    return name.toString('utf8', 0, name.indexOf(0));
  }

  end() {
    this.gone = true;
    this.#settle = undefined;
    this.#worker.terminate();
  }

  #done(error, results) {
    const settle = this.#settle;
    this.#settle = undefined;
    this.#worker.unref();
    if (error) settle?.reject(error);
    else settle?.resolve(results);
  }

  #lost(error) {
    this.gone = true;
    this.#done(error);
  }
}

const pool = { idle: [], size: 0, waiting: [] };

async function take() {
  const ready = pool.idle.pop();
  if (ready && !ready.gone) return ready;
  if (ready) pool.size--;
  if (pool.size < WORKERS_MAX) {
    pool.size++;
    return new Searcher();
  }
  return new Promise(resolve => pool.waiting.push(resolve));
}

function give(searcher) {
  const next = pool.waiting.shift();
  if (next) return next(searcher.gone ? new Searcher() : searcher);
  if (searcher.gone) pool.size--;
  else pool.idle.push(searcher);
}

// -- one search

const shown = text => (text.length > 80 ? `${text.slice(0, 77)}...` : text);

function slow(options, timeoutMs, path) {
  const where = path ? `in "${path}"` : `below "${options.path}"`;
  const message =
    `The search for /${shown(options.pattern)}/ ${where} took longer than ${timeoutMs / 1000} s and was stopped; ` +
    'simplify the pattern (nested repetitions such as (a+)+ never end) or name a smaller folder.';
  return Object.assign(new Error(message), { code: 'timeout', operation: 'files.grep', retryable: false, path });
}

// Rejects when the time is up and ends the thread that is at work.
class Clock {
  constructor(options, timeoutMs) {
    this.up = new Promise((_, reject) => {
      this.timer = setTimeout(() => {
        const path = this.searcher?.path();
        this.searcher?.end();
        reject(slow(options, timeoutMs, path));
      }, timeoutMs);
    });
    this.up.catch(() => {});
  }

  within(promise) {
    return Promise.race([promise, this.up]);
  }

  async search(job) {
    const taken = take();
    try {
      this.searcher = await this.within(taken);
      return await this.within(this.searcher.run(job));
    } finally {
      // Also a thread that comes when nobody waits for it any more.
      this.searcher = undefined;
      taken.then(give);
    }
  }

  stop() {
    clearTimeout(this.timer);
  }
}

function checked(options) {
  const { pattern, caseSensitive = true, maxCountPerFile, maxTotalMatches = 1000, contextLines = 0 } = options;
  return {
    pattern,
    flags: caseSensitive ? 'g' : 'gi',
    // Mastra's search counts after each match: 0 is one match.
    maxCountPerFile: maxCountPerFile === undefined ? Infinity : Math.max(1, maxCountPerFile),
    room: maxTotalMatches,
    contextLines: Math.max(0, Math.floor(contextLines)),
  };
}

// Steps that a search by an orderly pattern can take at most.
function steps({ entries }, facts) {
  let sum = 0;
  for (let at = 0; at < entries.length; ) {
    const end = entries.indexOf(10, at);
    const length = (end < 0 ? entries.length : end) - at + 1;
    sum += length ** (1 + facts.loops) * facts.choices;
    if (sum > INLINE_STEPS) break;
    at += length;
  }
  return sum;
}

function isCheap(listing, facts) {
  return !listing.more && listing.entries.length <= FIRST_BYTES && steps(listing, facts) <= INLINE_STEPS;
}

function skipped(listing, isTextFile) {
  if (!isTextFile) return undefined;
  const marks = new Uint8Array(listing.count);
  let index = 0;
  eachGathered(listing, name => {
    marks[index++] = isTextFile(name.slice(name.lastIndexOf('/') + 1)) ? 0 : 1;
  });
  return marks;
}

// Mastra's grep tool names every option. It drops what .gitignore names, after
// the caps, and answers every error with its own search on the main thread.
const isFromTool = options => Object.hasOwn(options, 'maxCountPerFile') && Object.hasOwn(options, 'maxTotalMatches');

// Folders that the tool ignores for sure, wherever they lie: plain names in the
// root's .gitignore. Nothing is ignored where the search starts in such a folder.
async function ignoredFolders(sandbox, path, known) {
  const text = known ?? (await sandbox.file(WORKSPACE, verb.READ, '.gitignore', { text: true }).catch(() => ''));
  const lines = text.split(/\r?\n/);
  if (lines.some(line => line.startsWith('!'))) return [];
  const names = lines.map(line => /^([\w@-][\w.@-]*)\/?$/.exec(line)?.[1]).filter(Boolean);
  const parts = path.split('/').map(part => part.toLowerCase());
  return names.some(name => parts.includes(name.toLowerCase())) ? [] : names;
}

// An answer in place of an error that would make the tool run the same pattern
// where nothing can end it.
const told = error => ({ path: error.path, matches: [{ line: 1, column: 0, text: `[${error.message}]` }] });

const count = results => results.reduce((sum, { matches }) => sum + matches.length, 0);

/** Lines that match, as Mastra's `FilesystemGrepResult[]`: equal to JavaScript's
 * RegExp on each line, the first match of a line only, in the order of names.
 * Rejects with a SyntaxError for an invalid pattern, with `code` "timeout" when it takes longer than
 * `timeoutMs` (Mastra's grep tool gets that as the text of a last match), with a NativeError when
 * `path` cannot be searched. `gitignore`: the root's .gitignore, where the caller has it. */
export async function grep(sandbox, options, { timeoutMs = 10_000, isTextFile, extensions, gitignore } = {}) {
  const base = checked(options);
  new RegExp(base.pattern, base.flags);
  const fromTool = isFromTool(options);
  base.prune = fromTool ? await ignoredFolders(sandbox, options.path, gitignore) : [];
  const facts = patternFacts(base.pattern, base.flags === 'g');
  base.whole = facts.wholeText;
  // A line without the literal cannot match, and nobody sees it.
  const lines = facts.literal && base.contextLines === 0 ? flag.LINES : 0;
  const results = [];
  const gather = (to, maxBytes) =>
    sandbox.file(WORKSPACE, verb.GATHER, options.path, {
      to,
      maxBytes,
      extensions,
      prune: base.prune.length > 0 ? base.prune : undefined,
      data: facts.literal || undefined,
      flags: (options.includeHidden ? flag.HIDDEN : 0) | (base.flags === 'g' ? 0 : flag.FOLD) | lines,
    });
  const clock = new Clock(options, timeoutMs);
  try {
    let listing = await clock.within(gather(undefined, FIRST_BYTES));
    while (base.room > 0) {
      const next = listing.more ? gather(lastGathered(listing), BATCH_BYTES) : undefined;
      next?.catch(() => {});
      const job = { ...base, listing, skip: isTextFile && skipped(listing, isTextFile) };
      const found = isCheap(listing, facts) ? searchBatch(job) : await clock.search(job);
      results.push(...found);
      base.room -= count(found);
      if (!next) break;
      listing = await clock.within(next);
    }
    return results;
  } catch (error) {
    if (fromTool && error.code === 'timeout' && error.path) return [...results, told(error)];
    throw error;
  } finally {
    clock.stop();
  }
}
