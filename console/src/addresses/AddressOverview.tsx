import {
  Card,
  CardBody,
  CardTitle,
  Grid,
  GridItem,
  PageSection,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { Link } from 'react-router';
import { matcher } from '@/api/history';
import { addressPath } from '@/spaces/paths';
import { Conditions } from '@/spaces/conditions';
import { EventTable } from '@/ui/EventTable';
import { Facts } from '@/ui/Facts';
import { HistoryCharts, type Graph } from '@/ui/HistoryCharts';
import { Age } from '@/ui/Moment';
import { Statistic, Statistics } from '@/ui/Statistic';
import { bytes, count, duration, exact, milliseconds, rate } from '@/ui/format';
import { useAddress, type AddressContext } from './AddressLayout';
import { LinkTable } from './LinkTable';
import { holdsMessages, isManaged } from './types';

function graphsOf({ address, namespace, space }: AddressContext): Graph[] {
  const scope = `{${matcher('space', `${space}.${namespace}`)},${matcher('address', address.spec.address)}}`;
  const gauge = (metric: string) => `sum(enmasse_address_${metric}${scope})`;
  const perSecond = (metric: string) => `sum(rate(enmasse_address_${metric}${scope}[$window]))`;
  const stores = holdsMessages(address);
  return [
    {
      title: 'Messages per second',
      format: rate,
      lines: [
        ...(stores ? [{ label: 'stored', query: perSecond('enqueued_messages_total') }] : []),
        { label: 'delivered', query: perSecond('delivered_total') },
      ],
    },
    ...(stores
      ? [
          {
            title: 'Stored messages',
            format: count,
            lines: [{ label: 'stored', query: gauge('stored_messages') }],
          },
          {
            title: 'Age of the oldest message',
            format: duration,
            lines: [{ label: 'oldest', query: `max(enmasse_address_oldest_message_age_seconds${scope})` }],
          },
        ]
      : []),
    {
      title: 'Links',
      format: count,
      lines: [
        { label: 'producers', query: gauge('senders') },
        { label: 'consumers', query: gauge('receivers') },
      ],
    },
  ];
}

function StatisticsRow({ address, live }: AddressContext) {
  const stores = holdsMessages(address);
  const limits = address.status?.limits;
  const isLoading = !live;
  const dead = live
    ? live.deadLettered.rejected + live.deadLettered.maximumDeliveryAttempts + live.deadLettered.expired
    : 0;
  return (
    <Statistics>
      {stores ? (
        <>
          <Statistic
            title="Stored"
            value={count(live?.stored.messages)}
            note={limits?.messages ? `of ${count(limits.messages)}` : bytes(live?.stored.bytes)}
            isLoading={isLoading}
          />
          <Statistic
            title="Oldest"
            value={live && live.stored.messages > 0 ? duration(live.stored.oldestAgeSeconds) : '–'}
            note="waiting"
            isLoading={isLoading}
          />
          <Statistic
            title="With consumers"
            value={count(live?.stored.inFlight)}
            note={`${count(live?.stored.scheduled)} scheduled`}
            isLoading={isLoading}
          />
          <Statistic title="Stored/s" value={rate(live?.enqueuedPerSecond)} isLoading={isLoading} />
        </>
      ) : null}
      <Statistic
        title="Delivered/s"
        value={rate(live?.deliveredPerSecond)}
        note={`${bytes(live?.bytesPerSecond)}/s`}
        isLoading={isLoading}
      />
      <Statistic
        title="Producers"
        value={count(live?.senders)}
        note={limits?.producers ? `of ${count(limits.producers)}` : undefined}
        isLoading={isLoading}
      />
      <Statistic
        title="Consumers"
        value={count(live?.receivers)}
        note={limits?.consumers ? `of ${count(limits.consumers)}` : undefined}
        isLoading={isLoading}
      />
      {isManaged(address) ? (
        <Statistic
          title="Dead letters"
          value={count(dead)}
          note="given up since the start"
          isLoading={isLoading}
        />
      ) : null}
    </Statistics>
  );
}

/** What is in force, with defaults and what comes from the plan or the topic. */
function InForce({ address, live }: AddressContext) {
  const { spec, status } = address;
  const attempts = status?.messageRedelivery?.maximumDeliveryAttempts;
  return (
    <Card isCompact isFullHeight>
      <CardTitle>In force</CardTitle>
      <CardBody>
        <Facts
          of={[
            [
              'Address',
              <bdi key="address" className="em-break">
                {spec.address}
              </bdi>,
            ],
            spec.topic ? ['Topic', spec.topic] : null,
            ['Dead letters go to', spec.deadletter ?? 'nowhere: a message stays'],
            ['Expired messages go to', spec.expiry ?? 'nowhere: they are dropped'],
            ['Time to live, at most', milliseconds(status?.messageTtl?.maximum)],
            ['Delivery attempts', attempts === undefined || attempts === -1 ? 'unlimited' : exact(attempts)],
            ['Size limit', status?.limits?.bytes === undefined ? 'none' : bytes(Number(status.limits.bytes))],
            ['When full', status?.limits?.onFull ?? 'the default of the plan'],
            ['Delivered since the start', live ? exact(live.delivered) : undefined],
            ['Age', <Age key="age" of={address.metadata.creationTimestamp} />],
          ]}
        />
      </CardBody>
    </Card>
  );
}

function Outcomes({ live }: AddressContext) {
  if (!live) return null;
  const { outcomes } = live;
  return (
    <Card isCompact isFullHeight>
      <CardTitle>Since the platform started</CardTitle>
      <CardBody>
        <Facts
          of={[
            ['Accepted', exact(outcomes.accepted)],
            ['Sent settled', exact(outcomes.presettled)],
            ['Rejected', exact(outcomes.rejected)],
            ['Released', exact(outcomes.released)],
            ['Modified', exact(outcomes.modified)],
            ['Dropped', exact(outcomes.dropped)],
            ['Redelivered', exact(live.redelivered)],
            ['Expired', exact(live.expired)],
            ['Duplicates', exact(live.duplicates)],
            ['Producers waited for credit', `${exact(live.creditStalls)} times`],
          ]}
        />
      </CardBody>
    </Card>
  );
}

export function AddressOverview() {
  const context = useAddress();
  const { address, namespace, live } = context;
  const isBacklogged = live && live.stored.messages > 0 && live.receivers === 0 && isManaged(address);
  return (
    <PageSection isFilled>
      <Stack hasGutter>
        <Conditions of={address.status?.conditions} />
        {isBacklogged && address.spec.type !== 'deadletter' ? (
          <StackItem>
            Messages wait and no consumer is attached.{' '}
            <Link to={addressPath(namespace, address.metadata.name, 'messages')}>Look at the messages</Link>
          </StackItem>
        ) : null}
        <StatisticsRow {...context} />
        <StackItem>
          <HistoryCharts namespace={namespace} graphs={graphsOf(context)} />
        </StackItem>
        <StackItem>
          <Card isCompact>
            <CardTitle>Links</CardTitle>
            <CardBody>
              <LinkTable address={address} />
            </CardBody>
          </Card>
        </StackItem>
        <Grid hasGutter md={6}>
          <GridItem>
            <InForce {...context} />
          </GridItem>
          <GridItem>
            <Outcomes {...context} />
          </GridItem>
        </Grid>
        <StackItem>
          <Card isCompact>
            <CardTitle>Events</CardTitle>
            <CardBody>
              <EventTable
                namespace={namespace}
                concerns={({ involvedObject }) => involvedObject.uid === address.metadata.uid}
              />
            </CardBody>
          </Card>
        </StackItem>
      </Stack>
    </PageSection>
  );
}
