import type { FilesystemGrepOptions, FilesystemGrepResult } from '@mastra/core/workspace';

import type { NativeSandbox } from './addon.d.ts';

export interface GrepSettings {
  /** ms for the whole call, default 10,000. */
  timeoutMs?: number;
  /** By name; other files are left out. */
  isTextFile?(name: string): boolean;
  /** ".ts", in any case; other files are not even read. */
  extensions?: string[];
}

/** Lines that match: equal to JavaScript's RegExp on each line, the first match of a line only,
 * in the order of names. Rejects with a SyntaxError for an invalid pattern, with `code` "timeout" when
 * it takes longer than `timeoutMs` (Mastra's grep tool gets that as the text of a last match: it would
 * run the same pattern on the main thread after an error), with a NativeError when `path` cannot be
 * searched. */
export function grep(
  sandbox: Pick<NativeSandbox, 'file'>,
  options: FilesystemGrepOptions,
  settings?: GrepSettings,
): Promise<FilesystemGrepResult[]>;
