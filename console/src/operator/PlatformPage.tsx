import {
  Alert,
  Card,
  CardBody,
  CardTitle,
  Content,
  Grid,
  GridItem,
  PageSection,
  Progress,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { AddressSpaceKind } from '@/api/kinds';
import { useList } from '@/api/list';
import type { AddressSpace, Overview, SpaceLive } from '@/api/types';
import { useSession } from '@/app/session';
import { CertificateTable, NotReadyTable, TopTable } from '@/overview/tables';
import { useOverview } from '@/overview/useOverview';
import { spacePath } from '@/spaces/paths';
import { DataTable, type Column } from '@/ui/DataTable';
import { Facts } from '@/ui/Facts';
import { Page } from '@/ui/Page';
import { Statistic, Statistics } from '@/ui/Statistic';
import { Failure } from '@/ui/States';
import { bytes, count, percent, rate } from '@/ui/format';
import { QuotaTable } from './QuotaTable';

/** The platform as its operator sees it: nodes, disk, the largest tenants, what is promised. */

type Node = NonNullable<Overview['node']>;
interface Worker {
  number: number;
  busy: number;
  connections: number;
}

const WORKERS: Column<Worker>[] = [
  { key: 'number', title: 'Worker', render: (worker) => worker.number },
  {
    key: 'busy',
    title: 'Busy',
    width: 50,
    render: (worker) => (
      <Progress
        aria-label={`Worker ${String(worker.number)} busy`}
        value={worker.busy * 100}
        label={percent(worker.busy)}
        size="sm"
      />
    ),
  },
  {
    key: 'connections',
    title: 'Connections',
    isNumeric: true,
    render: (worker) => count(worker.connections),
  },
];

function NodeCard({ node }: { node: Node }) {
  const { version, endpoints } = useSession().platform;
  const { disk, journal } = node;
  const used = disk.sizeBytes > 0 ? 1 - disk.freeBytes / disk.sizeBytes : 0;
  return (
    <Card isCompact>
      <CardTitle>Node</CardTitle>
      <CardBody>
        <Grid hasGutter lg={6}>
          <GridItem>
            <DataTable
              label="Workers"
              columns={WORKERS}
              rows={node.workers.map((worker, number) => ({ ...worker, number }))}
              keyOf={(worker) => String(worker.number)}
              empty={<Content component="small">A stand-by has no workers.</Content>}
            />
          </GridItem>
          <GridItem>
            <Stack hasGutter>
              <StackItem>
                <Progress
                  title="Disk"
                  value={used * 100}
                  label={`${bytes(disk.sizeBytes - disk.freeBytes)} of ${bytes(disk.sizeBytes)}`}
                  {...(used > 0.9
                    ? { variant: 'danger' as const }
                    : used > 0.8
                      ? { variant: 'warning' as const }
                      : {})}
                />
              </StackItem>
              <StackItem>
                <Facts
                  of={[
                    ['Version', version],
                    [
                      'Journal',
                      journal
                        ? `${bytes(journal.usedBytes)} on disk, ${bytes(journal.aliveBytes)} in use`
                        : 'none',
                    ],
                    ...Object.entries(endpoints).map(
                      ([name, at]) => [`Listener ${name}`, `${at.host}:${String(at.port)}`] as const,
                    ),
                  ]}
                />
              </StackItem>
            </Stack>
          </GridItem>
        </Grid>
      </CardBody>
    </Card>
  );
}

/** The largest spaces by one live value. */
function useTopSpaces(sortBy: string, value: (live: SpaceLive) => number) {
  const list = useList<AddressSpace>(AddressSpaceKind, {
    query: { sortBy: `-${sortBy}`, limit: 10 },
    everyMs: 10_000,
  });
  return list.data?.items.map((space) => ({
    namespace: space.metadata.namespace ?? '',
    name: space.metadata.name,
    value: space.status?.live ? value(space.status.live) : 0,
  }));
}

export function PlatformPage() {
  const found = useOverview(undefined);
  const byIn = useTopSpaces('messagesInRate', (live) => live.messagesInPerSecond);
  const byStored = useTopSpaces('storedBytes', (live) => live.storedBytes);
  const byConnections = useTopSpaces('connections', (live) => live.connections);
  const overview = found.data;
  const toSpace = (row: { namespace: string; name: string }) => spacePath(row.namespace, row.name);
  const problems = [
    overview?.node?.problem,
    overview?.node?.journal?.stopped,
    overview?.node?.journal?.unreadable,
  ].filter((problem): problem is string => typeof problem === 'string' && problem !== '');
  return (
    <Page title="Platform" subtitle="The node and what all tenants together use of it.">
      <PageSection isFilled>
        {found.error && !overview ? (
          <Failure error={found.error} retry={() => void found.refetch()} />
        ) : (
          <Stack hasGutter>
            {problems.map((problem) => (
              <StackItem key={problem}>
                <Alert isInline variant="danger" title={problem} />
              </StackItem>
            ))}
            <Statistics>
              <Statistic
                title="Address spaces"
                value={count(overview?.totals.spaces)}
                isLoading={!overview}
              />
              <Statistic title="Addresses" value={count(overview?.totals.addresses)} isLoading={!overview} />
              <Statistic title="Users" value={count(overview?.users.total)} isLoading={!overview} />
              <Statistic
                title="Connections"
                value={count(overview?.totals.connections)}
                isLoading={!overview}
              />
              <Statistic
                title="Delivered/s"
                value={rate(overview?.totals.deliveredPerSecond)}
                isLoading={!overview}
              />
              <Statistic
                title="Stored"
                value={count(overview?.totals.stored)}
                note={bytes(overview?.totals.storedBytes)}
                isLoading={!overview}
              />
            </Statistics>
            {overview?.node ? (
              <StackItem>
                <NodeCard node={overview.node} />
              </StackItem>
            ) : null}
            <StackItem>
              <NotReadyTable rows={overview?.notReady} />
            </StackItem>
            <Grid hasGutter lg={6}>
              <GridItem>
                <TopTable
                  title="Address spaces by messages in/s"
                  rows={byIn}
                  format={rate}
                  pathTo={toSpace}
                />
              </GridItem>
              <GridItem>
                <TopTable
                  title="Address spaces by stored bytes"
                  rows={byStored}
                  format={bytes}
                  pathTo={toSpace}
                />
              </GridItem>
              <GridItem>
                <TopTable
                  title="Address spaces by connections"
                  rows={byConnections}
                  format={count}
                  pathTo={toSpace}
                />
              </GridItem>
              <GridItem>
                <Card isCompact isFullHeight>
                  <CardTitle>Certificates by end</CardTitle>
                  <CardBody>
                    <CertificateTable rows={overview?.certificates} />
                  </CardBody>
                </Card>
              </GridItem>
            </Grid>
            <StackItem>
              <QuotaTable />
            </StackItem>
          </Stack>
        )}
      </PageSection>
    </Page>
  );
}
