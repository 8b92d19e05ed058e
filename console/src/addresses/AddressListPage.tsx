import { Button, PageSection } from '@patternfly/react-core';
import InboxIcon from '@patternfly/react-icons/dist/esm/icons/inbox-icon';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';
import { AddressKind } from '@/api/kinds';
import { useList } from '@/api/list';
import { useSamples } from '@/api/samples';
import { ADDRESS_TYPES, type Address, type Statistics } from '@/api/types';
import { useNotify } from '@/app/notices';
import { addressPath, spacePath } from '@/spaces/paths';
import { useSpace } from '@/spaces/SpaceLayout';
import { PHASES } from '@/spaces/SpaceListPage';
import { DataTable, NoMatch, type Column } from '@/ui/DataTable';
import { ListToolbar, Pages } from '@/ui/ListToolbar';
import { Name } from '@/ui/Name';
import { Sparkline } from '@/ui/Sparkline';
import { Empty, PhaseLabel } from '@/ui/States';
import { bytes, count, duration, exact, rate } from '@/ui/format';
import { useListState } from '@/ui/listState';
import { BulkDialog, type Bulk } from './BulkDialog';
import { TYPE_FACTS, isManaged, isStream, typeOf } from './types';
import { useTrends } from './trends';

/** The addresses of a space: sorted, filtered and paged by the platform, with live values of the rows shown. */

const LIVE_MS = 10_000;
const keyOf = (address: Address) => `${address.metadata.namespace ?? ''}/${address.metadata.name}`;

export function typeTitle(address: Address): string {
  return isStream(address) ? 'Stream' : TYPE_FACTS[typeOf(address.spec)].title;
}

type LiveOf = (address: Address) => Statistics | undefined;

function numeric(
  key: string,
  title: string,
  help: string,
  render: (live: Statistics | undefined) => React.ReactNode,
  live: LiveOf,
): Column<Address> {
  return { key, title, help, isSortable: true, isNumeric: true, render: (address) => render(live(address)) };
}

function columnsOf(live: LiveOf, trends: ReadonlyMap<string, number[]>): Column<Address>[] {
  return [
    {
      key: 'name',
      title: 'Address',
      isSortable: true,
      width: 25,
      render: (address) => (
        <Name to={addressPath(address.metadata.namespace ?? '', address.metadata.name)}>
          {address.spec.address}
        </Name>
      ),
    },
    { key: 'type', title: 'Type', isSortable: true, render: typeTitle },
    { key: 'plan', title: 'Plan', isSortable: true, isExtra: true, render: (address) => address.spec.plan },
    {
      key: 'phase',
      title: 'Status',
      isSortable: true,
      render: (address) => (
        <PhaseLabel phase={address.status?.phase} isReady={address.status?.isReady ?? false} />
      ),
    },
    {
      key: 'trend',
      title: 'Trend',
      render: (address) => (
        <Sparkline
          values={trends.get(address.spec.address) ?? []}
          label="Deliveries of the last 15 minutes"
        />
      ),
    },
    numeric(
      'enqueuedRate',
      'Stored/s',
      'Messages stored per second',
      (now) => rate(now?.enqueuedPerSecond),
      live,
    ),
    numeric('deliveredRate', 'Out/s', 'Deliveries per second', (now) => rate(now?.deliveredPerSecond), live),
    numeric(
      'stored',
      'Stored',
      'Messages stored now',
      (now) => <span title={bytes(now?.stored.bytes)}>{count(now?.stored.messages)}</span>,
      live,
    ),
    numeric(
      'oldestAge',
      'Oldest',
      'Age of the oldest message that a consumer could get',
      (now) => (now && now.stored.messages > 0 ? duration(now.stored.oldestAgeSeconds) : '–'),
      live,
    ),
    numeric('senders', 'Producers', 'Clients that send', (now) => count(now?.senders), live),
    numeric('receivers', 'Consumers', 'Clients that receive', (now) => count(now?.receivers), live),
  ];
}

export function AddressListPage() {
  const { namespace, name: space, may } = useSpace();
  const control = useListState('name', ['type', 'phase']);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [bulk, setBulk] = useState<Bulk | null>(null);
  const client = useQueryClient();
  const notify = useNotify();
  const { type, phase } = control.filters;
  const selectors = [
    `metadata.space=${space}`,
    type ? `spec.type=${type}` : '',
    phase ? `status.phase=${phase}` : '',
  ].filter(Boolean);
  const list = useList<Address>(AddressKind, {
    namespace,
    everyMs: LIVE_MS,
    query: {
      sortBy: control.sort,
      statistics: true,
      limit: control.perPage,
      offset: control.offset || undefined,
      contains: control.search || undefined,
      fieldSelector: selectors.join(','),
    },
  });
  const rows = list.data?.items;
  const sample = useSamples({
    namespace,
    addresses: (rows ?? []).map((address) => address.metadata.name),
    enabled: (rows?.length ?? 0) > 0,
  });
  const live: LiveOf = (address) => sample?.addresses[keyOf(address)] ?? address.status?.statistics;
  const trends = useTrends(namespace, space, rows ?? []);
  const total = list.data?.metadata.itemCount ?? rows?.length;
  const mayCreate = may('create', AddressKind);
  const mayDelete = may('delete', AddressKind);
  const mayPurge = may('create', AddressKind, 'purge');
  const chosen = (rows ?? []).filter((address) => selected.has(keyOf(address)));
  const create = mayCreate ? (
    <Button component={(props) => <Link {...props} to={spacePath(namespace, space, 'addresses/new')} />}>
      Create address
    </Button>
  ) : null;
  const open = (action: Bulk['action'], addresses: Address[]) => {
    setBulk({ action, addresses });
  };
  return (
    <PageSection isFilled>
      <ListToolbar
        control={control}
        total={total}
        placeholder="Find an address"
        facets={[
          { name: 'type', title: 'Type', options: ADDRESS_TYPES },
          { name: 'phase', title: 'Status', options: PHASES },
        ]}
        actions={create}
        bulk={
          chosen.length > 0 ? (
            <>
              {mayPurge ? (
                <Button
                  variant="secondary"
                  isDisabled={!chosen.every(isManaged)}
                  onClick={() => {
                    open('purge', chosen);
                  }}
                >
                  Purge {chosen.length}
                </Button>
              ) : null}
              {mayDelete ? (
                <Button
                  variant="secondary"
                  isDanger
                  onClick={() => {
                    open('delete', chosen);
                  }}
                >
                  Delete {chosen.length}
                </Button>
              ) : null}
            </>
          ) : null
        }
      />
      <DataTable
        label="Addresses"
        columns={columnsOf(live, trends)}
        rows={rows}
        keyOf={keyOf}
        nameOf={(address) => address.spec.address}
        sort={control.sort}
        onSort={(sort) => {
          control.set({ sort });
        }}
        {...(mayDelete || mayPurge ? { selection: { selected, onChange: setSelected } } : {})}
        isStale={list.isPlaceholderData}
        error={list.error}
        retry={() => void list.refetch()}
        empty={
          control.isFiltered ? (
            <NoMatch clear={control.clear} />
          ) : (
            <Empty title="No addresses yet" icon={InboxIcon} action={create}>
              An address is a named destination: a queue, a topic, or a direct one. Clients can use it within
              a second.
            </Empty>
          )
        }
        actions={(address) => [
          ...(mayPurge && isManaged(address)
            ? [
                {
                  title: 'Purge',
                  onClick: () => {
                    open('purge', [address]);
                  },
                },
              ]
            : []),
          ...(mayDelete
            ? [
                {
                  title: 'Delete',
                  onClick: () => {
                    open('delete', [address]);
                  },
                },
              ]
            : []),
        ]}
      />
      <Pages control={control} total={total} isStale={list.isPlaceholderData} />
      {bulk ? (
        <BulkDialog
          bulk={bulk}
          onClose={() => {
            setBulk(null);
          }}
          onDone={(report) => {
            notify(report, 'success');
            setSelected(new Set());
            void client.invalidateQueries({ queryKey: [AddressKind.plural] });
          }}
        />
      ) : null}
      <span className="pf-v6-screen-reader" role="status">
        {total === undefined ? '' : `${exact(total)} ${total === 1 ? 'address' : 'addresses'}`}
      </span>
    </PageSection>
  );
}
