// From what a user wrote to argv and an absolute cwd, and back from an exit to a
// result.
import { posix } from 'node:path';

import { invalid } from './errors.js';
import { ROOT, type, verb } from './native.js';
import { show } from './options.js';

const plainWord = /^[A-Za-z0-9._\-/=:@]+$/;

/** Mastra's quoting of one argument for a shell. */
export function quote(word) {
  return plainWord.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export function joinCommand(command, args) {
  let line = command;
  for (const arg of args) line += ` ${quote(arg)}`;
  return line;
}

// Words that mean something to a shell and are no programs, or other ones.
const builtins = new Set(
  (
    '. : [[ alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare ' +
    'dirs disown do done elif else enable esac eval exec exit export fc fg fi for function getopts hash help ' +
    'history if jobs let local logout mapfile popd pushd read readarray readonly return select set shift shopt ' +
    'source suspend then time times trap type typeset ulimit umask unalias unset until wait while'
  ).split(' '),
);
const programName = /^[A-Za-z0-9_./+:@%-]+$/;

/** Whether `command` with arguments is a program that needs no shell. */
export function isProgram(command) {
  return programName.test(command) && !builtins.has(command);
}

export function shellArgv(shell, line) {
  // Without "--" a line that starts with - or + would be taken for options.
  const first = line.charCodeAt(0);
  return first === 45 || first === 43 ? [shell, '-c', '--', line] : [shell, '-c', line];
}

export function argvFor(shell, command, args) {
  if (!args?.length) return shellArgv(shell, command);
  if (isProgram(command)) return [command, ...args];
  return shellArgv(shell, joinCommand(command, args));
}

/** NUL cannot be passed to a program; everything else can. */
export function checkCommand(command, args) {
  if (typeof command !== 'string') throw invalid(`command must be a string, not ${show(command)}`);
  if (command.trim() === '') throw invalid('command must not be empty');
  if (command.includes('\0')) throw invalid('command must not contain a NUL character');
  if (args === undefined || args === null) return;
  if (!Array.isArray(args)) throw invalid(`args must be an array of strings, not ${show(args)}`);
  for (const arg of args) {
    if (typeof arg !== 'string') throw invalid(`each argument must be a string, not ${show(arg)}`);
    if (arg.includes('\0')) throw invalid('arguments must not contain a NUL character');
  }
}

/** The rest of an absolute `path` below `prefix`, '' or '/a/b'; else undefined. */
export function below(prefix, path) {
  if (!prefix) return undefined;
  if (path === prefix) return '';
  if (prefix === '/') return path;
  return path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : undefined;
}

function tidy(path) {
  const normal = posix.normalize(path);
  return normal.length > 1 && normal.endsWith('/') ? normal.slice(0, -1) : normal;
}

/** An absolute path inside for a path of the workspace in any absolute spelling,
 * or undefined when it is none. `place` has inside, host and shown. */
export function insideWorkspace(place, path) {
  if (path === '/') return place.inside;
  const rest = below(place.inside, path) ?? below(place.host, path) ?? below(place.shown, path);
  return rest === undefined ? undefined : place.inside + rest;
}

/** Throws for a `cwd` that is wrong whatever lies in the sandbox. */
export function checkCwd({ place }, workdir, cwd) {
  if (cwd === undefined || cwd === null || cwd === '') return;
  if (typeof cwd !== 'string') throw invalid(`cwd must be a string, not ${show(cwd)}`);
  if (cwd.includes('\0')) throw invalid('cwd must not contain a NUL character');
  if (cwd.startsWith('/') || below(place.inside, workdir) === undefined) return;
  if (below(place.inside, tidy(posix.join(workdir, cwd))) !== undefined) return;
  throw invalid(`cwd ${show(cwd)} leaves the workspace; name a folder below ${place.inside}`);
}

/**
 * Where a command with `cwd` starts: a string, or a promise of one where the
 * sandbox has to be asked. Relative paths are below `workdir`.
 */
export function resolveCwd(session, workdir, cwd) {
  if (cwd === undefined || cwd === null || cwd === '') return workdir;
  checkCwd(session, workdir, cwd);
  if (!cwd.startsWith('/')) return tidy(posix.join(workdir, cwd));
  const path = tidy(cwd);
  return insideWorkspace(session.place, path) ?? foreignCwd(session, path);
}

// /tmp, /usr: the sandbox's own folder if it has one; else `/x` means what it
// means to the file tools, x in the workspace. At a service that is found out
// there, as the command is started.
function foreignCwd(session, path) {
  return session.provider?.remote ? path : ownOrWorkspace(session, path);
}

async function ownOrWorkspace(session, path) {
  const found = await session.native.file(ROOT, verb.STAT, path).catch(() => undefined);
  return found?.type === type.DIRECTORY ? path : session.place.inside + path;
}

/** `callback` made harmless: what it throws or rejects with goes to `report`,
 * which may throw, too (a user's logger). */
export function guard(callback, report) {
  const failed = error => {
    try {
      report(error);
    } catch {}
  };
  return text => {
    try {
      const result = callback(text);
      if (typeof result?.then === 'function') result.then(undefined, failed);
    } catch (error) {
      failed(error);
    }
  };
}

/** `promise`, which may be left alone: input that nobody waits for is often cut off by a kill. */
export function handled(promise) {
  promise.catch(() => {});
  return promise;
}

/** What the results of both surfaces have in common. */
export function outcomeOf(exit, stdout, stderr) {
  return {
    success: exit.exitCode === 0,
    exitCode: exit.exitCode,
    stdout,
    stderr,
    killed: wasKilled(exit),
    timedOut: exit.timedOut,
    ...(exit.reason ? { reason: exit.reason } : undefined),
    stdoutTruncated: exit.stdoutDropped > 0,
    stderrTruncated: exit.stderrDropped > 0,
    stdoutDroppedBytes: exit.stdoutDropped,
    stderrDroppedBytes: exit.stderrDropped,
  };
}

/** By us, a limit or a signal. */
export const wasKilled = exit => exit.killed || exit.timedOut || exit.signal !== 0;

/** The exit of a command whose signal had fired before it was started. */
export const NEVER_STARTED = Object.freeze({
  exitCode: 137,
  signal: 9,
  killed: true,
  timedOut: false,
  durationMs: 0,
  stdout: '',
  stderr: '',
  stdoutDropped: 0,
  stderrDropped: 0,
});

/** What is added to stderr after a timeout, as Mastra does, and after a limit was reached; '' for neither. */
export function endNote(exit, timeout) {
  const late = exit.timedOut ? `\nProcess timed out after ${timeout}ms` : '';
  return exit.reason ? `${late}\n${exit.reason}` : late;
}
