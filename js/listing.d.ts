import type { Listing } from './native.d.ts';

export interface ListedEntry {
  /** Relative to the listed folder, `a/b`. */
  name: string;
  type: 'file' | 'directory';
  /** Of plain files where the listing has sizes. */
  size?: number;
  isSymlink?: true;
  symlinkTarget?: string;
}

/** The entries of a listing, at once. `shape` turns each into something else. */
export function decodeListing(listing: Listing): ListedEntry[];
export function decodeListing<T>(listing: Listing, shape: (entry: ListedEntry) => T): T[];

/** The same for lists of any length, without holding the event loop. */
export function decodeLongListing(listing: Listing): Promise<ListedEntry[]>;
export function decodeLongListing<T>(listing: Listing, shape: (entry: ListedEntry) => T): Promise<T[]>;

/** Calls `each` for the files of a GATHER answer until it returns false. */
export function eachGathered(
  listing: Listing,
  each: (name: string, content: Buffer) => boolean | void,
): void;

/** The name after which the next GATHER goes on. */
export function lastGathered(listing: Listing): string | undefined;
