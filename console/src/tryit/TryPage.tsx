import {
  Alert,
  Button,
  Content,
  Form,
  Grid,
  GridItem,
  PageSection,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { UserKind } from '@/api/kinds';
import { useList } from '@/api/list';
import type { MessagingUser } from '@/api/types';
import { MessageDetail } from '@/messages/MessageDetail';
import { MessageFields } from '@/messages/MessageFields';
import { SendOutcome } from '@/messages/SendOutcome';
import { bodyLine } from '@/messages/body';
import { NEW_MESSAGE, bodyFault, outgoing } from '@/messages/messageDraft';
import { useSpace } from '@/spaces/SpaceLayout';
import { DataTable, type Column } from '@/ui/DataTable';
import { DetailCard } from '@/ui/DetailPage';
import { ActionError, Empty } from '@/ui/States';
import { SelectField, TextField } from '@/ui/fields';
import { exact, moment } from '@/ui/format';
import type { Messaging, Received } from './messaging';
import { KEPT_MAX, useMessaging, type MessagingControl } from './useMessaging';

const ANONYMOUS = '';
const LISTED_MAX = 500;

function columnsOf(open: (message: Received) => void): Column<Received>[] {
  return [
    {
      key: 'time',
      title: 'Received',
      width: 20,
      render: (one) => (
        <Button
          variant="link"
          isInline
          onClick={() => {
            open(one);
          }}
        >
          {moment(one.enqueued)}
        </Button>
      ),
    },
    {
      key: 'subject',
      title: 'Subject',
      width: 20,
      render: (one) => <bdi className="em-name">{String(one.message?.properties?.subject ?? '')}</bdi>,
    },
    { key: 'body', title: 'Body', render: (one) => <bdi className="em-break">{bodyLine(one)}</bdi> },
  ];
}

/** Choose a user, and connect as it. */
function ConnectForm({ control, users }: { control: MessagingControl; users: readonly MessagingUser[] }) {
  const [user, setUser] = useState<string | undefined>(undefined);
  const chosen = user ?? users[0]?.spec.username ?? ANONYMOUS;
  const { link } = control;
  const isOpen = link.phase === 'open';
  return (
    <Form
      isWidthLimited
      onSubmit={(event) => {
        event.preventDefault();
        if (isOpen) control.close();
        else control.open(chosen === ANONYMOUS ? undefined : chosen);
      }}
    >
      <SelectField
        label="Connect as"
        value={chosen}
        isDisabled={link.phase !== 'closed'}
        onChange={setUser}
        hint="The page sends and receives with the rights of this user, and needs no password of it."
        options={[
          ...users.map((one) => ({ value: one.spec.username, title: one.spec.username })),
          { value: ANONYMOUS, title: 'no user (a space without authentication)' },
        ]}
      />
      {link.phase === 'closed' && link.reason !== undefined ? (
        <Alert isInline isLiveRegion variant="warning" title="Not connected">
          <span className="em-break">{link.reason}</span>
        </Alert>
      ) : null}
      {isOpen ? (
        <Alert
          isInline
          isLiveRegion
          variant="success"
          title={`Connected as ${chosen === ANONYMOUS ? 'no user' : chosen}`}
        />
      ) : null}
      <div>
        <Button
          type="submit"
          variant={isOpen ? 'secondary' : 'primary'}
          isLoading={link.phase === 'opening'}
          isDisabled={link.phase === 'opening'}
        >
          {isOpen ? 'Disconnect' : 'Connect'}
        </Button>
      </div>
    </Form>
  );
}

function Receiving({ messaging, control }: { messaging: Messaging; control: MessagingControl }) {
  const [address, setAddress] = useState('');
  const [shown, setShown] = useState<Received | null>(null);
  const receiving = useMutation({ mutationFn: (from: string) => messaging.receive(from) });
  return (
    <Stack hasGutter>
      <StackItem>
        <Form
          isWidthLimited
          onSubmit={(event) => {
            event.preventDefault();
            receiving.mutate(address);
          }}
        >
          <TextField
            label="Receive from"
            value={address}
            onChange={setAddress}
            placeholder="orders"
            hint="Messages of a queue are taken from it: the page accepts them."
          />
          {receiving.error ? <ActionError error={receiving.error} title="The address refused" /> : null}
          <div>
            <Button type="submit" isDisabled={address === '' || receiving.isPending}>
              Receive
            </Button>
            <Button
              className="em-gap"
              variant="secondary"
              isDisabled={!receiving.isSuccess}
              onClick={() => {
                messaging.stopReceiving();
                receiving.reset();
              }}
            >
              Stop
            </Button>
            <Button
              className="em-gap"
              variant="link"
              isDisabled={control.total === 0}
              onClick={control.clear}
            >
              Clear
            </Button>
          </div>
        </Form>
      </StackItem>
      <StackItem>
        <Content component="small" aria-live="polite">
          {receiving.isSuccess ? 'Receiving. ' : ''}
          {exact(control.total)} received
          {control.total > KEPT_MAX ? `, the last ${String(KEPT_MAX)} shown` : ''}
        </Content>
      </StackItem>
      <StackItem>
        <DataTable
          label="Received messages"
          columns={columnsOf(setShown)}
          rows={control.received}
          keyOf={(one) => String(one.id)}
          empty={<Empty title="Nothing received yet">Messages appear here as they arrive.</Empty>}
        />
      </StackItem>
      {shown ? (
        <MessageDetail
          message={shown}
          onClose={() => {
            setShown(null);
          }}
        />
      ) : null}
    </Stack>
  );
}

function Sending({ messaging }: { messaging: Messaging }) {
  const [address, setAddress] = useState('');
  const [draft, setDraft] = useState({ ...NEW_MESSAGE, body: 'hello' });
  const sending = useMutation({ mutationFn: () => messaging.send(address, outgoing(draft)) });
  return (
    <Form
      isWidthLimited
      onSubmit={(event) => {
        event.preventDefault();
        sending.mutate();
      }}
    >
      <TextField label="Send to" value={address} onChange={setAddress} placeholder="orders" />
      <MessageFields
        draft={draft}
        set={(change) => {
          setDraft({ ...draft, ...change });
        }}
      />
      <SendOutcome error={sending.error} answer={sending.data} />
      <div>
        <Button
          type="submit"
          isLoading={sending.isPending}
          isDisabled={address === '' || sending.isPending || bodyFault(draft) !== undefined}
        >
          Send
        </Button>
      </div>
    </Form>
  );
}

/** Send and receive as a client does, in the browser. */
export function TryPage() {
  const { namespace, name } = useSpace();
  const users = useList<MessagingUser>(UserKind, { namespace, query: { limit: LISTED_MAX } });
  const control = useMessaging(namespace, name);
  const own = (users.data?.items ?? []).filter((one) => one.metadata.name.startsWith(`${name}.`));
  const messaging = control.link.phase === 'open' ? control.link.messaging : undefined;
  return (
    <PageSection isFilled>
      <Stack hasGutter>
        <DetailCard title="Connection">
          <ConnectForm control={control} users={own} />
        </DetailCard>
        {messaging ? (
          <StackItem>
            <Grid hasGutter xl={6}>
              <GridItem>
                <DetailCard title="Send">
                  <Sending messaging={messaging} />
                </DetailCard>
              </GridItem>
              <GridItem>
                <DetailCard title="Receive">
                  <Receiving messaging={messaging} control={control} />
                </DetailCard>
              </GridItem>
            </Grid>
          </StackItem>
        ) : null}
      </Stack>
    </PageSection>
  );
}
