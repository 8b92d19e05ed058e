import { useEffect } from 'react';
import { beginAction } from './http';

/** The parts of an infinite query that `useFirstRow` reads. */
interface Slices {
  data: { pages: readonly unknown[] } | undefined;
  hasNextPage: boolean;
  isFetching: boolean;
  isError: boolean;
  fetchNextPage: () => Promise<unknown>;
}

/** Empty slices that are read without being asked to; the node takes at most 3 s for each. */
export const EMPTY_SLICES_MAX = 20;

/**
 * Read on while the slices of a list are empty: a slice ends after some time and after some thousand messages,
 * whether one of them matches or not. Returns whether the first row is still looked for.
 */
export function useFirstRow(found: Slices, rows: readonly unknown[] | undefined): boolean {
  const { data, hasNextPage, isFetching, isError, fetchNextPage } = found;
  const slices = data?.pages.length ?? 0;
  const isLooking = rows?.length === 0 && hasNextPage && !isError && slices < EMPTY_SLICES_MAX;
  // `slices` too: an answer that comes at once leaves `isFetching` as it was.
  useEffect(() => {
    if (isLooking && !isFetching) void fetchNextPage();
  }, [isLooking, isFetching, slices, fetchNextPage]);
  return isLooking;
}

/** What one request of several did; `continue` is the value for the next one. */
interface Part {
  messages: number;
  continue?: string | undefined;
}

/**
 * Repeat a request until there is no next part. Returns the messages of all parts; `onProgress` has those so
 * far, and `signal` ends it between two parts. Throws ApiError once the session is of another user.
 */
export async function inParts(
  ask: (next: string | undefined) => Promise<Part>,
  onProgress: (messages: number) => void = () => undefined,
  signal?: AbortSignal,
): Promise<number> {
  const requireSameUser = beginAction();
  let messages = 0;
  let next: string | undefined;
  do {
    requireSameUser();
    const done = await ask(next);
    messages += done.messages;
    next = done.continue;
    onProgress(messages);
  } while (next !== undefined && !signal?.aborted);
  return messages;
}
