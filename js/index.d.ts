/// <reference types="node" />

/** What a file can be written from: text, bytes, or a stream of those. */
export type FileValue =
  | string
  | Uint8Array
  | ArrayBuffer
  | ArrayBufferView
  | Blob
  | ReadableStream<string | Uint8Array>
  | Iterable<string | Uint8Array>
  | AsyncIterable<string | Uint8Array>;

/** Names of variables and their values; undefined removes a variable. */
export type Environment = Record<string, string | number | boolean | undefined>;

export type SandboxErrorCode =
  | 'authentication'
  | 'permission'
  | 'not_found'
  | 'conflict'
  | 'invalid_input'
  | 'rate_limited'
  | 'timeout'
  | 'aborted'
  | 'unsupported'
  | 'unavailable'
  | 'provider_error'
  | 'internal';

export const sandboxErrorCodes: readonly SandboxErrorCode[];

export interface SandboxErrorOptions {
  cause?: unknown;
  provider?: string;
  operation?: string;
  retryable?: boolean;
  errno?: string;
  step?: string;
}

/** An error of the sandbox. Test `code`; the message names the thing and the remedy. */
export class SandboxError extends Error {
  constructor(code: SandboxErrorCode, message: string, options?: SandboxErrorOptions);
  readonly name: 'SandboxError';
  readonly code: SandboxErrorCode;
  /** Name of the provider, where one was involved. */
  readonly provider?: string;
  /** What failed, "files.write". */
  readonly operation?: string;
  /** The same call may succeed later, unchanged. */
  readonly retryable: boolean;
  /** Kernel error behind it, "EPERM". */
  readonly errno?: string;
  /** Name of the set-up step of the isolation that failed. */
  readonly step?: string;
}

/** Whether `value` is a SandboxError, and of `code` if that is given. */
export function isSandboxError(value: unknown, code?: SandboxErrorCode): value is SandboxError;

export type CapabilityMode = 'native' | 'emulated' | 'unsupported';

/** What a factory such as local() returns: options, and the sessions made of them. */
export interface SandboxProvider {
  /** "local" */
  readonly name: string;
  /**
   * Forgets the templates of `identity`, and deletes those that a service keeps for this instance. Rejects where one is
   * still in use there; call it again later.
   */
  close(): Promise<void>;
  /** @internal */
  readonly __sandboxSdkProvider?: never;
}

export interface CommandResult {
  /** 0-255; 128+n after signal n, 124 after the timeout, 126 and 127 if it could not be run. */
  exitCode: number;
  /** exitCode is 0 */
  success: boolean;
  stdout: string;
  stderr: string;
  durationMs: number;
  /** Ended by a signal. */
  killed: boolean;
  timedOut: boolean;
  /** Which limit was reached, in one sentence; it also ends stderr. */
  reason?: string;
  stdoutTruncated: boolean;
  stderrTruncated: boolean;
  stdoutDroppedBytes: number;
  stderrDroppedBytes: number;
}

export interface RunOptions {
  /** Relative: below the working directory. Default: the working directory. */
  cwd?: string;
  /** Added to the sandbox's environment for this command. */
  env?: Environment;
  /** ms; the command and all it started are ended after it. Default: none. */
  timeout?: number;
  /** Abort kills the command; the result says `killed`. */
  signal?: AbortSignal;
  /**
   * What the command reads. Default: nothing, end-of-file at once. A stream that
   * fails kills the command, and run() rejects with its error.
   */
  stdin?: FileValue;
  /** Called with text as it arrives. May throw or reject without harm: the first time is a process warning. */
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
  /** Newest bytes kept per stream. Default: Infinity (256 MiB); for processes 1 MiB. */
  maxRetainedBytes?: number;
}

export interface StartOptions extends Omit<RunOptions, 'stdin'> {
  /** `false`: end-of-file at once instead of an open pipe. */
  stdin?: FileValue | boolean;
  /**
   * A terminal for the process (default 80 x 24): what it writes is all stdout,
   * and write("\x03") interrupts what is in the foreground.
   */
  pty?: boolean | { cols?: number; rows?: number };
}

export interface SandboxProcess {
  /** Process id inside the sandbox, as text. */
  readonly pid: string;
  readonly id: string;
  readonly command: string;
  /** undefined while it runs; changes by itself. */
  readonly exitCode: number | undefined;
  /** The newest output kept. */
  readonly stdout: string;
  readonly stderr: string;
  output(): Promise<
    Pick<
      CommandResult,
      'stdout' | 'stderr' | 'stdoutTruncated' | 'stderrTruncated' | 'stdoutDroppedBytes' | 'stderrDroppedBytes'
    >
  >;
  status(): Promise<{ running: boolean; exitCode?: number; killed?: boolean; timedOut?: boolean }>;
  /** Sends to stdin; resolves when the bytes left. */
  write(data: string | Uint8Array): Promise<void>;
  closeStdin(): Promise<void>;
  wait(): Promise<CommandResult>;
  /** Kills the whole tree; false if it had already ended. */
  kill(): Promise<boolean>;
  /** "INT", "SIGTERM" ...; false if it had already ended. */
  signal(name: string): Promise<boolean>;
  /** Size of the terminal of a process started with `pty`. */
  resize(cols: number, rows: number): Promise<void>;
}

export interface ListedProcess {
  pid: string;
  command: string;
  running: boolean;
  /** At a service. */
  startedAt?: Date;
  /** Not running, and known. */
  exitCode?: number;
}

export interface SandboxFileEntry {
  name: string;
  path: string;
  type: 'file' | 'directory';
  /** bytes */
  size?: number;
  isSymlink?: boolean;
  symlinkTarget?: string;
}

export interface SandboxFileStat {
  type: 'file' | 'directory';
  /** bytes */
  size: number;
  /** permission bits */
  mode: number;
  modifiedAt: Date;
  createdAt: Date;
}

export interface SandboxFileEvent {
  /** A rename tells the old name; the new one is a "create". */
  type: 'create' | 'write' | 'remove' | 'rename' | 'chmod';
  /** Relative to the folder that is watched. */
  name: string;
  /** `name` below the path that was given. */
  path: string;
}

/** Relative paths are below the working directory, absolute ones in the sandbox's own root. */
export interface SandboxFiles {
  /** Writes a file and the folders above it. */
  write(
    path: string,
    data: FileValue,
    options?: { overwrite?: boolean; mode?: number; signal?: AbortSignal },
  ): Promise<void>;
  read(path: string): Promise<Buffer>;
  text(path: string): Promise<string>;
  list(path?: string, options?: { recursive?: boolean }): Promise<SandboxFileEntry[]>;
  /** `recursive` (default true): the folders above it, too. */
  mkdir(path: string, options?: { recursive?: boolean }): Promise<void>;
  /** A file, or a folder with what is in it (`recursive`, default true). `force`: also if missing. */
  remove(path: string, options?: { recursive?: boolean; force?: boolean }): Promise<void>;
  exists(path: string): Promise<boolean>;
  stat(path: string): Promise<SandboxFileStat>;
  /**
   * Calls `onEvent` for what happens in a folder, and with `recursive` in those below it, from when it resolves until
   * stop(), an abort, or the end of the sandbox or connection. `onExit` is called then, with an error unless it was
   * stopped: what happens after that is not told. Keeps Node alive. `unsupported` where the capability "watch" says so.
   */
  watch(
    path: string,
    onEvent: (event: SandboxFileEvent) => void,
    options?: { recursive?: boolean; signal?: AbortSignal; onExit?: (error?: SandboxError) => void },
  ): Promise<{ stop(): Promise<void> }>;
}

export interface SandboxChanges {
  /** By path, relative to the workspace. */
  changes: {
    path: string;
    change: 'added' | 'modified' | 'deleted';
    type: 'file' | 'directory' | 'symlink' | 'other';
  }[];
  /** The files in git's format, for `git apply`; undefined where git is not installed. */
  patch: string | undefined;
}

export interface SandboxSnapshot {
  id: string;
  /** As given to create(). */
  name?: string;
  bytes: number;
  createdAt: Date;
}

export interface ExposedPort {
  /** "http://127.0.0.1:54321", on this machine only. */
  readonly url: string;
  /**
   * fetch() of a path there; does not follow redirects unless told to. Its connections are this object's own,
   * unless `init.dispatcher` is given or the process has a dispatcher of another kind, such as a proxy's.
   */
  request(path?: string, init?: RequestInit): Promise<Response>;
}

/** Hosts: "example.com", "*.example.com", "example.com:8443", an address, or "npm", "pip", "git", "apt". */
export type NetworkPolicy = 'deny' | readonly string[] | { readonly allow: readonly string[] };

export interface NetworkDenial {
  host: string;
  port: number;
  /** A sentence. */
  reason: string;
}

/** Coordinates in pixels from the top left corner. */
export interface SandboxComputer {
  screenshot(): Promise<{ data: Uint8Array; mediaType: 'image/png' }>;
  leftClick(x: number, y: number): Promise<void>;
  rightClick(x: number, y: number): Promise<void>;
  doubleClick(x: number, y: number): Promise<void>;
  moveMouse(x: number, y: number): Promise<void>;
  drag(from: { x: number; y: number }, to: { x: number; y: number }): Promise<void>;
  /** `amount`: steps of the wheel, 1 to 1000. */
  scroll(direction: 'up' | 'down', amount: number): Promise<void>;
  /** At most 20,000 characters. */
  type(text: string): Promise<void>;
  /** A key ("Enter", "a", "F5") or a chord (["ctrl", "s"]). */
  press(key: string | string[]): Promise<void>;
  getScreenSize(): Promise<{ width: number; height: number }>;
  getCursorPosition(): Promise<{ x: number; y: number }>;
}

export interface Sandbox extends AsyncDisposable {
  readonly id: string;
  /** Name of the provider. */
  readonly provider: string;
  /** Where commands start, as they see it. */
  readonly cwd: string;
  readonly status: string;
  readonly files: SandboxFiles;
  /** A string runs in a shell, an array as argv. Resolves for every exit code. */
  run(command: string | readonly string[], options?: RunOptions): Promise<CommandResult>;
  readonly processes: {
    start(command: string | readonly string[], options?: StartOptions): Promise<SandboxProcess>;
    /**
     * Commands that processes.start() and Mastra's spawn have started: those of this object and, where commands outlive
     * their host (at a service), those of every other.
     */
    list(): Promise<ListedProcess[]>;
    /**
     * Goes on with a command of list(): its output from the oldest byte that is kept (a terminal's: from now on), its
     * end, and its input, if it was started with one.
     */
    attach(pid: string | number, options?: Pick<RunOptions, 'onStdout' | 'onStderr' | 'signal' | 'maxRetainedBytes'>): Promise<SandboxProcess>;
  };
  readonly ports: {
    /** `invalid_input` for a port that is not declared. Ends with stop(). */
    expose(port: number): Promise<ExposedPort>;
  };
  /** Only where the provider says that the template has a desktop. */
  readonly computer?: SandboxComputer;
  readonly snapshots: {
    /** Keeps the workspace as it is; one of the same name is replaced when the new one is whole. */
    create(name?: string): Promise<SandboxSnapshot>;
    /** Ends every process and puts the snapshot in the place of the workspace's content; all or nothing. */
    restore(id: string): Promise<void>;
    delete(id: string): Promise<void>;
    /** The oldest first. */
    list(): Promise<SandboxSnapshot[]>;
  };
  /** What is different from the template of `identity`; `unsupported` for a sandbox that lies on none. */
  changes(): Promise<SandboxChanges>;
  readonly capabilities: Readonly<Record<string, CapabilityMode>>;
  /** What holds here, by name: "level", "mechanisms", "degraded" (a reason per line), "limits.memory" ... */
  readonly metadata: Readonly<Record<string, string>>;
  /** Replaces the network policy at once; open connections to other hosts end. */
  setNetworkPolicy(policy: NetworkPolicy): Promise<void>;
  /**
   * Stops every process where it is until resume(). Time limits stand still,
   * commands started meanwhile wait; files, kill() and stop() work.
   */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Ends the processes and lets the sandbox go: one with an `id` keeps its files, another is removed. */
  stop(): Promise<void>;
  /** Ends the processes and removes the sandbox and its files, also after stop(); never a `directory`. */
  destroy(): Promise<void>;
  /** Throws `unsupported`: there is no provider SDK behind this package. */
  readonly raw: never;
}

export interface CreateSandboxOptions {
  provider: SandboxProvider;
  /**
   * The same id on one provider instance is the same sandbox, and stop() keeps
   * its files for the next one, until destroy(). Without it stop() removes the sandbox.
   */
  id?: string;
  /** onFirstCreate runs once for it; later sandboxes get a copy of the files. */
  identity?: string;
  /** Where the workspace is inside; absolute. Default "/workspace". */
  cwd?: string;
  /** Where commands start; relative: below cwd. Made if it is missing. */
  workingDirectory?: string;
  env?: Environment;
  /** Ports that may get a URL. */
  ports?: readonly number[];
  /** Called once for each host and port that the network policy refused. */
  onNetworkDenied?: (denial: NetworkDenial) => void;
  /** Snapshot that a created sandbox starts with, if there is one, and that Mastra's snapshot() writes. */
  checkpointName?: string;
  /** ... and that it starts with if there is none of that name. */
  seedCheckpointName?: string;
  /** Prepares a sandbox that was created, never one that was found. */
  onFirstCreate?: (sandbox: Sandbox) => void | Promise<void>;
}

/** Starts a sandbox. Wrong options throw at once; a failed start rejects. */
export function createSandbox(options: CreateSandboxOptions): Promise<Sandbox>;

/**
 * Runs `work` with a sandbox. Afterwards one that this call created is destroyed,
 * and one that was found by its `id`, or has an `id` in a `root`, is stopped.
 */
export function withSandbox<T>(options: CreateSandboxOptions, work: (sandbox: Sandbox) => T | Promise<T>): Promise<T>;

type HasCapabilities = Sandbox | SandboxProvider | { readonly sandboxSdk: Sandbox };

export function supports(target: HasCapabilities, name: string): boolean;
export function capabilityMode(target: HasCapabilities, name: string): CapabilityMode;
/** The mode; throws `unsupported` with the reason if there is none. */
export function requireCapability(target: HasCapabilities, name: string): CapabilityMode;

/** The provider named by SANDBOX_PROVIDER ("local" if unset), made with `options`. */
export function providerFromEnvironment(
  options?: object,
  env?: Record<string, string | undefined>,
): Promise<SandboxProvider>;
