import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { request, withQuery } from '@/api/http';
import { BASE } from '@/api/kinds';
import type { Connection } from '@/api/types';

const LIVE_MS = 3_000;
const LISTED_MAX = 1_000;

export interface Connections {
  items: Connection[];
  metadata?: { continue?: string; remainingItemCount?: number };
}

function pathOf(namespace: string, id?: string): string {
  const base = `${BASE}/namespaces/${encodeURIComponent(namespace)}/connections`;
  return id === undefined ? base : `${base}/${encodeURIComponent(id)}`;
}

/** The first thousand connections of a space. */
export function useConnections(namespace: string, space: string): UseQueryResult<Connections> {
  return useQuery({
    queryKey: ['connections', namespace, space],
    queryFn: ({ signal }) =>
      request<Connections>('GET', pathOf(namespace), { query: { space, limit: LISTED_MAX }, signal }),
    refetchInterval: LIVE_MS,
  });
}

export function useConnection(namespace: string, id: string): UseQueryResult<Connection> {
  return useQuery({
    queryKey: ['connections', namespace, 'one', id],
    queryFn: ({ signal }) => request<Connection>('GET', pathOf(namespace, id), { signal }),
    refetchInterval: LIVE_MS,
    retry: false,
  });
}

export function closeConnection(namespace: string, id: string): Promise<unknown> {
  return request('DELETE', pathOf(namespace, id));
}

/** The path of a bounded trace, as a stream of events. */
export function tracePath(namespace: string, id: string, frames: number, seconds: number): string {
  return withQuery(`${pathOf(namespace, id)}/trace`, { follow: true, frames, seconds });
}
