import { AddressKind, AddressSpaceKind, SchemaKind } from '@/api/kinds';
import { useAll, useList, useResource } from '@/api/list';
import type { Address, AddressSpace, AddressSpaceSchema, AddressType } from '@/api/types';

/** What a tenant may choose from in a space: types, plans, topics, dead letters; and what the plan allows. */

export interface PlanChoice {
  name: string;
  title: string;
  text: string;
  router: number;
  broker: number;
}

export interface SpaceChoices {
  space: AddressSpace;
  types: AddressType[];
  /** What the plan of the space offers for a type; the first one is the default. */
  plansOf: (type: AddressType) => PlanChoice[];
  topics: string[];
  deadletters: string[];
  quota: { router?: number; broker?: number; aggregate?: number };
}

const LISTED_MAX = 500;

function namesOf(addresses: readonly Address[] | undefined): string[] {
  return (addresses ?? []).map((address) => address.spec.address).sort();
}

export function useChoices(
  namespace: string,
  space: string,
): { data: SpaceChoices | undefined; error: unknown } {
  const found = useResource<AddressSpace>(AddressSpaceKind, namespace, space);
  const schemas = useAll<AddressSpaceSchema>(SchemaKind);
  const ofType = (type: AddressType) => ({
    namespace,
    query: { fieldSelector: `metadata.space=${space},spec.type=${type}`, limit: LISTED_MAX },
  });
  const topics = useList<Address>(AddressKind, ofType('topic'));
  const deadletters = useList<Address>(AddressKind, ofType('deadletter'));
  const error = found.error ?? schemas.error ?? topics.error ?? deadletters.error;
  const schema = schemas.data?.find((one) => one.metadata.name === found.data?.spec.type)?.spec;
  if (!found.data || !schema) return { data: undefined, error };
  const plan = schema.plans?.find((one) => one.name === found.data.spec.plan);
  const offered = plan?.addressPlans ?? [];
  return {
    error,
    data: {
      space: found.data,
      types: (schema.addressTypes ?? []).map((one) => one.name as AddressType),
      plansOf: (type) =>
        (schema.addressTypes?.find((one) => one.name === type)?.plans ?? [])
          .filter((one) => offered.includes(one.name))
          .sort((one, other) => offered.indexOf(one.name) - offered.indexOf(other.name))
          .map((one) => ({
            name: one.name,
            title: one.displayName ?? one.name,
            text: one.description ?? '',
            router: one.resources?.router ?? 0,
            broker: one.resources?.broker ?? 0,
          })),
      topics: namesOf(topics.data?.items),
      deadletters: namesOf(deadletters.data?.items),
      quota: plan?.resourceLimits ?? {},
    },
  };
}
