import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { ApiError } from './errors';
import { request } from './http';
import { collectionPath, resourcePath, type Kind } from './kinds';
import type { Resource } from './types';

/** Writes, and the dry run that checks a form while it is filled in. */

const MANAGER = { fieldManager: 'console', fieldValidation: 'Strict' };
const PAUSE_MS = 350;

export function create<T extends Resource>(kind: Kind, document: T, dryRun = false): Promise<T> {
  return request<T>('POST', collectionPath(kind, document.metadata.namespace), {
    query: { ...MANAGER, dryRun: dryRun ? 'All' : undefined },
    body: document,
  });
}

export function patch<T extends Resource>(
  kind: Kind,
  namespace: string,
  name: string,
  change: unknown,
  dryRun = false,
): Promise<T> {
  return request<T>('PATCH', resourcePath(kind, namespace, name), {
    query: { ...MANAGER, dryRun: dryRun ? 'All' : undefined },
    body: change,
    type: 'application/merge-patch+json',
  });
}

export function replace<T extends Resource>(kind: Kind, document: T, dryRun = false): Promise<T> {
  return request<T>('PUT', resourcePath(kind, document.metadata.namespace ?? '', document.metadata.name), {
    query: { ...MANAGER, dryRun: dryRun ? 'All' : undefined },
    body: document,
  });
}

/** Delete one resource; not the one that replaced it since it was shown. */
export function remove(kind: Kind, resource: Resource): Promise<unknown> {
  const { namespace = '', name, uid } = resource.metadata;
  return request('DELETE', resourcePath(kind, namespace, name), {
    body: uid ? { preconditions: { uid } } : {},
  });
}

export function useDebounced<T>(value: T, pauseMs = PAUSE_MS): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => {
      setSettled(value);
    }, pauseMs);
    return () => {
      clearTimeout(timer);
    };
  }, [value, pauseMs]);
  return settled;
}

export interface Check {
  /** What the platform says of the document as it is; undefined while it is being checked. */
  error: ApiError | null;
  isChecking: boolean;
  isAccepted: boolean;
}

/**
 * Ask the platform whether it would accept a document, while a person fills in the form. So the console has
 * no rules of its own that could differ from those of the platform.
 */
export function useDryRun<T extends Resource>(
  kind: Kind,
  document: T | null,
  action: 'create' | 'replace' = 'create',
): Check {
  const text = document ? JSON.stringify(document) : '';
  const settled = useDebounced(text);
  const { error, isFetching, isSuccess } = useQuery({
    queryKey: ['dry-run', kind.plural, action, settled],
    queryFn: async () => {
      const parsed = JSON.parse(settled) as T;
      await (action === 'create' ? create(kind, parsed, true) : replace(kind, parsed, true));
      return true;
    },
    enabled: settled !== '',
    retry: false,
    gcTime: 0,
    staleTime: 0,
  });
  const isCurrent = text === settled;
  return {
    error: error instanceof ApiError ? error : null,
    isChecking: !isCurrent || isFetching,
    isAccepted: isCurrent && isSuccess && !isFetching,
  };
}
