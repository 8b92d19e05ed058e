import { Card, CardBody, CardTitle, Content } from '@patternfly/react-core';
import { NodeKind } from '@/api/kinds';
import { useList } from '@/api/list';
import type { Resource } from '@/api/types';
import { DataTable, type Column } from '@/ui/DataTable';
import { PhaseLabel } from '@/ui/States';
import { count, rate } from '@/ui/format';

/** The processes of the platform, as `enmasse get nodes` shows them. */

interface MessagingNode extends Resource {
  spec: { cordoned?: boolean };
  status?: {
    phase?: string;
    isReady?: boolean;
    message?: string;
    role?: string;
    zone?: string;
    version?: string;
    load?: { connections: number; messagesPerSecond: number };
  };
}

const COLUMNS: Column<MessagingNode>[] = [
  { key: 'name', title: 'Name', width: 20, render: (node) => node.metadata.name },
  {
    key: 'status',
    title: 'Status',
    width: 30,
    render: (node) => (
      <>
        <PhaseLabel phase={node.status?.phase ?? 'Pending'} isReady={node.status?.isReady ?? false} />
        {node.spec.cordoned ? ' cordoned' : ''}
        {node.status?.message ? <Content component="small">{node.status.message}</Content> : null}
      </>
    ),
  },
  { key: 'role', title: 'Role', render: (node) => node.status?.role },
  { key: 'zone', title: 'Zone', render: (node) => node.status?.zone },
  { key: 'version', title: 'Version', render: (node) => node.status?.version },
  {
    key: 'connections',
    title: 'Connections',
    isNumeric: true,
    render: (node) => count(node.status?.load?.connections),
  },
  {
    key: 'messages',
    title: 'Messages/s',
    isNumeric: true,
    render: (node) => rate(node.status?.load?.messagesPerSecond),
  },
];

export function NodesTable() {
  const list = useList<MessagingNode>(NodeKind);
  return (
    <Card isCompact>
      <CardTitle>Nodes</CardTitle>
      <CardBody>
        <DataTable
          label="Nodes"
          columns={COLUMNS}
          rows={list.data?.items}
          keyOf={(node) => node.metadata.name}
          nameOf={(node) => node.metadata.name}
          error={list.error}
          retry={() => void list.refetch()}
          empty={<Content component="small">No process has registered yet.</Content>}
        />
      </CardBody>
    </Card>
  );
}
