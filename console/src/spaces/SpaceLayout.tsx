import { Button, PageSection, Tab, TabTitleText, Tabs } from '@patternfly/react-core';
import { useState } from 'react';
import { Outlet, useLocation, useNavigate, useOutletContext, useParams } from 'react-router';
import { AddressSpaceKind } from '@/api/kinds';
import { useResource } from '@/api/list';
import { useMay, type May } from '@/api/rights';
import type { AddressSpace } from '@/api/types';
import { useNotify } from '@/app/notices';
import { PANEL_ID, Page } from '@/ui/Page';
import { Failure, Loading, PhaseLabel } from '@/ui/States';
import { DeleteSpace } from './DeleteSpace';
import { spacePath } from './paths';

export interface SpaceContext {
  space: AddressSpace;
  namespace: string;
  name: string;
  may: May;
}

/** The space that the pages below it are about. */
export function useSpace(): SpaceContext {
  return useOutletContext<SpaceContext>();
}

const TABS = [
  ['', 'Overview'],
  ['addresses', 'Addresses'],
  ['connections', 'Connections'],
  ['users', 'Users'],
  ['connect', 'Connect'],
  ['events', 'Events'],
] as const;

function SpaceTabs({ base }: { base: string }) {
  const navigate = useNavigate();
  const { pathname } = useLocation();
  const current = decodeURI(pathname).slice(decodeURI(base).length).split('/')[1] ?? '';
  return (
    <Tabs
      activeKey={current}
      usePageInsets
      component="nav"
      aria-label="Parts of the address space"
      onSelect={(event, key) => {
        event.preventDefault();
        void navigate(key === '' ? base : `${base}/${String(key)}`);
      }}
    >
      {TABS.map(([key, title]) => (
        <Tab
          key={key}
          eventKey={key}
          tabContentId={PANEL_ID}
          href={`/console${key === '' ? base : `${base}/${key}`}`}
          title={<TabTitleText>{title}</TabTitleText>}
        />
      ))}
    </Tabs>
  );
}

export function SpaceLayout() {
  const { namespace = '', space: name = '' } = useParams();
  const found = useResource<AddressSpace>(AddressSpaceKind, namespace, name);
  const may = useMay(namespace);
  const navigate = useNavigate();
  const notify = useNotify();
  const [isLeaving, setIsLeaving] = useState(false);
  const base = spacePath(namespace, name);
  const space = found.data;
  const crumbs = [{ title: 'Address spaces', to: '/spaces' }, { title: name }];
  if (found.error && !space) {
    return (
      <Page title={name} crumbs={crumbs}>
        <PageSection>
          <Failure error={found.error} retry={() => void found.refetch()} />
        </PageSection>
      </Page>
    );
  }
  return (
    <Page
      title={name}
      crumbs={crumbs}
      subtitle={space ? `${space.spec.type} · ${space.spec.plan ?? ''} · namespace ${namespace}` : ' '}
      labels={
        space ? <PhaseLabel phase={space.status?.phase} isReady={space.status?.isReady ?? false} /> : null
      }
      actions={
        space && may('delete', AddressSpaceKind) ? (
          <Button
            variant="secondary"
            isDanger
            onClick={() => {
              setIsLeaving(true);
            }}
          >
            Delete
          </Button>
        ) : null
      }
      tabs={<SpaceTabs base={base} />}
    >
      {space ? (
        <div id={PANEL_ID} role="tabpanel" aria-label="Content of the tab" className="em-panel">
          <Outlet context={{ space, namespace, name, may } satisfies SpaceContext} />
        </div>
      ) : (
        <PageSection>
          <Loading label="Loading the address space" />
        </PageSection>
      )}
      {isLeaving && space ? (
        <DeleteSpace
          space={space}
          stored={undefined}
          onClose={() => {
            setIsLeaving(false);
          }}
          onDone={() => {
            notify(`Address space ${name} is being deleted.`);
            void navigate('/spaces');
          }}
        />
      ) : null}
    </Page>
  );
}
