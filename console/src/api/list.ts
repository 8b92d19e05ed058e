import { keepPreviousData, useQuery, type UseQueryResult } from '@tanstack/react-query';
import { request, type Query } from './http';
import { collectionPath, resourcePath, type Kind } from './kinds';
import type { Resource } from './types';
import { useWatch } from './watch';

/** Lists and single resources: fetched once, then kept current by a watch. */

/** A page of a list. */
export interface Page<T> {
  items: T[];
  metadata: {
    resourceVersion?: string;
    continue?: string;
    remainingItemCount?: number;
    itemCount?: number;
    sampleTime?: string;
  };
}

export interface ListOptions {
  /** Absent: all namespaces that the caller may read. */
  namespace?: string | undefined;
  query?: Query;
  /** How often live values in the list are fetched again; absent: only when a resource changes. */
  everyMs?: number | undefined;
  enabled?: boolean;
}

export function listKey(kind: Kind, namespace?: string, query?: Query): readonly unknown[] {
  return query
    ? [kind.plural, kind.group, namespace ?? '*', query]
    : [kind.plural, kind.group, namespace ?? '*'];
}

/** A page of resources. The former page stays visible while the next one is on its way. */
export function useList<T extends Resource>(kind: Kind, options: ListOptions = {}): UseQueryResult<Page<T>> {
  const { namespace, query = {}, everyMs, enabled = true } = options;
  const found = useQuery({
    queryKey: listKey(kind, namespace, query),
    queryFn: ({ signal }) => request<Page<T>>('GET', collectionPath(kind, namespace), { query, signal }),
    placeholderData: keepPreviousData,
    refetchInterval: everyMs ?? false,
    enabled,
  });
  useWatch(kind, {
    namespace,
    fieldSelector: query.fieldSelector as string | undefined,
    resourceVersion: found.data?.metadata.resourceVersion,
    enabled: enabled && found.isSuccess,
  });
  return found;
}

/** All resources of a kind that has few, such as plans; without a watch. */
export function useAll<T extends Resource>(
  kind: Kind,
  namespace?: string,
  enabled = true,
): UseQueryResult<T[]> {
  return useQuery({
    queryKey: listKey(kind, namespace, { all: true }),
    queryFn: async ({ signal }) =>
      (await request<Page<T>>('GET', collectionPath(kind, namespace), { query: { limit: 1000 }, signal }))
        .items,
    enabled,
  });
}

export interface OneOptions {
  query?: Query;
  everyMs?: number;
  enabled?: boolean;
}

/** One resource, kept current by a watch. */
export function useResource<T extends Resource>(
  kind: Kind,
  namespace: string,
  name: string,
  options: OneOptions = {},
): UseQueryResult<T> {
  const { query = {}, everyMs, enabled = true } = options;
  const found = useQuery({
    queryKey: [kind.plural, kind.group, namespace, 'one', name, query],
    queryFn: ({ signal }) => request<T>('GET', resourcePath(kind, namespace, name), { query, signal }),
    refetchInterval: everyMs ?? false,
    enabled,
  });
  useWatch(kind, {
    namespace,
    fieldSelector: `metadata.name=${name}`,
    resourceVersion: found.data?.metadata.resourceVersion,
    enabled: enabled && found.isSuccess,
  });
  return found;
}
