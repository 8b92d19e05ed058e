import { PageSection } from '@patternfly/react-core';
import { EventTable } from '@/ui/EventTable';
import { useSpace } from './SpaceLayout';

/** Events of the space, its addresses and its users. */
export function EventsPage() {
  const { namespace, name } = useSpace();
  return (
    <PageSection isFilled>
      <EventTable
        namespace={namespace}
        concerns={({ involvedObject }) =>
          involvedObject.name === name || (involvedObject.name?.startsWith(`${name}.`) ?? false)
        }
      />
    </PageSection>
  );
}
