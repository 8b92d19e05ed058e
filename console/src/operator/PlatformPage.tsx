import {
  Alert,
  Card,
  CardBody,
  CardTitle,
  Grid,
  GridItem,
  PageSection,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { AddressSpaceKind } from '@/api/kinds';
import { useList } from '@/api/list';
import type { AddressSpace, SpaceLive } from '@/api/types';
import { CertificateTable, NotReadyTable, TopTable } from '@/overview/tables';
import { useOverview } from '@/overview/useOverview';
import { spacePath } from '@/spaces/paths';
import { Page } from '@/ui/Page';
import { Statistic, Statistics } from '@/ui/Statistic';
import { Failure } from '@/ui/States';
import { bytes, count, rate } from '@/ui/format';
import { NodeCard } from './NodeCard';
import { NodesTable } from './NodesTable';
import { QuotaTable } from './QuotaTable';

/** The platform as its operator sees it: nodes, disk, the largest tenants, what is promised. */

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
  // A stand-by has no engine, so no workers: it waits, and nothing is wrong with it.
  const isStandBy = overview?.node?.workers.length === 0;
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
                <Alert isInline variant={isStandBy ? 'info' : 'danger'} title={problem} />
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
            <StackItem>
              <NodesTable />
            </StackItem>
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
