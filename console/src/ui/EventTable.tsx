import { Label } from '@patternfly/react-core';
import { useList } from '@/api/list';
import { EventKind } from '@/api/kinds';
import type { KubernetesEvent } from '@/api/types';
import { DataTable, type Column } from './DataTable';
import { Age } from './Moment';
import { Name } from './Name';
import { Empty } from './States';
import { count } from './format';

/** Events of one resource, or of all that a test accepts, newest first. */

const COLUMNS: Column<KubernetesEvent>[] = [
  { key: 'last', title: 'Last seen', width: 10, render: (event) => <Age of={event.lastTimestamp} /> },
  {
    key: 'type',
    title: 'Type',
    width: 10,
    render: (event) => (
      <Label isCompact variant="outline" status={event.type === 'Warning' ? 'warning' : 'info'}>
        {event.type}
      </Label>
    ),
  },
  { key: 'reason', title: 'Reason', width: 15, render: (event) => event.reason },
  {
    key: 'object',
    title: 'About',
    width: 20,
    render: (event) => <Name>{event.involvedObject.name ?? ''}</Name>,
  },
  { key: 'message', title: 'Message', render: (event) => <span className="em-break">{event.message}</span> },
  { key: 'count', title: 'Count', isNumeric: true, render: (event) => count(event.count) },
];

export interface EventTableProps {
  namespace: string;
  /** Which events belong here. */
  concerns: (event: KubernetesEvent) => boolean;
}

export function EventTable({ namespace, concerns }: EventTableProps) {
  const events = useList<KubernetesEvent>(EventKind, { namespace, query: { limit: 1000 } });
  const rows = events.data?.items
    .filter(concerns)
    .sort((one, other) => (other.lastTimestamp ?? '').localeCompare(one.lastTimestamp ?? ''));
  return (
    <DataTable
      label="Events"
      columns={COLUMNS}
      rows={rows}
      keyOf={(event) => event.metadata.name}
      error={events.error}
      retry={() => void events.refetch()}
      empty={<Empty title="No events">Events are kept until newer ones need their room.</Empty>}
    />
  );
}
