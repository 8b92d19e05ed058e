import { Card, CardBody, CardTitle, Content } from '@patternfly/react-core';
import { AddressSpaceKind, AddressSpacePlanKind } from '@/api/kinds';
import { useAll } from '@/api/list';
import type { AddressSpace, AddressSpacePlan } from '@/api/types';
import { DataTable, type Column } from '@/ui/DataTable';
import { count } from '@/ui/format';

/** What the plans promise to all spaces together: the sum of their quotas, as if each used its own up. */

interface Promised {
  plan: string;
  spaces: number;
  router: number;
  broker: number;
  addresses: number;
}

const COLUMNS: Column<Promised>[] = [
  { key: 'plan', title: 'Plan', width: 30, render: (row) => row.plan },
  { key: 'spaces', title: 'Address spaces', isNumeric: true, render: (row) => count(row.spaces) },
  { key: 'router', title: 'Routers promised', isNumeric: true, render: (row) => count(row.router) },
  { key: 'broker', title: 'Brokers promised', isNumeric: true, render: (row) => count(row.broker) },
  { key: 'addresses', title: 'Addresses promised', isNumeric: true, render: (row) => count(row.addresses) },
];

export function promisedBy(spaces: readonly AddressSpace[], plans: readonly AddressSpacePlan[]): Promised[] {
  return plans
    .map((plan) => {
      const used = spaces.filter((space) => space.spec.plan === plan.metadata.name).length;
      const { resourceLimits, limits } = plan.spec;
      return {
        plan: plan.metadata.name,
        spaces: used,
        router: used * (resourceLimits.router ?? 0),
        broker: used * (resourceLimits.broker ?? 0),
        addresses: used * (limits?.addresses ?? 0),
      };
    })
    .filter((row) => row.spaces > 0);
}

export function QuotaTable() {
  const spaces = useAll<AddressSpace>(AddressSpaceKind);
  const plans = useAll<AddressSpacePlan>(AddressSpacePlanKind);
  const rows = spaces.data && plans.data ? promisedBy(spaces.data, plans.data) : undefined;
  return (
    <Card isCompact>
      <CardTitle>Quotas promised by plan</CardTitle>
      <CardBody>
        <DataTable
          label="Quotas promised by plan"
          columns={COLUMNS}
          rows={rows}
          keyOf={(row) => row.plan}
          error={spaces.error ?? plans.error}
          empty={<Content component="small">No address space uses a plan yet.</Content>}
        />
      </CardBody>
    </Card>
  );
}
