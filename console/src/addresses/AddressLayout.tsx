import { Button, PageSection, Tab, TabTitleText, Tabs } from '@patternfly/react-core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Outlet, useLocation, useNavigate, useOutletContext, useParams } from 'react-router';
import { AddressKind } from '@/api/kinds';
import { useResource } from '@/api/list';
import { useMay, type May } from '@/api/rights';
import { useSamples } from '@/api/samples';
import type { Address, Statistics } from '@/api/types';
import { useNotify } from '@/app/notices';
import { addressPath, spacePath } from '@/spaces/paths';
import { PANEL_ID, Page } from '@/ui/Page';
import { Failure, Loading, PhaseLabel } from '@/ui/States';
import { BulkDialog, type Bulk } from './BulkDialog';
import { typeTitle } from './AddressListPage';
import { acceptsMessages, holdsMessages, isManaged } from './types';

export interface AddressContext {
  address: Address;
  namespace: string;
  space: string;
  may: May;
  live: Statistics | undefined;
}

/** The address that the pages below it are about. */
export function useAddress(): AddressContext {
  return useOutletContext<AddressContext>();
}

function tabsOf(address: Address, may: May): [string, string][] {
  const tabs: [string, string][] = [['', 'Overview']];
  if (holdsMessages(address) && may('create', AddressKind, 'peek')) tabs.push(['messages', 'Messages']);
  if (address.spec.type === 'deadletter' && may('create', AddressKind, 'peek'))
    tabs.push(['deadletters', 'By cause']);
  if (acceptsMessages(address) && may('create', AddressKind, 'send')) tabs.push(['send', 'Send']);
  tabs.push(['settings', 'Settings']);
  return tabs;
}

function AddressTabs({ address, base, may }: { address: Address; base: string; may: May }) {
  const navigate = useNavigate();
  const { pathname } = useLocation();
  const current = decodeURI(pathname).slice(decodeURI(base).length).split('/')[1] ?? '';
  return (
    <Tabs
      activeKey={current}
      usePageInsets
      component="nav"
      aria-label="Parts of the address"
      onSelect={(event, key) => {
        event.preventDefault();
        void navigate(key === '' ? base : `${base}/${String(key)}`);
      }}
    >
      {tabsOf(address, may).map(([key, title]) => (
        <Tab
          key={key}
          eventKey={key}
          tabContentId={PANEL_ID}
          href={`/console${key ? `${base}/${key}` : base}`}
          title={<TabTitleText>{title}</TabTitleText>}
        />
      ))}
    </Tabs>
  );
}

export function AddressLayout() {
  const { namespace = '', space = '', address: name = '' } = useParams();
  const found = useResource<Address>(AddressKind, namespace, name, { query: { statistics: true } });
  const sample = useSamples({ namespace, addresses: [name], enabled: found.isSuccess });
  const may = useMay(namespace);
  const [bulk, setBulk] = useState<Bulk | null>(null);
  const navigate = useNavigate();
  const client = useQueryClient();
  const notify = useNotify();
  const address = found.data;
  const listing = spacePath(namespace, space, 'addresses');
  const title = address?.spec.address ?? name;
  const crumbs = [
    { title: 'Address spaces', to: '/spaces' },
    { title: space, to: spacePath(namespace, space) },
    { title: 'Addresses', to: listing },
    { title },
  ];
  if (found.error && !address) {
    return (
      <Page title={title} crumbs={crumbs}>
        <PageSection>
          <Failure error={found.error} retry={() => void found.refetch()} />
        </PageSection>
      </Page>
    );
  }
  const context = address
    ? {
        address,
        namespace,
        space,
        may,
        live: sample?.addresses[`${namespace}/${name}`] ?? address.status?.statistics,
      }
    : null;
  return (
    <Page
      title={title}
      crumbs={crumbs}
      subtitle={address ? `${typeTitle(address)} · ${address.spec.plan ?? 'no plan'}` : ' '}
      labels={
        address ? (
          <PhaseLabel phase={address.status?.phase} isReady={address.status?.isReady ?? false} />
        ) : null
      }
      actions={
        address ? (
          <>
            {isManaged(address) && may('create', AddressKind, 'purge') ? (
              <Button
                variant="secondary"
                onClick={() => {
                  setBulk({ action: 'purge', addresses: [address] });
                }}
              >
                Purge
              </Button>
            ) : null}{' '}
            {may('delete', AddressKind) ? (
              <Button
                variant="secondary"
                isDanger
                onClick={() => {
                  setBulk({ action: 'delete', addresses: [address] });
                }}
              >
                Delete
              </Button>
            ) : null}
          </>
        ) : null
      }
      tabs={address ? <AddressTabs address={address} base={addressPath(namespace, name)} may={may} /> : null}
    >
      {context ? (
        <div id={PANEL_ID} role="tabpanel" aria-label="Content of the tab" className="em-panel">
          <Outlet context={context satisfies AddressContext} />
        </div>
      ) : (
        <PageSection>
          <Loading label="Loading the address" />
        </PageSection>
      )}
      {bulk ? (
        <BulkDialog
          bulk={bulk}
          onClose={() => {
            setBulk(null);
          }}
          onDone={(report) => {
            notify(report);
            void client.invalidateQueries({ queryKey: [AddressKind.plural] });
            if (bulk.action === 'delete') void navigate(listing);
          }}
        />
      ) : null}
    </Page>
  );
}
