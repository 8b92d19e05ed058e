import { useEffect, useMemo, useState } from 'react';
import { reportLost, reportReached } from './connectivity';
import { withQuery } from './http';
import { BASE } from './kinds';
import type { Sample } from './types';
import { useIsVisible } from './visibility';

/** Live values by server-sent events, for the rows on the page. */

export interface SampleScope {
  /** Absent: all namespaces. */
  namespace?: string | undefined;
  space?: string | undefined;
  /** Resource names of addresses, at most 200. */
  addresses?: readonly string[];
  spaces?: boolean;
  enabled?: boolean;
}

const ADDRESSES_MAX = 200;
const RETRY_MS = 2_000;

function samplesPath(scope: SampleScope): string {
  const within = scope.namespace ? `/namespaces/${encodeURIComponent(scope.namespace)}` : '';
  return withQuery(`${BASE}${within}/samples`, {
    follow: true,
    space: scope.space,
    address: scope.addresses?.slice(0, ADDRESSES_MAX),
    spaces: scope.spaces ? true : undefined,
  });
}

/** Open a stream and open it again after a failure, until the returned function is called. */
export function openSamples(path: string, onSample: (sample: Sample) => void): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isClosed = false;
  const open = () => {
    source = new EventSource(path);
    source.addEventListener('sample', (event: MessageEvent<string>) => {
      reportReached();
      onSample(JSON.parse(event.data) as Sample);
    });
    source.addEventListener('end', (event: MessageEvent<string>) => {
      source?.close();
      const { reason } = JSON.parse(event.data) as { reason: string };
      if (reason !== 'session') retry();
    });
    source.addEventListener('error', () => {
      const isRefused = source?.readyState === EventSource.CLOSED;
      source?.close();
      // A refusal (a right was lost) is not an outage; the next request says what it is.
      if (!isRefused) reportLost();
      retry();
    });
  };
  const retry = () => {
    if (!isClosed) timer = setTimeout(open, RETRY_MS);
  };
  open();
  return () => {
    isClosed = true;
    clearTimeout(timer);
    source?.close();
  };
}

/** The newest sample of a scope; undefined until the first one. */
export function useSamples(scope: SampleScope): Sample | undefined {
  const [sample, setSample] = useState<Sample>();
  const isVisible = useIsVisible();
  const path = samplesPath(scope);
  const isActive = (scope.enabled ?? true) && isVisible;
  useEffect(() => (isActive ? openSamples(path, setSample) : undefined), [path, isActive]);
  return useMemo(() => sample, [sample]);
}
