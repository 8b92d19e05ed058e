import {
  Button,
  Content,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { DataTable, type Column } from '@/ui/DataTable';
import { Facts } from '@/ui/Facts';
import { bytes, duration, exact } from '@/ui/format';
import type { MqttSession, MqttSubscription } from './queries';

const SUBSCRIPTIONS: Column<MqttSubscription>[] = [
  {
    key: 'filter',
    title: 'Topic filter',
    render: (one) => <bdi className="em-break">{one.filter}</bdi>,
  },
  { key: 'qos', title: 'QoS', isNumeric: true, width: 10, render: (one) => one.qos },
  {
    key: 'own',
    title: 'Own messages',
    width: 20,
    help: 'Whether the client gets what it publishes itself',
    render: (one) => (one.noLocal ? 'no' : 'yes'),
  },
];

/** What has a session. */
export function kindOf({ kind }: MqttSession): string {
  return { client: 'MQTT client', subscription: 'AMQP subscription', will: 'AMQP will' }[kind];
}

/** When a session ends by itself (MQTT 5.0, section 3.1.2.11.2). */
export function expiryOf({ expirySeconds }: MqttSession): string {
  if (expirySeconds === undefined) return 'never';
  return expirySeconds === 0 ? 'with its connection' : `${duration(expirySeconds)} after its connection`;
}

/** One session, with all its subscriptions and its will. */
export function SessionDetail({ session, onClose }: { session: MqttSession; onClose: () => void }) {
  const { subscriptions, subscriptionCount, will } = session;
  const title = `Session of ${session.clientId}`;
  return (
    <Modal isOpen variant="large" onClose={onClose} aria-label={title}>
      <ModalHeader title={<bdi className="em-break">{title}</bdi>} />
      <ModalBody tabIndex={0}>
        <Stack hasGutter>
          <StackItem>
            <Facts
              columns={3}
              of={[
                ['Kind', kindOf(session)],
                [
                  { client: 'Client id', subscription: 'Subscription', will: 'Container' }[session.kind],
                  <bdi key="client" className="em-break">
                    {session.clientId}
                  </bdi>,
                ],
                session.link === undefined
                  ? null
                  : [
                      'Link',
                      <bdi key="link" className="em-break">
                        {session.link}
                      </bdi>,
                    ],
                ['User', session.user ?? 'anonymous'],
                ['Client', session.connected ? 'connected' : 'away'],
                ['Ends', expiryOf(session)],
                will
                  ? [
                      'Will topic',
                      <bdi key="will" className="em-break">
                        {will.topic}
                      </bdi>,
                    ]
                  : ['Will', 'none'],
                will
                  ? [
                      'Will',
                      `${bytes(will.bytes)}, QoS ${String(will.qos)}${will.retain ? ', retained' : ''}`,
                    ]
                  : null,
                will ? ['Will delay', duration(will.delaySeconds)] : null,
              ]}
            />
          </StackItem>
          <StackItem>
            <Content component="h3">Subscriptions</Content>
            <DataTable
              label="Subscriptions"
              columns={SUBSCRIPTIONS}
              rows={subscriptions}
              keyOf={(one) => one.filter}
              empty={<Content component="small">None: the client gets no messages.</Content>}
            />
            {subscriptionCount > subscriptions.length ? (
              <Content component="small">
                The first {exact(subscriptions.length)} of {exact(subscriptionCount)} are shown.
              </Content>
            ) : null}
          </StackItem>
        </Stack>
      </ModalBody>
      <ModalFooter>
        <Button onClick={onClose}>Close</Button>
      </ModalFooter>
    </Modal>
  );
}
