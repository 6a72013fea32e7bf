import type { Listing } from './addon.d.ts';

export interface ListedEntry {
  /** Relative to the listed folder, `a/b`. */
  name: string;
  type: 'file' | 'directory';
  /** Of plain files where the listing has sizes. */
  size?: number;
  isSymlink?: true;
  symlinkTarget?: string;
}

export interface PlacedEntry extends ListedEntry {
  path: string;
}

/** How the entries of a listing look. */
export interface Shape<T> {
  /** `last` of the path is wanted, too. */
  last?: boolean;
  make(name: string, type: 'file' | 'directory', size: number | undefined, last: string): T;
}

/** Names that are the last part of the path below the listed folder, with that path. */
export const walked: Shape<PlacedEntry>;

/** Names as they are, and paths that start with `folder`. */
export function under(folder: string): Shape<PlacedEntry>;

/** The entries of a listing of any length, without holding the event loop. */
export function decodeListing(listing: Listing): Promise<ListedEntry[]>;
export function decodeListing<T>(listing: Listing, shape: Shape<T>): Promise<T[]>;

/** Calls `each` for the files of a GATHER answer until it returns false. */
export function eachGathered(
  listing: Listing,
  each: (name: string, content: Buffer) => boolean | void,
): void;

/** The name after which the next GATHER goes on. */
export function lastGathered(listing: Listing): string | undefined;
