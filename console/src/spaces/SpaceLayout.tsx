import { Button } from '@patternfly/react-core';
import { useState } from 'react';
import { useNavigate, useOutletContext, useParams } from 'react-router';
import { AddressSpaceKind } from '@/api/kinds';
import { useResource } from '@/api/list';
import { useMay, type May } from '@/api/rights';
import type { AddressSpace } from '@/api/types';
import { useNotify } from '@/app/notices';
import { DetailPage } from '@/ui/DetailPage';
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
  { key: '', title: 'Overview' },
  { key: 'addresses', title: 'Addresses' },
  { key: 'connections', title: 'Connections' },
  { key: 'users', title: 'Users' },
  { key: 'connect', title: 'Connect' },
  { key: 'mqtt-sessions', title: 'MQTT sessions' },
  { key: 'retained', title: 'Retained messages' },
  { key: 'try', title: 'Try it' },
  { key: 'events', title: 'Events' },
];

export function SpaceLayout() {
  const { namespace = '', space: name = '' } = useParams();
  const found = useResource<AddressSpace>(AddressSpaceKind, namespace, name);
  const may = useMay(namespace);
  const navigate = useNavigate();
  const notify = useNotify();
  const [isLeaving, setIsLeaving] = useState(false);
  const isOffered: Record<string, boolean> = {
    try: may('create', AddressSpaceKind, 'connectiontokens'),
    'mqtt-sessions': may('get', AddressSpaceKind, 'mqttsessions'),
    retained: may('get', AddressSpaceKind, 'retained'),
  };
  return (
    <>
      <DetailPage
        found={found}
        title={name}
        crumbs={[{ title: 'Address spaces', to: '/spaces' }, { title: name }]}
        subtitle={({ spec }) => `${spec.type} · ${spec.plan ?? ''} · namespace ${namespace}`}
        actions={() =>
          may('delete', AddressSpaceKind) ? (
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
        base={spacePath(namespace, name)}
        tabsLabel="Parts of the address space"
        tabs={() => TABS.filter(({ key }) => isOffered[key] ?? true)}
        context={(space) => ({ space, namespace, name, may }) satisfies SpaceContext}
      />
      {isLeaving && found.data ? (
        <DeleteSpace
          space={found.data}
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
    </>
  );
}
