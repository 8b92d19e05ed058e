import {
  Card,
  CardBody,
  CardTitle,
  Grid,
  GridItem,
  PageSection,
  Progress,
  ProgressMeasureLocation,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { matcher } from '@/api/history';
import { useSamples } from '@/api/samples';
import type { AddressSpace } from '@/api/types';
import { Facts } from '@/ui/Facts';
import { HistoryCharts, type Graph } from '@/ui/HistoryCharts';
import { Age } from '@/ui/Moment';
import { Loading } from '@/ui/States';
import { Statistic, Statistics } from '@/ui/Statistic';
import { bytes, count, exact, rate } from '@/ui/format';
import { Conditions } from './conditions';
import { useSpace } from './SpaceLayout';
import { periodOf, sizeOf, usageOf, usePlanChoice, type Allowance } from './planChoice';

function graphsOf(namespace: string, name: string): Graph[] {
  const scope = `{${matcher('space', `${name}.${namespace}`)}}`;
  const total = (metric: string) => `sum(rate(enmasse_space_${metric}${scope}[$window]))`;
  return [
    {
      title: 'Messages per second',
      format: rate,
      lines: [
        { label: 'in', query: total('messages_in_total') },
        { label: 'out', query: total('messages_out_total') },
      ],
    },
    {
      title: 'Stored messages',
      format: count,
      lines: [{ label: 'stored', query: `sum(enmasse_space_stored_messages${scope})` }],
    },
    {
      title: 'Bytes per second',
      format: bytes,
      lines: [
        { label: 'in', query: total('bytes_in_total') },
        { label: 'out', query: total('bytes_out_total') },
      ],
    },
    {
      title: 'Connections',
      format: count,
      lines: [{ label: 'connections', query: `sum(enmasse_space_connections${scope})` }],
    },
  ];
}

/** A share of an allowance; an unlimited one is only a number. */
function Used({
  title,
  used,
  of,
  format,
}: {
  title: string;
  used: number;
  of: number | undefined;
  format: (value: number) => string;
}) {
  if (!of) return <Facts columns={1} of={[[title, format(used)]]} />;
  const share = Math.min(100, (used / of) * 100);
  return (
    <Progress
      title={title}
      value={share}
      label={`${format(used)} of ${format(of)}`}
      measureLocation={ProgressMeasureLocation.top}
      {...(share >= 100
        ? { variant: 'danger' as const }
        : share >= 80
          ? { variant: 'warning' as const }
          : {})}
    />
  );
}

/** Usage of the present period, which the clock of the platform decides. */
function UsageCard({
  space,
  now,
  allowance,
}: {
  space: AddressSpace;
  now: string | undefined;
  allowance: Allowance | undefined;
}) {
  if (now === undefined) return <Loading label="Loading the usage" lines={5} />;
  const usage = usageOf(space.status?.usage, periodOf(now, allowance));
  return (
    <Card isCompact isFullHeight>
      <CardTitle>Usage of {usage.period} (UTC)</CardTitle>
      <CardBody>
        <Stack hasGutter>
          <StackItem>
            <Used title="Messages in" used={usage.messagesIn} of={allowance?.messages} format={exact} />
          </StackItem>
          <StackItem>
            <Used title="Bytes in" used={usage.bytesIn} of={sizeOf(allowance?.bytes)} format={bytes} />
          </StackItem>
          <StackItem>
            <Facts
              of={[
                ['Messages out', count(usage.messagesOut)],
                ['Bytes out', bytes(usage.bytesOut)],
                ['Most connections', count(usage.connections)],
                ['Most stored', bytes(usage.storedBytes)],
              ]}
            />
          </StackItem>
        </Stack>
      </CardBody>
    </Card>
  );
}

export function SpaceOverview() {
  const { space, namespace, name } = useSpace();
  const sample = useSamples({ namespace, space: name, spaces: true });
  const plan = usePlanChoice(space);
  const live = sample?.spaces[`${namespace}/${name}`] ?? space.status?.live;
  const limits = plan?.limits;
  const of = (value: number | undefined) => (value === undefined ? undefined : `of ${count(value)}`);
  return (
    <PageSection isFilled>
      <Stack hasGutter>
        <Conditions of={space.status?.conditions} />
        <Statistics>
          <Statistic
            title="Addresses"
            value={count(live?.addresses)}
            note={of(limits?.addresses)}
            isLoading={!live}
          />
          <Statistic
            title="Connections"
            value={count(live?.connections)}
            note={of(limits?.connections)}
            isLoading={!live}
          />
          <Statistic title="Links" value={count(live?.links)} note={of(limits?.links)} isLoading={!live} />
          <Statistic
            title="Messages in/s"
            value={rate(live?.messagesInPerSecond)}
            note={of(limits?.messagesPerSecond)}
            isLoading={!live}
          />
          <Statistic title="Messages out/s" value={rate(live?.messagesOutPerSecond)} isLoading={!live} />
          <Statistic
            title="Stored"
            value={count(live?.stored)}
            note={bytes(live?.storedBytes)}
            isLoading={!live}
          />
        </Statistics>
        <StackItem>
          <HistoryCharts namespace={namespace} graphs={graphsOf(namespace, name)} />
        </StackItem>
        <Grid hasGutter md={6}>
          <GridItem>
            <UsageCard space={space} now={sample?.time} allowance={limits?.allowance} />
          </GridItem>
          <GridItem>
            <Card isCompact isFullHeight>
              <CardTitle>Details</CardTitle>
              <CardBody>
                <Facts
                  of={[
                    ['Type', space.spec.type],
                    ['Plan', plan?.displayName ?? space.spec.plan],
                    [
                      'Authentication',
                      space.spec.authenticationService?.name ??
                        space.spec.authenticationService?.type ??
                        'none until it has a user',
                    ],
                    ['Endpoints', String(space.status?.endpointStatuses?.length ?? 0)],
                    ['Certificate authority', space.status?.caCert ? 'of its own' : 'none yet'],
                    ['Age', <Age key="age" of={space.metadata.creationTimestamp} />],
                  ]}
                />
              </CardBody>
            </Card>
          </GridItem>
        </Grid>
      </Stack>
    </PageSection>
  );
}
