import { PageSection, Stack, StackItem } from '@patternfly/react-core';
import { AddressPlanKind, AddressSpacePlanKind } from '@/api/kinds';
import type { AddressPlan, AddressSpacePlan } from '@/api/types';
import { Page } from '@/ui/Page';
import { count } from '@/ui/format';
import { AdminTable } from './AdminTable';

export function PlansPage() {
  return (
    <Page title="Plans" subtitle="What tenants may choose, and what each choice allows.">
      <PageSection isFilled>
        <Stack hasGutter>
          <StackItem>
            <AdminTable<AddressSpacePlan>
              title="Plans of address spaces"
              kind={AddressSpacePlanKind}
              section="plans"
              columns={[
                { key: 'type', title: 'Type', render: (plan) => plan.spec.addressSpaceType },
                {
                  key: 'router',
                  title: 'Routers',
                  isNumeric: true,
                  render: (plan) => count(plan.spec.resourceLimits.router ?? undefined),
                },
                {
                  key: 'broker',
                  title: 'Brokers',
                  isNumeric: true,
                  render: (plan) => count(plan.spec.resourceLimits.broker ?? undefined),
                },
                {
                  key: 'addresses',
                  title: 'Addresses',
                  isNumeric: true,
                  render: (plan) => count(plan.spec.limits?.addresses ?? undefined),
                },
                {
                  key: 'offers',
                  title: 'Offers',
                  isNumeric: true,
                  render: (plan) => count(plan.spec.addressPlans.length),
                },
              ]}
            />
          </StackItem>
          <StackItem>
            <AdminTable<AddressPlan>
              title="Plans of addresses"
              kind={AddressPlanKind}
              section="plans"
              columns={[
                { key: 'type', title: 'Type', render: (plan) => plan.spec.addressType },
                { key: 'display', title: 'Shown as', render: (plan) => plan.spec.displayName },
                {
                  key: 'router',
                  title: 'Router',
                  isNumeric: true,
                  render: (plan) => plan.spec.resources?.router,
                },
                {
                  key: 'broker',
                  title: 'Broker',
                  isNumeric: true,
                  render: (plan) => plan.spec.resources?.broker,
                },
              ]}
            />
          </StackItem>
        </Stack>
      </PageSection>
    </Page>
  );
}
