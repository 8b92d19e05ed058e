import {
  Button,
  Card,
  CardBody,
  CardTitle,
  FormSelect,
  FormSelectOption,
  Grid,
  GridItem,
  PageSection,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import CubesIcon from '@patternfly/react-icons/dist/esm/icons/cubes-icon';
import { useState } from 'react';
import { Link } from 'react-router';
import type { Graph } from '@/ui/HistoryCharts';
import { HistoryCharts } from '@/ui/HistoryCharts';
import { useSession } from '@/app/session';
import { Page } from '@/ui/Page';
import { Statistic, Statistics } from '@/ui/Statistic';
import { Empty, Failure } from '@/ui/States';
import { bytes, count, duration, rate } from '@/ui/format';
import { NotReadyTable, TopTable, CertificateTable } from './tables';
import { useOverview } from './useOverview';

const GRAPHS: readonly Graph[] = [
  {
    title: 'Messages per second',
    format: rate,
    lines: [
      { label: 'in', query: 'sum(rate(enmasse_space_messages_in_total[$window]))' },
      { label: 'out', query: 'sum(rate(enmasse_space_messages_out_total[$window]))' },
    ],
  },
  {
    title: 'Stored messages',
    format: count,
    lines: [{ label: 'stored', query: 'sum(enmasse_space_stored_messages)' }],
  },
];

export function OverviewPage() {
  const { may } = useSession();
  const [chosen, setChosen] = useState(may.readAll ? '' : (may.namespaces[0] ?? 'default'));
  const namespace = chosen === '' ? undefined : chosen;
  const found = useOverview(namespace);
  const overview = found.data;
  const isLoading = !overview;
  const isEmpty = overview?.addressSpaces.total === 0;
  const top = overview?.top;
  return (
    <Page
      title="Overview"
      subtitle="What is stored, what moves, and what needs attention."
      actions={
        <FormSelect
          aria-label="Namespace"
          value={chosen}
          onChange={(_event, value) => {
            setChosen(value);
          }}
        >
          {may.readAll ? <FormSelectOption value="" label="All namespaces" /> : null}
          {may.namespaces.map((one) => (
            <FormSelectOption key={one} value={one} label={one} />
          ))}
        </FormSelect>
      }
    >
      <PageSection isFilled>
        {found.error && !overview ? (
          <Failure error={found.error} retry={() => void found.refetch()} />
        ) : isEmpty ? (
          <Empty
            title="No address spaces yet"
            icon={CubesIcon}
            action={
              <Button component={(props) => <Link {...props} to="/spaces/new" />}>
                Create address space
              </Button>
            }
          >
            An address space holds the addresses and users of one application or team, apart from all others.
          </Empty>
        ) : (
          <Stack hasGutter>
            <Statistics>
              <Statistic
                title="Address spaces"
                value={<Link to="/spaces">{count(overview?.addressSpaces.total)}</Link>}
                note={`${count(overview?.addressSpaces.ready)} ready`}
                isLoading={isLoading}
              />
              <Statistic
                title="Addresses"
                value={count(overview?.addresses.total)}
                note={`${count(overview?.addresses.ready)} ready`}
                isLoading={isLoading}
              />
              <Statistic
                title="Connections"
                value={count(overview?.totals.connections)}
                isLoading={isLoading}
              />
              <Statistic
                title="Stored/s"
                value={rate(overview?.totals.enqueuedPerSecond)}
                isLoading={isLoading}
              />
              <Statistic
                title="Delivered/s"
                value={rate(overview?.totals.deliveredPerSecond)}
                note={`${bytes(overview?.totals.bytesPerSecond)}/s`}
                isLoading={isLoading}
              />
              <Statistic
                title="Stored"
                value={count(overview?.totals.stored)}
                note={bytes(overview?.totals.storedBytes)}
                isLoading={isLoading}
              />
            </Statistics>
            <StackItem>
              <NotReadyTable rows={overview?.notReady} />
            </StackItem>
            <StackItem>
              <HistoryCharts namespace={namespace} graphs={GRAPHS} />
            </StackItem>
            <Grid hasGutter lg={6}>
              <GridItem>
                <TopTable title="Most stored messages" rows={top?.stored} format={count} />
              </GridItem>
              <GridItem>
                <TopTable title="Most deliveries per second" rows={top?.deliveredRate} format={rate} />
              </GridItem>
              <GridItem>
                <TopTable title="Oldest waiting message" rows={top?.oldestAge} format={duration} />
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
          </Stack>
        )}
      </PageSection>
    </Page>
  );
}
