import { PageSection } from '@patternfly/react-core';
import PlugIcon from '@patternfly/react-icons/dist/esm/icons/plug-icon';
import { useQuery } from '@tanstack/react-query';
import { request } from '@/api/http';
import { BASE } from '@/api/kinds';
import { spacePath } from '@/spaces/paths';
import { DataTable, NoMatch, type Column } from '@/ui/DataTable';
import { ListToolbar, Pages } from '@/ui/ListToolbar';
import { Name } from '@/ui/Name';
import { Page } from '@/ui/Page';
import { Empty } from '@/ui/States';
import { bytes, count } from '@/ui/format';
import { arrange, useListState } from '@/ui/listState';

/** The connections of all address spaces. */

interface NodeConnection {
  id: number;
  space: string | null;
  user: string | null;
  container: string | null;
  peer: string | null;
  transport: string;
  links: number;
  messages_in: number;
  bytes_in: number;
  messages_out: number;
  bytes_out: number;
}

const LIVE_MS = 3_000;

/** `NAME.NAMESPACE`, as the node names a space. */
function pathOf(one: NodeConnection): string | undefined {
  const [space, namespace] = (one.space ?? '').split('.');
  return space && namespace ? spacePath(namespace, space, `connections/${String(one.id)}`) : undefined;
}

const COLUMNS: Column<NodeConnection>[] = [
  {
    key: 'container',
    title: 'Client',
    isSortable: true,
    width: 20,
    render: (one) => {
      const to = pathOf(one);
      return <Name {...(to ? { to } : {})}>{one.container ?? `connection ${String(one.id)}`}</Name>;
    },
  },
  { key: 'space', title: 'Address space', isSortable: true, render: (one) => one.space ?? 'logging in' },
  { key: 'user', title: 'User', isSortable: true, render: (one) => one.user ?? 'anonymous' },
  { key: 'peer', title: 'From', isSortable: true, render: (one) => one.peer },
  { key: 'transport', title: 'Transport', isSortable: true, render: (one) => one.transport },
  { key: 'links', title: 'Links', isSortable: true, isNumeric: true, render: (one) => count(one.links) },
  {
    key: 'messages_in',
    title: 'Messages in',
    isSortable: true,
    isNumeric: true,
    render: (one) => count(one.messages_in),
  },
  {
    key: 'messages_out',
    title: 'Messages out',
    isSortable: true,
    isNumeric: true,
    render: (one) => count(one.messages_out),
  },
  {
    key: 'bytes_in',
    title: 'Bytes in',
    isSortable: true,
    isNumeric: true,
    render: (one) => bytes(one.bytes_in),
  },
  {
    key: 'bytes_out',
    title: 'Bytes out',
    isSortable: true,
    isNumeric: true,
    render: (one) => bytes(one.bytes_out),
  },
];

export function ConnectionsPage() {
  const control = useListState('container');
  const found = useQuery({
    queryKey: ['node-connections'],
    queryFn: ({ signal }) => request<{ items: NodeConnection[] }>('GET', `${BASE}/connections`, { signal }),
    refetchInterval: LIVE_MS,
  });
  const needle = control.search.toLowerCase();
  const arranged = found.data
    ? arrange(
        found.data.items,
        control,
        (one) =>
          needle === '' ||
          [one.container, one.space, one.user, one.peer].some((text) => text?.toLowerCase().includes(needle)),
        (one, key) => one[key as keyof NodeConnection] ?? '',
      )
    : undefined;
  return (
    <Page title="Connections" subtitle="The clients of all address spaces.">
      <PageSection isFilled>
        <ListToolbar
          control={control}
          total={arranged?.total}
          placeholder="Find by client, space, user or host"
        />
        <DataTable
          label="Connections"
          columns={COLUMNS}
          rows={arranged?.rows}
          keyOf={(one) => String(one.id)}
          sort={control.sort}
          onSort={(sort) => {
            control.set({ sort });
          }}
          error={found.error}
          retry={() => void found.refetch()}
          empty={
            control.isFiltered ? (
              <NoMatch clear={control.clear} />
            ) : (
              <Empty title="No clients are connected" icon={PlugIcon} />
            )
          }
        />
        <Pages control={control} total={arranged?.total} />
      </PageSection>
    </Page>
  );
}
