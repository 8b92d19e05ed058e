import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { reportLost } from './connectivity';
import { ApiError } from './errors';
import { send } from './http';
import { collectionPath, type Kind } from './kinds';
import { useIsVisible } from './visibility';

/**
 * A watch tells that resources changed; what is on the page is then fetched again, at most twice a second.
 * So a page holds one page of rows, whatever the size of the list behind it.
 */

const SETTLE_MS = 500;
const RETRY_MIN_MS = 500;
const RETRY_MAX_MS = 10_000;
const EXPIRED = 410;

export interface WatchEvent {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  object: { code?: number; metadata?: { resourceVersion?: string } };
}

export interface WatchOptions {
  namespace?: string | undefined;
  fieldSelector?: string | undefined;
  /** Where the watch begins: the version of the list. */
  resourceVersion?: string | undefined;
  enabled?: boolean;
}

/** The whole lines of a stream of bytes. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = stream
    .pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>)
    .getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (line) yield line;
  }
  if (rest) yield rest;
}

/** The position of a watch: it resumes at the last version seen, and begins anew when that has expired. */
export class WatchPosition {
  constructor(public version: string | undefined) {}

  /** Take an event. Returns whether the list has changed. */
  take(event: WatchEvent): boolean {
    if (event.type === 'ERROR') {
      if (event.object.code === EXPIRED) this.version = undefined;
      return event.object.code === EXPIRED;
    }
    this.version = event.object.metadata?.resourceVersion ?? this.version;
    return event.type !== 'BOOKMARK';
  }
}

async function follow(
  path: string,
  options: WatchOptions,
  position: WatchPosition,
  onChange: () => void,
  signal: AbortSignal,
): Promise<void> {
  const response = await send('GET', path, {
    query: {
      watch: true,
      allowWatchBookmarks: true,
      resourceVersion: position.version,
      fieldSelector: options.fieldSelector,
    },
    signal,
  });
  if (!response.body) return;
  for await (const line of linesOf(response.body)) {
    if (position.take(JSON.parse(line) as WatchEvent)) onChange();
  }
}

/** Follow until `signal` aborts; wait longer after each failure without an event in between. */
export async function followAlways(
  path: string,
  options: WatchOptions,
  onChange: () => void,
  signal: AbortSignal,
): Promise<void> {
  const position = new WatchPosition(options.resourceVersion);
  let waitMs = RETRY_MIN_MS;
  while (!signal.aborted) {
    try {
      await follow(
        path,
        options,
        position,
        () => {
          waitMs = RETRY_MIN_MS;
          onChange();
        },
        signal,
      );
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError) {
        if (error.status === 401 || error.status === 403) return;
        // Without a version the watch begins at the present: what came before needs a new list.
        if (error.status === EXPIRED) position.version = undefined;
        onChange();
      } else {
        reportLost();
      }
    }
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    waitMs = Math.min(waitMs * 2, RETRY_MAX_MS);
  }
}

/** Invalidate the queries of a kind whenever one of its resources changes. */
export function useWatch(kind: Kind, options: WatchOptions): void {
  const client = useQueryClient();
  const isVisible = useIsVisible();
  const { namespace, fieldSelector, resourceVersion, enabled = true } = options;
  const begin = useRef(resourceVersion);
  useEffect(() => {
    begin.current = resourceVersion;
  }, [resourceVersion]);
  const isActive = enabled && isVisible;
  useEffect(() => {
    if (!isActive) return;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const changed = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        void client.invalidateQueries({ queryKey: [kind.plural, kind.group] });
      }, SETTLE_MS);
    };
    const from = { fieldSelector, resourceVersion: begin.current };
    void followAlways(collectionPath(kind, namespace), from, changed, abort.signal);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [client, kind, namespace, fieldSelector, isActive]);
}
