import { Button } from '@patternfly/react-core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate, useOutletContext, useParams } from 'react-router';
import { AddressKind } from '@/api/kinds';
import { useResource } from '@/api/list';
import { useMay, type May } from '@/api/rights';
import { useSamples } from '@/api/samples';
import type { Address, Statistics } from '@/api/types';
import { useNotify } from '@/app/notices';
import { addressPath, spaceOf, spacePath } from '@/spaces/paths';
import { DetailPage, type TabSpec } from '@/ui/DetailPage';
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

function tabsOf(address: Address, may: May): TabSpec[] {
  const mayPeek = may('create', AddressKind, 'peek');
  const isSendable = acceptsMessages(address) && may('create', AddressKind, 'send');
  return [
    { key: '', title: 'Overview' },
    ...(holdsMessages(address) && mayPeek ? [{ key: 'messages', title: 'Messages' }] : []),
    ...(address.spec.type === 'deadletter' && mayPeek ? [{ key: 'deadletters', title: 'By cause' }] : []),
    ...(isSendable ? [{ key: 'send', title: 'Send' }] : []),
    { key: 'settings', title: 'Settings' },
  ];
}

export function AddressLayout() {
  const { namespace = '', address: name = '' } = useParams();
  // A link may name another space than the one that the address is in.
  const space = spaceOf(name);
  const found = useResource<Address>(AddressKind, namespace, name, { query: { statistics: true } });
  const sample = useSamples({ namespace, addresses: [name], enabled: found.isSuccess });
  const may = useMay(namespace);
  const [bulk, setBulk] = useState<Bulk | null>(null);
  const navigate = useNavigate();
  const client = useQueryClient();
  const notify = useNotify();
  const listing = spacePath(namespace, space, 'addresses');
  const title = found.data?.spec.address ?? name;
  return (
    <>
      <DetailPage
        found={found}
        title={title}
        crumbs={[
          { title: 'Address spaces', to: '/spaces' },
          { title: space, to: spacePath(namespace, space) },
          { title: 'Addresses', to: listing },
          { title },
        ]}
        subtitle={(shown) => `${typeTitle(shown)} · ${shown.spec.plan ?? 'no plan'}`}
        actions={(shown) => (
          <>
            {isManaged(shown) && may('create', AddressKind, 'purge') ? (
              <Button
                variant="secondary"
                onClick={() => {
                  setBulk({ action: 'purge', addresses: [shown] });
                }}
              >
                Purge
              </Button>
            ) : null}
            {may('delete', AddressKind) ? (
              <Button
                variant="secondary"
                isDanger
                className="em-gap"
                onClick={() => {
                  setBulk({ action: 'delete', addresses: [shown] });
                }}
              >
                Delete
              </Button>
            ) : null}
          </>
        )}
        base={addressPath(namespace, name)}
        tabsLabel="Parts of the address"
        tabs={(shown) => tabsOf(shown, may)}
        context={(shown) =>
          ({
            address: shown,
            namespace,
            space,
            may,
            live: sample?.addresses[`${namespace}/${name}`] ?? shown.status?.statistics,
          }) satisfies AddressContext
        }
      />
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
    </>
  );
}
