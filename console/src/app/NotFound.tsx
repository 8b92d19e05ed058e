import { Button, PageSection } from '@patternfly/react-core';
import { Link } from 'react-router';
import { Empty } from '@/ui/States';

export function NotFound() {
  return (
    <PageSection>
      <Empty
        title="There is no such page"
        action={<Button component={(props) => <Link {...props} to="/" />}>Go to the first page</Button>}
      >
        The address in the address bar leads nowhere. What it showed may have been deleted.
      </Empty>
    </PageSection>
  );
}
