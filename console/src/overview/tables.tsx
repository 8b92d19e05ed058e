import { Card, CardBody, CardTitle, Content } from '@patternfly/react-core';
import { Link } from 'react-router';
import type { Overview, Ranked } from '@/api/types';
import { addressPath, spacePath, spaceOf } from '@/spaces/paths';
import { DataTable, type Column } from '@/ui/DataTable';
import { Name } from '@/ui/Name';
import { PhaseLabel } from '@/ui/States';
import { duration } from '@/ui/format';

/** The tables of the overviews. */

type NotReady = Overview['notReady'][number];
type Certificate = Overview['certificates'][number];

const SOON_DAYS = 30;
const DAY_MS = 86_400_000;

function pathOf(row: NotReady): string {
  if (row.kind === 'AddressSpace') return spacePath(row.namespace, row.name);
  if (row.kind === 'MessagingUser')
    return spacePath(row.namespace, spaceOf(row.name), `users/${encodeURIComponent(row.name)}`);
  return addressPath(row.namespace, row.name);
}

const NOT_READY: Column<NotReady>[] = [
  { key: 'name', title: 'Name', width: 20, render: (row) => <Name to={pathOf(row)}>{row.name}</Name> },
  { key: 'kind', title: 'Kind', width: 15, render: (row) => row.kind },
  { key: 'namespace', title: 'Namespace', width: 15, render: (row) => row.namespace },
  {
    key: 'phase',
    title: 'Status',
    width: 10,
    render: (row) => <PhaseLabel phase={row.phase} isReady={false} />,
  },
  {
    key: 'why',
    title: 'Why, and what to do',
    render: (row) => <bdi className="em-break">{row.messages.join(' ')}</bdi>,
  },
];

/** Everything that is not ready, with the reason; nothing at all where everything is. */
export function NotReadyTable({ rows }: { rows: readonly NotReady[] | undefined }) {
  if (!rows || rows.length === 0) return null;
  return (
    <Card isCompact>
      <CardTitle>Not ready</CardTitle>
      <CardBody>
        <DataTable
          label="Not ready"
          columns={NOT_READY}
          rows={rows}
          keyOf={(row) => `${row.kind} ${row.namespace}/${row.name}`}
          empty={null}
        />
      </CardBody>
    </Card>
  );
}

export interface TopTableProps {
  title: string;
  rows: readonly Ranked[] | undefined;
  format: (value: number) => string;
  pathTo?: (row: Ranked) => string;
}

const addressOf = (row: Ranked) => addressPath(row.namespace, row.name);

export function TopTable({ title, rows, format, pathTo = addressOf }: TopTableProps) {
  const used = rows?.filter((row) => row.value > 0);
  const columns: Column<Ranked>[] = [
    { key: 'name', title: 'Name', width: 50, render: (row) => <Name to={pathTo(row)}>{row.name}</Name> },
    { key: 'namespace', title: 'Namespace', render: (row) => row.namespace },
    { key: 'value', title: 'Now', isNumeric: true, render: (row) => format(row.value) },
  ];
  return (
    <Card isCompact isFullHeight>
      <CardTitle>{title}</CardTitle>
      <CardBody>
        <DataTable
          label={title}
          columns={columns}
          rows={used}
          keyOf={(row) => `${row.namespace}/${row.name}`}
          empty={<Content component="small">None at this moment.</Content>}
        />
      </CardBody>
    </Card>
  );
}

export function CertificateTable({ rows }: { rows: readonly Certificate[] | undefined }) {
  const columns: Column<Certificate>[] = [
    {
      key: 'space',
      title: 'Address space',
      width: 50,
      render: (row) => <Link to={spacePath(row.namespace, row.space, 'connect')}>{row.space}</Link>,
    },
    { key: 'namespace', title: 'Namespace', render: (row) => row.namespace },
    {
      key: 'expires',
      title: 'Ends in',
      render: (row) => {
        const left = Date.parse(row.expires) - Date.now();
        const text = duration(left / 1000);
        return left < SOON_DAYS * DAY_MS ? <strong>{text}</strong> : text;
      },
    },
  ];
  return (
    <DataTable
      label="Certificates"
      columns={columns}
      rows={rows}
      keyOf={(row) => `${row.namespace}/${row.space} ${row.expires}`}
      empty={<Content component="small">No address space has a certificate yet.</Content>}
    />
  );
}
