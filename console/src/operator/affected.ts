import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { request } from '@/api/http';
import { AddressKind, AddressSpaceKind, AddressSpacePlanKind, collectionPath, type Kind } from '@/api/kinds';
import type { Page } from '@/api/list';
import type { AddressSpace, AddressSpacePlan, Resource } from '@/api/types';

/** What a change of a resource of the operator would reach. */

export interface Affected {
  kind: string;
  total: number;
  names: string[];
}

const NAMED_MAX = 10;
const ALL_MAX = 1_000;

function named(kind: string, found: readonly Resource[], total = found.length): Affected {
  const names = found
    .slice(0, NAMED_MAX)
    .map(({ metadata }) => `${metadata.namespace ?? ''}/${metadata.name}`);
  return { kind, total, names };
}

async function list<T extends Resource>(
  kind: Kind,
  query: Record<string, string | number>,
): Promise<Page<T>> {
  return request<Page<T>>('GET', collectionPath(kind), { query });
}

async function selected(kind: Kind, title: string, fieldSelector: string): Promise<Affected> {
  const page = await list<Resource>(kind, { fieldSelector, sortBy: 'name', limit: NAMED_MAX });
  return named(
    title,
    page.items,
    page.metadata.itemCount ?? page.items.length + (page.metadata.remainingItemCount ?? 0),
  );
}

async function affectedBy(kind: Kind, name: string): Promise<Affected[]> {
  switch (kind.kind) {
    case 'AddressPlan':
      return [await selected(AddressKind, 'addresses', `spec.plan=${name}`)];
    case 'AddressSpacePlan':
      return [await selected(AddressSpaceKind, 'address spaces', `spec.plan=${name}`)];
    case 'StandardInfraConfig':
    case 'BrokeredInfraConfig': {
      const type = kind.kind === 'StandardInfraConfig' ? 'standard' : 'brokered';
      const plans = (await list<AddressSpacePlan>(AddressSpacePlanKind, { limit: ALL_MAX })).items.filter(
        (plan) => plan.spec.infraConfigRef === name && plan.spec.addressSpaceType === type,
      );
      const names = new Set(plans.map((plan) => plan.metadata.name));
      const spaces = (await list<AddressSpace>(AddressSpaceKind, { limit: ALL_MAX })).items;
      return [
        named('plans', plans),
        named(
          'address spaces',
          spaces.filter((space) => names.has(space.spec.plan ?? '')),
        ),
      ];
    }
    default: {
      const spaces = (await list<AddressSpace>(AddressSpaceKind, { limit: ALL_MAX })).items;
      return [
        named(
          'address spaces',
          spaces.filter((space) => space.spec.authenticationService?.name === name),
        ),
      ];
    }
  }
}

export function useAffected(kind: Kind, name: string, enabled: boolean): UseQueryResult<Affected[]> {
  return useQuery({
    queryKey: ['affected', kind.plural, name],
    queryFn: () => affectedBy(kind, name),
    enabled,
  });
}
