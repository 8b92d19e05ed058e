import { Label } from '@patternfly/react-core';
import PlugIcon from '@patternfly/react-icons/dist/esm/icons/plug-icon';
import { useQuery } from '@tanstack/react-query';
import { request } from '@/api/http';
import { AddressKind, resourcePath } from '@/api/kinds';
import type { Address, Link, LinkOutcomes } from '@/api/types';
import { spacePath, spaceOf } from '@/spaces/paths';
import { DataTable, type Column } from '@/ui/DataTable';
import { Name } from '@/ui/Name';
import { Empty } from '@/ui/States';
import { NONE, count, rate } from '@/ui/format';

const LIVE_MS = 2_000;

const OUTCOMES: readonly (keyof LinkOutcomes)[] = ['accepted', 'rejected', 'released', 'modified'];

/** The outcomes that occurred, such as `12 accepted, 1 released`. */
export function outcomesText(outcomes: LinkOutcomes | undefined): string {
  const occurred = OUTCOMES.filter((outcome) => (outcomes?.[outcome] ?? 0) > 0);
  return occurred.map((outcome) => `${count(outcomes?.[outcome])} ${outcome}`).join(', ') || NONE;
}

/** The columns of links; `connection` leads to the connection that has the link. */
export function linkColumns(connectionPath: (id: string) => string): Column<Link>[] {
  return [
    {
      key: 'role',
      title: 'Role',
      render: (link) => (
        <Label isCompact variant="outline" color={link.role === 'sender' ? 'blue' : 'teal'}>
          {link.role === 'sender' ? 'producer' : 'consumer'}
        </Label>
      ),
    },
    {
      key: 'client',
      title: 'Client',
      width: 20,
      render: (link) => (
        <Name to={connectionPath(link.connection)}>{link.container ?? `connection ${link.connection}`}</Name>
      ),
    },
    { key: 'user', title: 'User', render: (link) => (link.user ? <Name>{link.user}</Name> : '–') },
    { key: 'name', title: 'Link', isCut: true, render: (link) => <bdi>{link.name}</bdi> },
    {
      key: 'credit',
      title: 'Credit',
      isNumeric: true,
      help: 'Deliveries that the receiver allows now',
      render: (link) => count(link.credit),
    },
    { key: 'unsettled', title: 'Unsettled', isNumeric: true, render: (link) => count(link.unsettled) },
    { key: 'deliveries', title: 'Deliveries', isNumeric: true, render: (link) => count(link.deliveries) },
    { key: 'rate', title: 'Per second', isNumeric: true, render: (link) => rate(link.deliveriesPerSecond) },
    {
      key: 'outcomes',
      title: 'Outcomes',
      help: 'Of the deliveries since the attach; those sent settled, and those of MQTT, have none',
      render: (link) => outcomesText(link.outcomes),
    },
  ];
}

export function LinkTable({ address }: { address: Address }) {
  const { namespace = '', name } = address.metadata;
  const links = useQuery({
    queryKey: ['links', namespace, name],
    queryFn: ({ signal }) =>
      request<{ items: Link[] }>('GET', resourcePath(AddressKind, namespace, name, 'links'), { signal }),
    refetchInterval: LIVE_MS,
  });
  return (
    <DataTable
      label="Links"
      columns={linkColumns((id) => spacePath(namespace, spaceOf(name), `connections/${id}`))}
      rows={links.data?.items}
      keyOf={(link) => `${link.connection} ${link.role} ${link.name}`}
      error={links.error}
      retry={() => void links.refetch()}
      empty={
        <Empty title="No clients" icon={PlugIcon}>
          No client has a link to this address now.
        </Empty>
      }
    />
  );
}
