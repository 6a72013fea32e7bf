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
  /** Of every command. Nothing of this process's environment is passed by itself. */
  env?: Environment;
  /** Ports that may get a URL. */
  ports?: readonly number[];
  /** Absolute path of the shell for command strings. Default: bash if installed, else sh. */
  shell?: string;
  /** processes: how many there may be at once, default 4096. */
  limits?: { readonly processes?: number };
}

/** Sandboxes on this machine: real processes, isolated by its kernel. */
export function local(options?: LocalOptions): SandboxProvider;
