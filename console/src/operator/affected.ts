import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { request } from '@/api/http';
import { BASE } from '@/api/kinds';
import type { Resource } from '@/api/types';

/** What a change of a resource of the operator would change for tenants, as the platform computes it. */

export interface Change {
  field: string;
  before: unknown;
  after: unknown;
}

export interface AffectedItem {
  namespace: string;
  resource: string;
  name: string;
  changes: Change[];
}

export interface Affected {
  total: number;
  items: AffectedItem[];
}

export interface ChangeReview {
  isNew: boolean;
  addressSpaces: Affected;
  addresses: Affected;
}

/** The review of a document that the platform would accept. */
export function useChangeReview(document: Resource | null): UseQueryResult<ChangeReview> {
  return useQuery({
    queryKey: ['change-review', JSON.stringify(document)],
    queryFn: () => request<ChangeReview>('POST', `${BASE}/changereviews`, { body: document }),
    enabled: document !== null,
    retry: false,
    gcTime: 0,
  });
}
