import { PageSection, Stack, StackItem } from '@patternfly/react-core';
import { BrokeredInfraKind, StandardInfraKind } from '@/api/kinds';
import type { Resource } from '@/api/types';
import { Page } from '@/ui/Page';
import { AdminTable } from './AdminTable';

export function InfraPage() {
  return (
    <Page title="Infra configs" subtitle="Settings of the node for the address spaces of a plan.">
      <PageSection isFilled>
        <Stack hasGutter>
          <StackItem>
            <AdminTable<Resource> title="Standard" kind={StandardInfraKind} section="infra" columns={[]} />
          </StackItem>
          <StackItem>
            <AdminTable<Resource> title="Brokered" kind={BrokeredInfraKind} section="infra" columns={[]} />
          </StackItem>
        </Stack>
      </PageSection>
    </Page>
  );
}
