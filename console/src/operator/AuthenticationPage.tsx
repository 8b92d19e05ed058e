import { PageSection } from '@patternfly/react-core';
import { AuthServiceKind } from '@/api/kinds';
import type { Resource } from '@/api/types';
import { Page } from '@/ui/Page';
import { PhaseLabel } from '@/ui/States';
import { AdminTable } from './AdminTable';

interface Service extends Resource {
  spec: { type: string };
  status?: { phase?: string; isReady?: boolean };
}

export function AuthenticationPage() {
  return (
    <Page title="Authentication services" subtitle="Who checks the logins of messaging clients.">
      <PageSection isFilled>
        <AdminTable<Service>
          title="Services"
          kind={AuthServiceKind}
          section="authentication"
          columns={[
            { key: 'type', title: 'Type', render: (service) => service.spec.type },
            {
              key: 'phase',
              title: 'Status',
              render: (service) => (
                <PhaseLabel
                  phase={service.status?.phase ?? 'Active'}
                  isReady={service.status?.isReady ?? true}
                />
              ),
            },
          ]}
        />
      </PageSection>
    </Page>
  );
}
