/** The addon as the shim sees it (internal). Made by native/binding. */

export interface NativeError extends Error {
  /** "invalid_input" ... of the twelve, or a file code: "ENOENT" (file),
   * "ENOENT_DIR", "EEXIST", "EISDIR", "ENOTDIR", "ENOTEMPTY", "EACCES",
   * "ESTALE", "EIO", "ESPECIAL". */
  code: string;
  operation: string;
  retryable: boolean;
  /** Kernel error name behind it, "EROFS". */
  errno?: string;
  /** Name of the failed set-up step. */
  step?: string;
  /** Of an ExitResult: it was started, or may have been; do not start it again. */
  ran?: boolean;
  /** ESTALE: the file's time, ms. */
  number?: number;
}

export type OptionValue = string | number | boolean | string[] | { [name: string]: OptionValue | undefined } | undefined;

export interface FileStat { type: 1 | 2 | 3 | 4; size: number; mode: number; modifiedMs: number; createdMs: number }

export interface FileOptions {
  /** A second path (copy, move; gather: go on after it). */
  to?: string;
  data?: string | Uint8Array;
  /** enum sbx_file_flag, or-ed. */
  flags?: number;
  /** ms */
  expectedMtime?: number;
  mode?: number;
  maxDepth?: number;
  maxBytes?: number;
  extensions?: string[];
  /** GATHER: names of folders that are left out. */
  prune?: string[];
  /** READ: a string decoded from UTF-8 instead of a Buffer. */
  text?: boolean;
}

export interface Listing { entries: Buffer; count: number; more: boolean }

export interface SpawnSpec {
  argv: string[];
  cwd: string;
  /** "NAME=value", the whole environment. */
  env: string[];
  stdin?: boolean;
  /** ms; 0 or absent: none */
  timeout?: number;
  /** ms from TERM to KILL, default 2000 */
  grace?: number;
  /** bytes kept per stream, default 1 MiB; Infinity: 256 MiB */
  retain?: number;
  /** enum sbx_listen per stream from the first byte on: 1 bytes, 2 text */
  listenStdout?: number;
  listenStderr?: number;
  /** > 0: a terminal of that size; all output is stdout */
  columns?: number;
  rows?: number;
  /** may be attached to by another host, where the provider allows it */
  background?: boolean;
  /** the exit result carries stdout and stderr as text */
  collect?: boolean;
}

export interface ExitResult {
  exitCode: number;
  signal: number;
  killed: boolean;
  timedOut: boolean;
  /** One sentence if a limit was reached. */
  reason?: string;
  durationMs: number;
  userUs: number; systemUs: number; maxRssBytes: number;
  /** Never started: missing cwd, session gone; or, with `ran`, of no known end. exitCode is then -1. */
  error?: NativeError;
  /** With collect. */
  stdout?: string; stderr?: string;
  stdoutDropped: number; stderrDropped: number;
}

export interface NativeEvents {
  onSpawn?(pid: number): void;
  onBytes?(stream: 0 | 1, bytes: Buffer): void;
  onText?(stream: 0 | 1, text: string): void;
  onExit(result: ExitResult): void;
}

export interface NativeProcess {
  listen(stream: 0 | 1, mask: number): void;
  pause(stream: 0 | 1, paused: boolean): void;
  /** Resolves when the bytes left; rejects when they cannot. */
  write(data: string | Uint8Array): Promise<void>;
  closeStdin(): void;
  /** Ends the tree; false when it has already settled. */
  end(graceMs: number): boolean;
  signal(signo: number): void;
  /** Of its terminal; without one nothing happens. */
  resize(columns: number, rows: number): void;
  output(stream: 0 | 1): string;
  dropped(stream: 0 | 1): number;
  /** Gives the memory back; output() is '' afterwards. */
  release(): void;
}

export interface NativeSandbox {
  find(): Promise<boolean>;
  create(): Promise<void>;
  connect(): Promise<void>;
  stop(): Promise<void>;
  resume(): Promise<void>;
  /** Stops every process where it is; and lets them go on. */
  pause(): Promise<void>;
  unpause(): Promise<void>;
  destroy(): Promise<void>;
  /** destroy, and free. */
  close(): Promise<void>;
  touch(): void;
  readonly epoch: number;
  place(): { inside: string; host: string | null };
  facts(): Record<string, string>;
  capabilities(): { name: string; mode: 'native' | 'emulated' | 'unsupported'; reason?: string }[];
  /** scope 2: the template below, to read. CHANGES: Buffer.
   * scope 0: the workspace, path in any of its spellings; 1: the sandbox's own
   * root, absolute path. READ: Buffer | string; STAT, WRITE: FileStat; EXISTS:
   * boolean; REALPATH: string; READDIR, WALK, GATHER: Listing. */
  file(scope: 0 | 1 | 2, verb: number, path: string, options?: FileOptions): Promise<any>;
  /** Tells what happens in a folder until the function that it returns is called, or onEnd. `change`: enum sbx_change;
   * `name`: relative to the folder. Throws a NativeError. */
  watch(
    scope: 0 | 1,
    path: string,
    recursive: boolean,
    events: { onReady(): void; onChange(change: number, name: string): void; onEnd(error: NativeError): void },
  ): () => void;
  /** enum sbx_snapshot_verb. CREATE answers with one, LIST with all. `store`:
   * folder of this machine, '' where the provider knows. */
  snapshot(verb: number, store: string, id?: string): Promise<{ id: string; bytes: number; createdMs: number }[]>;
  /** The layer that the next create starts with; false while one is under way. */
  useLayer(path?: string): boolean;
  /** The account's secret from the next request on. */
  setSecret(secret: string): void;
  /** Something that nobody waits for was refused for its secret. */
  readonly stale: boolean;
  /** Where this machine reaches a port of the sandbox; the same for the same port, until stop.
   * header: "Name: value" that requests to `url` need. */
  expose(port: number): Promise<{ host: string; port: number; url?: undefined; header?: undefined } | { host?: undefined; port?: undefined; url: string; header?: string }>;
  unexpose(port: number): void;
  /** The only hosts that can be reached, none for deny: at once, or when a service has answered. Throws a NativeError. */
  setNetwork(hosts: string[]): void | Promise<void>;
  /** Called once per refused host and port; `last`: no more until the policy changes. Set once. */
  onDenied(callback: (denial: { host: string; port: number; reason: string; last: boolean }) => void): void;
  /** Throws a NativeError for a bad argument; everything later comes as exit. */
  spawn(spec: SpawnSpec, events: NativeEvents): NativeProcess;
  /** Whether commands outlive their host; else there is nothing to list or attach to. */
  readonly lists: boolean;
  /** Background commands of the sandbox, whoever started them; exitCode -1: unknown. */
  list(): Promise<{ pid: number; command: string; startedMs: number; running: boolean; terminal: boolean; stdin: boolean; exitCode: number }[]>;
  attach(pid: number, spec: Partial<SpawnSpec>, events: NativeEvents): NativeProcess;
  /** Whether useLayer can do anything. */
  readonly layers: boolean;
}

/** The HTTP engine by itself: only the tests of this repository use it. */
export interface NativeHttp {
  /** `listener(event, value)`: "head" {status, headers}, "bytes" Buffer, "message" (text?), "drain", "end" (error?).
   * Throws a NativeError for a bad request. */
  open(
    request: {
      method: string;
      url: string;
      headers?: string[];
      body?: Uint8Array;
      /** enum sbx_http_flag, or-ed. */
      flags?: number;
      streamLength?: number;
      headMs?: number;
      idleMs?: number;
      maxBody?: number;
    },
    listener: (event: string, value: any) => void,
  ): number;
  send(id: number, bytes: Uint8Array, text?: boolean): boolean;
  finish(id: number): void;
  pause(id: number, paused: boolean): void;
  /** Gives it up, or its memory back. */
  end(id: number): void;
  close(): Promise<void>;
}

export interface Native {
  /** What the HTTP engine borrows where there is no libcurl: js/transport.js. */
  lend(host: { open(caFile?: string, ca?: string): object; roots(): string }): void;
  Http: new (settings: { caFile?: string; proxy?: string }) => NativeHttp;
  /** Throws a NativeError that names option and remedy. */
  open(provider: string, options: { [name: string]: OptionValue }): NativeSandbox;
  mime(path: string): string | undefined;
  /** A string for each start and end in `ranges`; broken UTF-8 becomes U+FFFD. Throws RangeError. */
  keys(bytes: Uint8Array, ranges: Uint32Array): string[];
}
