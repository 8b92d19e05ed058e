import { Button, Label, PageSection } from '@patternfly/react-core';
import PlugIcon from '@patternfly/react-icons/dist/esm/icons/plug-icon';
import LockIcon from '@patternfly/react-icons/dist/esm/icons/lock-icon';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';
import type { Kind } from '@/api/kinds';
import type { Connection } from '@/api/types';
import { useNotify } from '@/app/notices';
import { useSpace } from '@/spaces/SpaceLayout';
import { spacePath } from '@/spaces/paths';
import { Confirm } from '@/ui/Confirm';
import { DataTable, NoMatch, type Column } from '@/ui/DataTable';
import { ListToolbar, Pages } from '@/ui/ListToolbar';
import { Name } from '@/ui/Name';
import { Empty } from '@/ui/States';
import { bytes, count, plural, rate } from '@/ui/format';
import { arrange, useListState } from '@/ui/listState';
import { closeConnection, useConnections } from './queries';

/** The clients that are connected to a space. */

export const ConnectionKind: Kind = {
  kind: 'Connection',
  plural: 'connections',
  group: 'enmasse.io',
  version: 'v1beta1',
  namespaced: true,
  title: 'connection',
};

function valueOf(connection: Connection, key: string): string | number {
  switch (key) {
    case 'user':
      return connection.user ?? '';
    case 'peer':
      return connection.peer ?? '';
    case 'links':
      return connection.linkCount;
    case 'in':
      return connection.messagesInPerSecond ?? 0;
    case 'out':
      return connection.messagesOutPerSecond ?? 0;
    case 'bytes':
      return connection.bytesIn + connection.bytesOut;
    case 'product':
      return connection.product ?? '';
    default:
      return connection.container ?? '';
  }
}

function columnsOf(pathOf: (id: string) => string): Column<Connection>[] {
  return [
    {
      key: 'container',
      title: 'Client',
      isSortable: true,
      width: 20,
      render: (one) => <Name to={pathOf(one.id)}>{one.container ?? `connection ${one.id}`}</Name>,
    },
    {
      key: 'user',
      title: 'User',
      isSortable: true,
      render: (one) => (one.user ? <Name>{one.user}</Name> : 'anonymous'),
    },
    {
      key: 'protocol',
      title: 'Protocol',
      render: (one) => (
        <Label
          isCompact
          variant="outline"
          {...(one.tls ? { icon: <LockIcon />, status: 'success' as const } : {})}
        >
          {one.protocol}
          {one.transport.startsWith('ws') ? ' / WebSocket' : ''}
        </Label>
      ),
    },
    { key: 'peer', title: 'From', isSortable: true, render: (one) => one.peer },
    { key: 'product', title: 'Product', isSortable: true, render: (one) => one.product ?? '–' },
    {
      key: 'links',
      title: 'Links',
      isSortable: true,
      isNumeric: true,
      render: (one) => count(one.linkCount),
    },
    {
      key: 'in',
      title: 'In/s',
      isSortable: true,
      isNumeric: true,
      render: (one) => rate(one.messagesInPerSecond),
    },
    {
      key: 'out',
      title: 'Out/s',
      isSortable: true,
      isNumeric: true,
      render: (one) => rate(one.messagesOutPerSecond),
    },
    {
      key: 'bytes',
      title: 'Bytes',
      isSortable: true,
      isNumeric: true,
      render: (one) => bytes(one.bytesIn + one.bytesOut),
    },
  ];
}

export function SpaceConnectionsPage() {
  const { namespace, name: space, may } = useSpace();
  const control = useListState('container');
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [closing, setClosing] = useState<readonly Connection[] | null>(null);
  const found = useConnections(namespace, space);
  const client = useQueryClient();
  const notify = useNotify();
  const needle = control.search.toLowerCase();
  const arranged = found.data
    ? arrange(
        found.data.items,
        control,
        (one) =>
          [one.container, one.user, one.peer, one.product].some((text) =>
            text?.toLowerCase().includes(needle),
          ) || needle === '',
        valueOf,
      )
    : undefined;
  const mayClose = may('delete', ConnectionKind);
  const chosen = (found.data?.items ?? []).filter((one) => selected.has(one.id));
  return (
    <PageSection isFilled>
      <ListToolbar
        control={control}
        total={arranged?.total}
        placeholder="Find by client, user or host"
        bulk={
          chosen.length > 0 ? (
            <Button
              variant="secondary"
              isDanger
              onClick={() => {
                setClosing(chosen);
              }}
            >
              Close {chosen.length}
            </Button>
          ) : null
        }
      />
      <DataTable
        label="Connections"
        columns={columnsOf((id) => spacePath(namespace, space, `connections/${id}`))}
        rows={arranged?.rows}
        keyOf={(one) => one.id}
        nameOf={(one) => one.container ?? one.id}
        sort={control.sort}
        onSort={(sort) => {
          control.set({ sort });
        }}
        {...(mayClose ? { selection: { selected, onChange: setSelected } } : {})}
        error={found.error}
        retry={() => void found.refetch()}
        actions={(one) =>
          mayClose
            ? [
                {
                  title: 'Close',
                  onClick: () => {
                    setClosing([one]);
                  },
                },
              ]
            : []
        }
        empty={
          control.isFiltered ? (
            <NoMatch clear={control.clear} />
          ) : (
            <Empty
              title="No clients are connected"
              icon={PlugIcon}
              action={
                <Button
                  component={(props) => <Link {...props} to={spacePath(namespace, space, 'connect')} />}
                >
                  See how to connect
                </Button>
              }
            >
              A client appears here as soon as it has logged in.
            </Empty>
          )
        }
      />
      <Pages control={control} total={arranged?.total} />
      {closing ? (
        <Confirm
          title={`Close ${plural(closing.length, 'connection')}?`}
          action="Close"
          run={() => Promise.all(closing.map((one) => closeConnection(namespace, one.id)))}
          onDone={() => {
            notify(`${plural(closing.length, 'connection')} closed.`);
            setSelected(new Set());
            void client.invalidateQueries({ queryKey: ['connections'] });
          }}
          onClose={() => {
            setClosing(null);
          }}
        >
          The clients see <code>amqp:connection:forced</code> and may connect again. Messages that they hold
          return to their addresses.
        </Confirm>
      ) : null}
    </PageSection>
  );
}
