import { keepPreviousData, useQuery, type UseQueryResult } from '@tanstack/react-query';
import { request } from '@/api/http';
import { BASE } from '@/api/kinds';
import type { Overview } from '@/api/types';

const LIVE_MS = 5_000;

/** Counts, what is not ready, and the largest of everything. */
export function useOverview(namespace: string | undefined): UseQueryResult<Overview> {
  const within = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : '';
  return useQuery({
    queryKey: ['overview', namespace ?? '*'],
    queryFn: ({ signal }) => request<Overview>('GET', `${BASE}${within}/overview`, { signal }),
    refetchInterval: LIVE_MS,
    placeholderData: keepPreviousData,
  });
}
