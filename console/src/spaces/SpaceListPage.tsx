import { Button, PageSection } from '@patternfly/react-core';
import CubesIcon from '@patternfly/react-icons/dist/esm/icons/cubes-icon';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';
import { AddressSpaceKind } from '@/api/kinds';
import { useList } from '@/api/list';
import { useMay } from '@/api/rights';
import { useSamples } from '@/api/samples';
import type { AddressSpace, SpaceLive } from '@/api/types';
import { useNotify } from '@/app/notices';
import { useSession } from '@/app/session';
import { DataTable, NoMatch, type Column } from '@/ui/DataTable';
import { ListToolbar, Pages } from '@/ui/ListToolbar';
import { Age } from '@/ui/Moment';
import { Name } from '@/ui/Name';
import { Page } from '@/ui/Page';
import { Empty, PhaseLabel } from '@/ui/States';
import { bytes, count, rate } from '@/ui/format';
import { useListState } from '@/ui/listState';
import { DeleteSpace } from './DeleteSpace';
import { spacePath } from './paths';

const LIVE_MS = 10_000;
export const PHASES = ['Active', 'Configuring', 'Pending', 'Failed', 'Terminating'] as const;

const keyOf = (space: AddressSpace) => `${space.metadata.namespace ?? ''}/${space.metadata.name}`;

function columnsOf(live: (space: AddressSpace) => SpaceLive | undefined): Column<AddressSpace>[] {
  return [
    {
      key: 'name',
      title: 'Name',
      isSortable: true,
      width: 20,
      render: (space) => (
        <Name to={spacePath(space.metadata.namespace ?? '', space.metadata.name)}>{space.metadata.name}</Name>
      ),
    },
    { key: 'namespace', title: 'Namespace', isSortable: true, render: (space) => space.metadata.namespace },
    { key: 'plan', title: 'Plan', isSortable: true, render: (space) => space.spec.plan },
    {
      key: 'phase',
      title: 'Status',
      isSortable: true,
      render: (space) => <PhaseLabel phase={space.status?.phase} isReady={space.status?.isReady ?? false} />,
    },
    {
      key: 'addresses',
      title: 'Addresses',
      isSortable: true,
      isNumeric: true,
      render: (space) => count(live(space)?.addresses),
    },
    {
      key: 'connections',
      title: 'Connections',
      isSortable: true,
      isNumeric: true,
      render: (space) => count(live(space)?.connections),
    },
    {
      key: 'messagesInRate',
      title: 'In/s',
      isSortable: true,
      isNumeric: true,
      help: 'Messages per second from clients',
      render: (space) => rate(live(space)?.messagesInPerSecond),
    },
    {
      key: 'messagesOutRate',
      title: 'Out/s',
      isSortable: true,
      isNumeric: true,
      help: 'Deliveries per second to clients',
      render: (space) => rate(live(space)?.messagesOutPerSecond),
    },
    {
      key: 'stored',
      title: 'Stored',
      isSortable: true,
      isNumeric: true,
      help: 'Messages that wait in queues and subscriptions',
      render: (space) => <span title={bytes(live(space)?.storedBytes)}>{count(live(space)?.stored)}</span>,
    },
    {
      key: 'created',
      title: 'Age',
      isSortable: true,
      render: (space) => <Age of={space.metadata.creationTimestamp} />,
    },
  ];
}

function NoSpaces({ mayCreate }: { mayCreate: boolean }) {
  return (
    <Empty
      title="No address spaces yet"
      icon={CubesIcon}
      action={
        mayCreate ? (
          <Button component={(props) => <Link {...props} to="/spaces/new" />}>Create address space</Button>
        ) : null
      }
    >
      An address space holds the addresses and users of one application or team, apart from all others.
    </Empty>
  );
}

export function SpaceListPage() {
  const { may } = useSession();
  const mayHere = useMay(may.namespaces[0] ?? 'default');
  const mayEverywhere = useMay('*');
  const mayCreate = mayEverywhere('create', AddressSpaceKind) || mayHere('create', AddressSpaceKind);
  const control = useListState('name', ['namespace', 'phase']);
  const [leaving, setLeaving] = useState<AddressSpace | null>(null);
  const client = useQueryClient();
  const notify = useNotify();
  const namespace = control.filters.namespace ?? (may.readAll ? undefined : may.namespaces[0]);
  const { phase } = control.filters;
  const list = useList<AddressSpace>(AddressSpaceKind, {
    namespace,
    everyMs: LIVE_MS,
    query: {
      sortBy: control.sort,
      limit: control.perPage,
      offset: control.offset || undefined,
      contains: control.search || undefined,
      fieldSelector: phase ? `status.phase=${phase}` : undefined,
    },
  });
  const sample = useSamples({ namespace, spaces: true, enabled: list.isSuccess });
  const live = (space: AddressSpace) => sample?.spaces[keyOf(space)] ?? space.status?.live;
  const total = list.data?.metadata.itemCount ?? list.data?.items.length;
  const create = mayCreate ? (
    <Button component={(props) => <Link {...props} to="/spaces/new" />}>Create address space</Button>
  ) : null;
  return (
    <Page
      title="Address spaces"
      subtitle="Each holds addresses, users and limits of its own; nothing passes from one to another."
      actions={create}
    >
      <PageSection isFilled>
        <ListToolbar
          control={control}
          total={total}
          facets={[
            { name: 'namespace', title: 'Namespace', options: may.namespaces },
            { name: 'phase', title: 'Status', options: PHASES },
          ]}
        />
        <DataTable
          label="Address spaces"
          columns={columnsOf(live)}
          rows={list.data?.items}
          keyOf={keyOf}
          nameOf={(space) => space.metadata.name}
          sort={control.sort}
          onSort={(sort) => {
            control.set({ sort });
          }}
          isStale={list.isPlaceholderData}
          error={list.error}
          retry={() => void list.refetch()}
          empty={control.isFiltered ? <NoMatch clear={control.clear} /> : <NoSpaces mayCreate={mayCreate} />}
          actions={(space) =>
            mayEverywhere('delete', AddressSpaceKind) || mayHere('delete', AddressSpaceKind)
              ? [
                  {
                    title: 'Delete',
                    onClick: () => {
                      setLeaving(space);
                    },
                  },
                ]
              : []
          }
        />
        <Pages control={control} total={total} isStale={list.isPlaceholderData} />
      </PageSection>
      {leaving ? (
        <DeleteSpace
          space={leaving}
          stored={live(leaving)?.stored}
          onClose={() => {
            setLeaving(null);
          }}
          onDone={() => {
            notify(`Address space ${leaving.metadata.name} is being deleted.`);
            void client.invalidateQueries({ queryKey: [AddressSpaceKind.plural] });
          }}
        />
      ) : null}
    </Page>
  );
}
