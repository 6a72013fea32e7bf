/// <reference types="node" />

import type { Readable, Writable } from 'node:stream';

import { MastraFilesystem, MastraSandbox, ProcessHandle, SandboxProcessManager, Workspace } from '@mastra/core/workspace';
import type {
  CommandResult,
  ExecuteCommandOptions,
  FileContent,
  FileEntry,
  FileStat,
  FilesystemInfo,
  ProviderStatus,
  ReadOptions,
  WriteOptions,
  ListOptions,
  RemoveOptions,
  CopyOptions,
  ProcessInfo,
  SandboxInfo,
  SpawnProcessOptions,
  WorkspaceConfig,
  WorkspaceFilesystem,
  WorkspaceSandbox,
} from '@mastra/core/workspace';

import type { CreateSandboxOptions, Environment, Sandbox } from '../index.js';

export { isSandboxError, SandboxError, sandboxErrorCodes } from '../index.js';
export type { Sandbox, SandboxErrorCode } from '../index.js';

type Instructions =
  | string
  | ((options: { defaultInstructions: string; requestContext?: any }) => string);

export interface CreateMastraSandboxOptions extends CreateSandboxOptions {
  name?: string;
  /** Replaces what the model is told about the sandbox, or gets it. */
  instructions?: Instructions;
  /** After every start; a throw makes the start fail. */
  onStart?: (args: { sandbox: WorkspaceSandbox; outcome?: 'created' | 'connected' }) => void | Promise<void>;
  onStop?: (args: { sandbox: WorkspaceSandbox }) => void | Promise<void>;
  onDestroy?: (args: { sandbox: WorkspaceSandbox }) => void | Promise<void>;
}

export interface FilesystemSettings {
  id?: string;
  /** The file tools do not write; commands still do. */
  readOnly?: boolean;
  instructions?: Instructions;
  onInit?: (args: { filesystem: WorkspaceFilesystem }) => void | Promise<void>;
  onDestroy?: (args: { filesystem: WorkspaceFilesystem }) => void | Promise<void>;
  /** More extensions that are text, ".cjs". */
  textExtensions?: string[];
}

export type WorkspaceSettings = Omit<
  WorkspaceConfig<SandboxSdkFilesystem, SandboxSdkSandbox>,
  'filesystem' | 'sandbox' | 'mounts' | 'onMount' | 'sandboxCacheKey'
> & {
  /** Not supported. */
  mounts?: never;
  /** Mastra's language servers load modules from the agent's files into this process. */
  dangerouslyAllowHostLsp?: boolean;
};

export interface CreateMastraWorkspaceOptions extends CreateMastraSandboxOptions {
  filesystem?: FilesystemSettings;
  /** Settings of the Mastra Workspace: id, name, bm25, autoIndexPaths, tools, skills ... */
  workspace?: WorkspaceSettings;
}

type Result = CommandResult &
  Required<
    Pick<
      CommandResult,
      'killed' | 'timedOut' | 'stdoutTruncated' | 'stderrTruncated' | 'stdoutDroppedBytes' | 'stderrDroppedBytes'
    >
  >;

/** A background process. */
export class SandboxSdkProcessHandle extends ProcessHandle {
  private constructor();
  /** The process id inside the sandbox. */
  get pid(): string;
  /** undefined while it runs; changes by itself. */
  get exitCode(): number | undefined;
  /** Kills its whole tree at once; false when it had already ended. */
  kill(): Promise<boolean>;
  sendStdin(data: string | Uint8Array): Promise<void>;
  closeStdin(): Promise<void>;
  wait(options?: {
    onStdout?: (data: string) => void;
    onStderr?: (data: string) => void;
    abortSignal?: AbortSignal;
  }): Promise<Result>;
  /**
   * stdout from the first use on, byte for byte, with back-pressure. One that was
   * never read does not hold up wait(): it fails once it is 16 MiB behind.
   */
  get reader(): Readable;
  /** stdin as bytes; its end is end-of-file. */
  get writer(): Writable;
}

export class SandboxSdkProcessManager extends SandboxProcessManager<SandboxSdkSandbox> {
  spawn(command: string, options?: SpawnProcessOptions): Promise<SandboxSdkProcessHandle>;
  list(): Promise<ProcessInfo[]>;
  get(pid: string): Promise<SandboxSdkProcessHandle | undefined>;
  release(pid: string): void;
}

export class SandboxSdkSandbox extends MastraSandbox {
  constructor(options: CreateMastraSandboxOptions);
  readonly id: string;
  readonly name: string;
  readonly provider: string;
  status: ProviderStatus;
  readonly processes: SandboxSdkProcessManager;
  readonly networking: { getPortUrl(port: number): Promise<string | null> };
  /** The normalised sandbox on the same session. */
  readonly sandboxSdk: Sandbox;
  start(): Promise<{ outcome: 'created' | 'connected' }>;
  executeCommand(command: string, args?: string[], options?: ExecuteCommandOptions): Promise<Result>;
  setEnv(update: (env: Record<string, string | undefined>) => Environment): void;
  getEnv(): Record<string, string | undefined>;
  /** Where commands start, as they see it. */
  get workingDirectory(): string;
  writeFiles(
    files: { path: string; content: string | Buffer; mode?: number }[],
    options?: { abortSignal?: AbortSignal },
  ): Promise<void>;
  /** URL of a declared port on this machine's loopback; starts the sandbox. */
  getPortUrl(port: number, protocol?: string): Promise<string>;
  /** A sibling with the same options and an id of its own. */
  clone(options?: {
    id?: string;
    sandboxId?: string;
    env?: Record<string, string>;
    workingDirectory?: string;
    checkpointName?: string;
    seedCheckpointName?: string;
  }): SandboxSdkSandbox;
  /** True with `root`, where snapshots outlive this process. */
  readonly supportsCheckpoints: boolean;
  /** Keeps the workspace under `checkpointName`; does nothing without one. */
  snapshot(): Promise<void>;
  getInfo(): SandboxInfo;
  getInstructions(options?: { requestContext?: any }): string;
}

export class SandboxSdkFilesystem extends MastraFilesystem {
  constructor(options: FilesystemSettings & { sandbox: SandboxSdkSandbox });
  readonly id: string;
  readonly name: string;
  readonly provider: string;
  readonly readOnly: boolean;
  readonly basePath: string;
  readonly displayName: string;
  status: ProviderStatus;
  readFile(path: string, options: ReadOptions & { encoding: BufferEncoding }): Promise<string>;
  readFile(path: string, options?: ReadOptions & { encoding?: undefined }): Promise<Buffer>;
  readFile(path: string, options?: ReadOptions): Promise<string | Buffer>;
  writeFile(path: string, content: FileContent, options?: WriteOptions): Promise<void>;
  appendFile(path: string, content: FileContent): Promise<void>;
  deleteFile(path: string, options?: RemoveOptions): Promise<void>;
  copyFile(src: string, dest: string, options?: CopyOptions): Promise<void>;
  moveFile(src: string, dest: string, options?: CopyOptions): Promise<void>;
  mkdir(path: string, options?: { recursive?: boolean }): Promise<void>;
  rmdir(path: string, options?: RemoveOptions): Promise<void>;
  readdir(path: string, options?: ListOptions): Promise<FileEntry[]>;
  walk(
    path: string,
    options?: { maxDepth?: number; includeHidden?: boolean },
  ): Promise<(FileEntry & { path: string })[]>;
  grep(options: {
    pattern: string;
    path: string;
    caseSensitive: boolean;
    includeHidden: boolean;
    maxCountPerFile?: number;
    maxTotalMatches?: number;
    contextLines?: number;
  }): Promise<
    { path: string; matches: { line: number; column: number; text: string; before?: string[]; after?: string[] }[] }[]
  >;
  exists(path: string): Promise<boolean>;
  stat(path: string): Promise<FileStat>;
  realpath(path: string): Promise<string>;
  /** undefined where the workspace is no folder of this machine that was given. */
  resolveAbsolutePath(path: string): string | undefined;
  getInfo(): FilesystemInfo;
  getInstructions(options?: { requestContext?: any }): string;
}

/** A Mastra sandbox on `options.provider`. Starts nothing; wrong options throw. */
export function createMastraSandbox(options: CreateMastraSandboxOptions): SandboxSdkSandbox;

/** A Mastra Workspace whose file tools and commands share one sandbox. Starts nothing. */
export function createMastraWorkspace(
  options: CreateMastraWorkspaceOptions,
): Workspace<SandboxSdkFilesystem, SandboxSdkSandbox>;
