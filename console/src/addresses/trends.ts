import { useQuery } from '@tanstack/react-query';
import { matcher, matchersOf } from '@/api/history';
import { request } from '@/api/http';
import { BASE } from '@/api/kinds';
import type { Address } from '@/api/types';

/** The shape of the last 15 minutes of each row, in one request for the page. */

const SECONDS = 900;
const STEP_S = 30;
const REFRESH_MS = 30_000;
/** Requests for one page of rows; the rows beyond them have no line. */
const REQUESTS_MAX = 8;

interface Answer {
  data: { result: { metric: Record<string, string>; values: [number, string][] }[] };
}

export function useTrends(
  namespace: string,
  space: string,
  rows: readonly Address[],
): ReadonlyMap<string, number[]> {
  const names = rows.map((row) => row.spec.address);
  const found = useQuery({
    queryKey: ['trends', namespace, space, names],
    queryFn: async ({ signal }) => {
      const end = Math.floor(Date.now() / 1000 / STEP_S) * STEP_S;
      const scope = matcher('space', `${space}.${namespace}`);
      const answers = await Promise.all(
        matchersOf('address', names)
          .slice(0, REQUESTS_MAX)
          .map((one) =>
            request<Answer>('GET', `${BASE}/namespaces/${encodeURIComponent(namespace)}/query_range`, {
              query: {
                query: `rate(enmasse_address_delivered_total{${scope},${one}}[1m])`,
                start: end - SECONDS,
                end,
                step: STEP_S,
              },
              signal,
            }),
          ),
      );
      const series = answers.flatMap((answer) => answer.data.result);
      return new Map(
        series.map(
          (one) => [one.metric.address ?? '', one.values.map(([, value]) => Number(value))] as const,
        ),
      );
    },
    enabled: names.length > 0,
    refetchInterval: REFRESH_MS,
    retry: false,
  });
  return found.data ?? new Map<string, number[]>();
}
