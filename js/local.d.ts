import type { Environment, NetworkPolicy, SandboxProvider } from './index.js';

export interface LocalOptions {
  /**
   * A folder of this machine that is the workspace. Its last component is made
   * if it is missing (outcome "created", else "connected"); it is never removed.
   * Relative: from where Node runs.
   */
  directory?: string;
  /** Where sessions keep their folders, found again by id; default a temporary one, removed at the end. */
  root?: string;
  /**
   * "full": namespaces, a read-only view of the system, seccomp. "landlock":
   * confined at the real path, where namespaces are refused. "none": not isolated. "auto" (default): the
   * best of the first two, and an error if neither is possible.
   */
  isolation?: 'auto' | 'full' | 'landlock' | 'none';
  /**
   * "deny" (default), "allow" (the machine's network), or the only hosts that
   * can be reached, through the package's own proxy.
   */
  network?: 'allow' | NetworkPolicy;
  /** Absolute paths of this machine that are visible inside, too. */
  readOnlyPaths?: readonly string[];
  readWritePaths?: readonly string[];
  /**
   * Of every command. Nothing of this process's environment is passed by itself. This machine's own HOME and TMPDIR,
   * where they are passed on, become the session's.
   */
  env?: Environment;
  /** Ports that may get a URL. */
  ports?: readonly number[];
  /** Absolute path of the shell for command strings. Default: bash if installed, else sh. */
  shell?: string;
  /**
   * Paths in the directory that commands and file tools cannot change, because
   * this machine may run them later. Default: git hooks and configuration,
   * .envrc, .husky, editor tasks and settings, this package; [] for none.
   */
  protect?: readonly string[];
  /** What a session may use; what enforces each stands in getInfo().metadata. */
  limits?: LocalLimits;
}

/** All may be left out: then there is no such limit, but for `processes`. */
export interface LocalLimits {
  /** Processes and threads at once, default 4096. */
  readonly processes?: number;
  /** Bytes of memory of all processes together; the command that uses most is killed. */
  readonly memory?: number;
  /** Cores, may be fractional. Only where a control group (v2) can be made. */
  readonly cpu?: number;
  /** Open files of each process. */
  readonly openFiles?: number;
  /** Bytes of each file. */
  readonly fileSize?: number;
  /** Bytes of the workspace on disk; the command that writes most is killed. */
  readonly workspaceSize?: number;
  /** Bytes per second that are read of each command's output; it waits, nothing is lost. */
  readonly outputRate?: number;
}

/** Sandboxes on this machine: real processes, isolated by its kernel. */
export function local(options?: LocalOptions): SandboxProvider;
