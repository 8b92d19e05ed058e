import { keepPreviousData, useQuery, type UseQueryResult } from '@tanstack/react-query';
import { request } from './http';
import { BASE } from './kinds';

/** Series of the past: `query_range`, as of Prometheus. */

export const RANGES = ['5m', '1h', '24h', '7d'] as const;
export type Range = (typeof RANGES)[number];

interface Resolution {
  seconds: number;
  stepSeconds: number;
  /** The window of `rate`: at least two points of the ring that has the range. */
  window: string;
}

export const RESOLUTIONS: Record<Range, Resolution> = {
  '5m': { seconds: 300, stepSeconds: 10, window: '30s' },
  '1h': { seconds: 3_600, stepSeconds: 10, window: '1m' },
  '24h': { seconds: 86_400, stepSeconds: 60, window: '5m' },
  '7d': { seconds: 604_800, stepSeconds: 600, window: '30m' },
};

export interface Series {
  metric: Record<string, string>;
  values: [number, string][];
}

interface RangeAnswer {
  data: { result: Series[] };
}

/** A label matcher with its value quoted. */
export function matcher(label: string, value: string, operator = '='): string {
  const quoted = value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
  return `${label}${operator}"${quoted}"`;
}

/** A regular expression that matches exactly these texts. */
export function anyOf(texts: readonly string[]): string {
  return texts.map((text) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')).join('|');
}

const PATTERN_MAX = 256;

/** Matchers that together select exactly these values; a pattern of the platform has a bound. */
export function matchersOf(label: string, values: readonly string[]): string[] {
  const found: string[] = [];
  let pattern = '';
  const flush = () => {
    if (pattern) found.push(matcher(label, pattern, '=~'));
    pattern = '';
  };
  for (const value of values) {
    const escaped = anyOf([value]);
    if (escaped.length > PATTERN_MAX) {
      found.push(matcher(label, value));
      continue;
    }
    if (pattern.length + 1 + escaped.length > PATTERN_MAX) flush();
    pattern = pattern ? `${pattern}|${escaped}` : escaped;
  }
  flush();
  return found;
}

export function queryRange(
  namespace: string | undefined,
  query: string,
  range: Range,
  signal?: AbortSignal,
): Promise<Series[]> {
  const { seconds, stepSeconds } = RESOLUTIONS[range];
  const end = Math.floor(Date.now() / 1000 / stepSeconds) * stepSeconds;
  const within = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : '';
  return request<RangeAnswer>('GET', `${BASE}${within}/query_range`, {
    query: { query, start: end - seconds, end, step: stepSeconds },
    signal,
  }).then((answer) => answer.data.result);
}

/** Several queries over one range, refreshed as new points arrive. */
export function useHistory(
  namespace: string | undefined,
  queries: readonly string[],
  range: Range,
  enabled = true,
): UseQueryResult<Series[][]> {
  return useQuery({
    queryKey: ['history', namespace ?? '*', queries, range],
    queryFn: ({ signal }) => Promise.all(queries.map((query) => queryRange(namespace, query, range, signal))),
    placeholderData: keepPreviousData,
    refetchInterval: Math.min(RESOLUTIONS[range].stepSeconds, 60) * 1000,
    enabled: enabled && queries.length > 0,
  });
}
