import type { Environment, NetworkPolicy, SandboxProvider } from './index.js';

export interface E2BOptions {
  /**
   * Default: E2B_API_KEY of the environment, read when a sandbox is made, or before its first request. A function is asked
   * before the first request, and once more where the service refuses the key that it gave.
   */
  apiKey?: string | (() => string | Promise<string>);
  /** Name or id of a template, or the id of a snapshot. Default "base". */
  template?: string;
  /**
   * ms that the sandbox lives without use, default 300000; use extends it. The service counts whole seconds and has a
   * limit for each plan.
   */
  timeout?: number;
  /** Default: E2B_DOMAIN, else "e2b.app". */
  domain?: string;
  /** Base URL of the control plane. Default: E2B_API_URL, else `https://api.<domain>`. */
  apiUrl?: string;
  /** Base URL of all sandboxes. Default: E2B_SANDBOX_URL, else by the domain. */
  sandboxUrl?: string;
  /** Default true. Only servers that know no second version of create can do without. */
  secure?: boolean;
  /** Of the sandbox, shown by the service. */
  metadata?: Readonly<Record<string, string>>;
  /** The sandbox is paused, not killed, when its time is over. Default false. */
  autoPause?: boolean;
  /**
   * "allow" (default), "deny", or the only hosts that can be reached; or E2B's own lists. Hosts have no port: E2B's policy
   * knows none.
   */
  network?: 'allow' | NetworkPolicy | E2BNetwork;
  /** That commands run as. Default: the template's own. */
  user?: string;
  /** false is network: "deny". */
  allowInternetAccess?: boolean;
  /** ms for one request to the service, default 60000; 0 for none. */
  requestTimeout?: number;
  /**
   * What sessions of an `identity` start with: "archive" (default), the workspace's files as an archive on this side, or
   * "snapshot", the whole machine as E2B keeps it, which costs storage there until the provider's close().
   */
  templateMode?: 'archive' | 'snapshot';
  /**
   * The template has a desktop: sandboxes have `computer`, and Mastra's agents the tools for it. Default: true for the
   * template "desktop".
   */
  computer?: boolean;
  /** Of every command. */
  env?: Environment;
  /** Ports that may get a URL. */
  ports?: readonly number[];
}

export interface E2BNetwork {
  /** The only hosts that can be reached. Not together with the next two. */
  allow?: readonly string[];
  /** Hosts and addresses that go before denyOut. */
  allowOut?: readonly string[];
  /** Addresses and ranges. */
  denyOut?: readonly string[];
  /** false: URLs of ports want a token, which ports.expose() sends. */
  allowPublicTraffic?: boolean;
  /** The Host field that servers inside see, such as "localhost:${PORT}". */
  maskRequestHost?: string;
}

/** Sandboxes at E2B. */
export function e2b(options?: E2BOptions): SandboxProvider;
