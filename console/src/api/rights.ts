import { useQuery } from '@tanstack/react-query';
import { useCallback } from 'react';
import { request } from './http';
import type { Kind } from './kinds';

/** What the caller may do. An action without the right is not offered; the API refuses it all the same. */

interface Rule {
  verbs: string[];
  apiGroups: string[];
  resources: string[];
}

const STALE_MS = 30_000;
const has = (known: string[], asked: string) => known.includes('*') || known.includes(asked);

export function allows(rules: readonly Rule[], verb: string, group: string, resource: string): boolean {
  return rules.some(
    (rule) => has(rule.verbs, verb) && has(rule.apiGroups, group) && has(rule.resources, resource),
  );
}

export type May = (verb: string, kind: Kind, below?: string) => boolean;

async function fetchRules(namespace: string): Promise<Rule[]> {
  const path = '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews';
  const answer = await request<{ status: { resourceRules: Rule[] } }>('POST', path, {
    body: { spec: { namespace } },
  });
  return answer.status.resourceRules;
}

/** Whether the caller may do something in a namespace; `*`: in all of them. False until it is known. */
export function useMay(namespace: string): May {
  const { data } = useQuery({
    queryKey: ['rights', namespace],
    queryFn: () => fetchRules(namespace === '*' ? '' : namespace),
    staleTime: STALE_MS,
  });
  return useCallback(
    (verb, kind, below) =>
      allows(data ?? [], verb, kind.group, below ? `${kind.plural}/${below}` : kind.plural),
    [data],
  );
}
