import { Button, Content, Flex, FlexItem, PageSection, Stack, StackItem } from '@patternfly/react-core';
import EnvelopeIcon from '@patternfly/react-icons/dist/esm/icons/envelope-open-icon';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useSearchParams } from 'react-router';
import { isRefusedExpression } from '@/api/errors';
import { useFirstRow } from '@/api/slices';
import { AddressSpaceKind } from '@/api/kinds';
import { useNotify } from '@/app/notices';
import { MessageDetail } from '@/messages/MessageDetail';
import { bodyLine } from '@/messages/body';
import { useSpace } from '@/spaces/SpaceLayout';
import { Confirm } from '@/ui/Confirm';
import { DataTable, type Column } from '@/ui/DataTable';
import { Age } from '@/ui/Moment';
import { ExpressionSearch, ReadAgain, RowButton, ShowMore } from '@/ui/SliceParts';
import { ActionError, Empty } from '@/ui/States';
import { NONE, bytes, exact, plural } from '@/ui/format';
import { ANY_TOPIC, deleteRetained, useRetained, type RetainedMessage } from './queries';

const keyOf = (one: RetainedMessage) => one.topic ?? `message ${String(one.id)}`;
/** A topic as a filter of its own; a name with wildcards of MQTT would match others too. */
const isExact = (topic: string | null): topic is string => topic !== null && !/[+#]/.test(topic);

function columnsOf(open: (message: RetainedMessage) => void): Column<RetainedMessage>[] {
  return [
    {
      key: 'topic',
      title: 'Topic',
      width: 30,
      render: (one) => (
        <RowButton
          onClick={() => {
            open(one);
          }}
        >
          <bdi className="em-break">{keyOf(one)}</bdi>
        </RowButton>
      ),
    },
    {
      key: 'body',
      title: 'Body',
      width: 35,
      isCut: true,
      render: (one) => <bdi>{one.message ? bodyLine(one) : 'too large to be shown here'}</bdi>,
    },
    { key: 'bytes', title: 'Size', isNumeric: true, render: (one) => bytes(one.bytes) },
    { key: 'stored', title: 'Stored', render: (one) => <Age of={one.enqueued} /> },
    {
      key: 'expires',
      title: 'Expires',
      render: (one) => (one.expires ? new Date(one.expires).toLocaleString('en') : NONE),
    },
  ];
}

interface DeletionProps {
  filter: string;
  /** What is known of how many match: the messages on the page, and whether there are others. */
  known: number;
  hasMore: boolean;
  onDone: (messages: number) => void;
  onClose: () => void;
}

function Deletion({ filter, known, hasMore, onDone, onClose }: DeletionProps) {
  const { namespace, name } = useSpace();
  return (
    <Confirm
      title="Delete retained messages?"
      action="Delete"
      run={() => deleteRetained(namespace, name, filter)}
      onDone={onDone}
      onClose={onClose}
    >
      <Content component="p">
        {hasMore ? 'More than ' : ''}
        <strong>{exact(known)}</strong> {known === 1 ? 'message' : 'messages'} whose topic matches{' '}
        <code>
          <bdi>{filter}</bdi>
        </code>{' '}
        will be lost. New subscriptions get none until a client publishes again. This cannot be undone.
      </Content>
    </Confirm>
  );
}

/** The message that each topic keeps for new subscriptions of MQTT. */
export function RetainedPage() {
  const { namespace, name: space, may } = useSpace();
  const [parameters, setParameters] = useSearchParams();
  const asked = parameters.get('filter') ?? '';
  const filter = asked || ANY_TOPIC;
  const [opened, setOpened] = useState<RetainedMessage | null>(null);
  const [deleting, setDeleting] = useState<Pick<DeletionProps, 'filter' | 'known' | 'hasMore'> | null>(null);
  const found = useRetained(namespace, space, filter);
  const client = useQueryClient();
  const notify = useNotify();
  const rows = found.data?.pages.flatMap((page) => page.items);
  const isLooking = useFirstRow(found, rows);
  const isFilterWrong = asked !== '' && isRefusedExpression(found.error);
  const mayDelete = may('delete', AddressSpaceKind, 'retained');
  const search = (text: string) => {
    setParameters(text ? { filter: text } : {}, { replace: true });
  };
  return (
    <PageSection isFilled>
      <Stack hasGutter>
        <StackItem>
          <Flex justifyContent={{ default: 'justifyContentSpaceBetween' }}>
            <FlexItem grow={{ default: 'grow' }} className="em-search">
              <ExpressionSearch
                label="Topic filter"
                example="sensors/+/temperature"
                initial={asked}
                onSearch={search}
              />
            </FlexItem>
            <FlexItem>
              <ReadAgain onClick={() => void found.refetch()} />
              {mayDelete ? (
                <Button
                  variant="link"
                  isDanger
                  className="em-gap"
                  isDisabled={isFilterWrong || (rows?.length ?? 0) === 0}
                  onClick={() => {
                    setDeleting({ filter, known: rows?.length ?? 0, hasMore: found.hasNextPage });
                  }}
                >
                  {asked ? 'Delete matching' : 'Delete all'}
                </Button>
              ) : null}
            </FlexItem>
          </Flex>
        </StackItem>
        {isFilterWrong ? (
          <StackItem>
            <ActionError error={found.error} title="The topic filter cannot be read" />
          </StackItem>
        ) : null}
        <StackItem>
          <DataTable
            label="Retained messages"
            columns={columnsOf(setOpened)}
            rows={isFilterWrong ? [] : isLooking ? undefined : rows}
            keyOf={keyOf}
            error={found.error}
            retry={() => void found.refetch()}
            {...(mayDelete
              ? {
                  actions: (one: RetainedMessage) => {
                    const { topic } = one;
                    if (!isExact(topic)) return [];
                    return [
                      {
                        title: 'Delete',
                        onClick: () => {
                          setDeleting({ filter: topic, known: 1, hasMore: false });
                        },
                      },
                    ];
                  },
                }
              : {})}
            empty={
              <Empty
                title={
                  found.hasNextPage
                    ? 'No message found yet'
                    : asked
                      ? 'No topic with a retained message matches'
                      : 'No retained messages'
                }
                icon={EnvelopeIcon}
              >
                A topic keeps the last message that was published with RETAIN, for new subscriptions.
              </Empty>
            }
          />
        </StackItem>
        <StackItem>
          <ShowMore found={found} rows={rows?.length ?? 0} word="message" />
        </StackItem>
      </Stack>
      {opened ? (
        <MessageDetail
          message={opened}
          title={keyOf(opened)}
          onClose={() => {
            setOpened(null);
          }}
        />
      ) : null}
      {deleting ? (
        <Deletion
          {...deleting}
          onDone={(messages) => {
            notify(`${plural(messages, 'retained message')} deleted.`);
            void client.invalidateQueries({ queryKey: ['retained', namespace, space] });
          }}
          onClose={() => {
            setDeleting(null);
          }}
        />
      ) : null}
    </PageSection>
  );
}
