import { Label, PageSection, Stack, StackItem } from '@patternfly/react-core';
import PlugIcon from '@patternfly/react-icons/dist/esm/icons/plug-icon';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';
import { AddressSpaceKind } from '@/api/kinds';
import { useNotify } from '@/app/notices';
import { useSpace } from '@/spaces/SpaceLayout';
import { spacePath } from '@/spaces/paths';
import { Confirm } from '@/ui/Confirm';
import { DataTable, type Column } from '@/ui/DataTable';
import { Name } from '@/ui/Name';
import { RowButton, ShowMore } from '@/ui/SliceParts';
import { Empty } from '@/ui/States';
import { NONE, count, plural } from '@/ui/format';
import { SessionDetail, expiryOf, kindOf } from './SessionDetail';
import { endSession, useSessions, type MqttSession } from './queries';

/** A client id belongs to a user: two users may have the same one. */
const keyOf = ({ user, kind, clientId, link }: MqttSession) =>
  JSON.stringify([user ?? null, kind, clientId, link ?? null]);

/** What becomes of a connected client. */
const CLIENT_AFTER_END = {
  client: ' Its client is disconnected, and begins a new session if it returns.',
  subscription: ' Its receiver is detached.',
  will: '',
};

function columnsOf(
  connectionPath: (id: string) => string,
  open: (session: MqttSession) => void,
): Column<MqttSession>[] {
  return [
    {
      key: 'clientId',
      title: 'Client id',
      width: 20,
      render: (one) => (
        <RowButton
          onClick={() => {
            open(one);
          }}
        >
          <Name>{one.clientId}</Name>
        </RowButton>
      ),
    },
    { key: 'kind', title: 'Kind', help: 'What has the session', render: kindOf },
    { key: 'user', title: 'User', render: (one) => (one.user ? <Name>{one.user}</Name> : 'anonymous') },
    {
      key: 'client',
      title: 'Client',
      render: (one) =>
        one.connection ? (
          <Link to={connectionPath(one.connection)}>connected</Link>
        ) : (
          <Label isCompact variant="outline">
            away
          </Label>
        ),
    },
    { key: 'ends', title: 'Ends', help: 'When it ends by itself', render: expiryOf },
    {
      key: 'subscriptions',
      title: 'Subscriptions',
      isNumeric: true,
      render: (one) => count(one.subscriptionCount),
    },
    {
      key: 'filters',
      title: 'Topic filters',
      width: 20,
      isCut: true,
      render: (one) => <bdi>{one.subscriptions.map(({ filter }) => filter).join(', ') || NONE}</bdi>,
    },
    {
      key: 'will',
      title: 'Will',
      help: 'The topic of the message that is published when the client is lost',
      render: (one) => (one.will ? <Name>{one.will.topic}</Name> : NONE),
    },
  ];
}

/** The MQTT sessions of a space, of connected clients and of those that may come back. */
export function SessionsPage() {
  const { namespace, name: space, may } = useSpace();
  const found = useSessions(namespace, space);
  const client = useQueryClient();
  const notify = useNotify();
  const [opened, setOpened] = useState<MqttSession | null>(null);
  const [ending, setEnding] = useState<MqttSession | null>(null);
  const rows = found.data?.pages.flatMap((page) => page.items);
  const more = found.data?.pages.at(-1)?.metadata.remainingItemCount ?? 0;
  const mayEnd = may('delete', AddressSpaceKind, 'mqttsessions');
  return (
    <PageSection isFilled>
      <Stack hasGutter>
        <StackItem>
          <DataTable
            label="MQTT sessions"
            columns={columnsOf((id) => spacePath(namespace, space, `connections/${id}`), setOpened)}
            rows={rows}
            keyOf={keyOf}
            nameOf={(one) => one.clientId}
            error={found.error}
            retry={() => void found.refetch()}
            {...(mayEnd
              ? {
                  actions: (one: MqttSession) => [
                    {
                      title: 'End session',
                      onClick: () => {
                        setEnding(one);
                      },
                    },
                  ],
                }
              : {})}
            empty={
              <Empty title="No MQTT sessions" icon={PlugIcon}>
                An MQTT client has a session while it is connected, and as long afterwards as it asked for.
                Subscriptions and wills of AMQP clients are sessions as well.
              </Empty>
            }
          />
        </StackItem>
        <StackItem>
          <ShowMore found={found} rows={rows?.length ?? 0} word="session" rest={more} />
        </StackItem>
      </Stack>
      {opened ? (
        <SessionDetail
          session={opened}
          onClose={() => {
            setOpened(null);
          }}
        />
      ) : null}
      {ending ? (
        <Confirm
          title="End the session?"
          action="End session"
          run={() => endSession(namespace, space, ending)}
          onDone={() => {
            notify('The session was ended.');
            void client.invalidateQueries({ queryKey: ['mqttsessions', namespace, space] });
          }}
          onClose={() => {
            setEnding(null);
          }}
        >
          The session of <bdi>{ending.clientId}</bdi> loses {plural(ending.subscriptionCount, 'subscription')}{' '}
          and the messages that wait for it.
          {ending.connected ? CLIENT_AFTER_END[ending.kind] : ''}
          {ending.will ? ' Its will is published.' : ''}
        </Confirm>
      ) : null}
    </PageSection>
  );
}
