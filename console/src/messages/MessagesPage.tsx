import { Button, Flex, FlexItem, Label, PageSection, Stack, StackItem } from '@patternfly/react-core';
import EnvelopeIcon from '@patternfly/react-icons/dist/esm/icons/envelope-open-icon';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useSearchParams } from 'react-router';
import { isRefusedExpression } from '@/api/errors';
import { AddressKind } from '@/api/kinds';
import { operate, type OperationAnswer, type Selection, type StoredMessage } from '@/api/messages';
import { useFirstRow } from '@/api/slices';
import { useAddress } from '@/addresses/AddressLayout';
import { acceptsMessages, isManaged, isStream } from '@/addresses/types';
import { addressPath } from '@/spaces/paths';
import { DataTable, type Column } from '@/ui/DataTable';
import { Age } from '@/ui/Moment';
import { ExpressionSearch, ReadAgain, RowButton, ShowMore } from '@/ui/SliceParts';
import { ActionError, Empty } from '@/ui/States';
import { bytes, count } from '@/ui/format';
import { MessageDetail } from './MessageDetail';
import { TransferDialog, type Transfer } from './TransferDialog';
import { FROM_FIRST, StreamStartFields, startOf } from './StreamStartFields';
import { bodyLine } from './body';

/** Messages as they are stored, without taking any. Pages of 200, more on demand, up to 10,000 in the table. */

const PAGE = 200;
const LOADED_MAX = 10_000;

const keyOf = (message: StoredMessage) =>
  message.offset === undefined
    ? String(message.id)
    : `${String(message.partition)}/${String(message.offset)}`;

function columnsOf(isOfStream: boolean, open: (message: StoredMessage) => void): Column<StoredMessage>[] {
  const link = (message: StoredMessage, text: string) => (
    <RowButton
      onClick={() => {
        open(message);
      }}
    >
      {text}
    </RowButton>
  );
  const properties = (message: StoredMessage) => message.message?.properties ?? {};
  return [
    isOfStream
      ? { key: 'offset', title: 'Offset', width: 10, render: (one) => link(one, String(one.offset)) }
      : { key: 'id', title: 'Number', width: 10, render: (one) => link(one, String(one.id)) },
    ...(isOfStream
      ? [{ key: 'partition', title: 'Partition', render: (one: StoredMessage) => one.partition }]
      : [
          {
            key: 'state',
            title: 'State',
            render: (one: StoredMessage) => (
              <Label
                isCompact
                variant="outline"
                {...(one.state === 'waiting' ? {} : { status: 'info' as const })}
              >
                {one.state}
              </Label>
            ),
          },
        ]),
    { key: 'enqueued', title: 'Stored', render: (one) => <Age of={one.enqueued} /> },
    {
      key: 'message-id',
      title: 'Message id',
      isCut: true,
      render: (one) => <bdi>{String(properties(one).message_id ?? '–')}</bdi>,
    },
    {
      key: 'subject',
      title: 'Subject',
      isCut: true,
      render: (one) => <bdi>{String(properties(one).subject ?? '–')}</bdi>,
    },
    { key: 'body', title: 'Body', width: 30, isCut: true, render: (one) => <bdi>{bodyLine(one)}</bdi> },
    { key: 'bytes', title: 'Size', isNumeric: true, render: (one) => bytes(one.bytes) },
    ...(isOfStream
      ? []
      : [
          {
            key: 'attempts',
            title: 'Attempts',
            isNumeric: true,
            render: (one: StoredMessage) => count(one.attempts),
          },
        ]),
  ];
}

/** What the address of the page selects; a selector excludes a filter. */
function selectionOf(parameters: URLSearchParams): Selection {
  const [selector, filter] = [parameters.get('selector'), parameters.get('filter')];
  if (selector) return { selector };
  return filter ? { filter } : {};
}

export function MessagesPage() {
  const { address, namespace, may } = useAddress();
  const isOfStream = isStream(address);
  const [parameters, setParameters] = useSearchParams();
  const selection = isOfStream ? {} : selectionOf(parameters);
  const expression = selection.selector ?? selection.filter;
  const [start, setStart] = useState(FROM_FIRST);
  const [opened, setOpened] = useState<number | null>(null);
  const [transfer, setTransfer] = useState<Transfer | null>(null);
  const found = useInfiniteQuery({
    queryKey: ['messages', address.metadata.uid, selection, isOfStream ? start : null],
    queryFn: ({ pageParam }) =>
      operate(address, 'peek', {
        limit: PAGE,
        form: 'typed',
        ...selection,
        ...(pageParam ? { continue: pageParam } : isOfStream ? startOf(start) : {}),
      }),
    initialPageParam: '',
    getNextPageParam: (last: OperationAnswer) => last.continue,
    refetchOnWindowFocus: false,
    retry: false,
  });
  const rows = found.data?.pages.flatMap((page) => page.items ?? []);
  const isLooking = useFirstRow(found, rows);
  const isSelectorWrong = expression !== undefined && isRefusedExpression(found.error);
  const search = (text: string) => {
    setParameters(text ? { selector: text } : {}, { replace: true });
  };
  const open = (message: StoredMessage) => {
    setOpened(rows?.indexOf(message) ?? null);
  };
  const current = opened === null ? undefined : rows?.[opened];
  const transfers: Transfer['action'][] = isManaged(address) ? ['move', 'copy', 'purge'] : [];
  return (
    <PageSection isFilled>
      <Stack hasGutter>
        <StackItem>
          <Flex justifyContent={{ default: 'justifyContentSpaceBetween' }}>
            <FlexItem grow={{ default: 'grow' }} className="em-search">
              {isOfStream ? (
                <StreamStartFields
                  draft={start}
                  partitions={address.spec.partitions ?? 1}
                  onChange={setStart}
                />
              ) : (
                <ExpressionSearch
                  label="Selector"
                  example="color = 'red' AND size > 5"
                  initial={selection.selector ?? ''}
                  onSearch={search}
                />
              )}
            </FlexItem>
            <FlexItem>
              <ReadAgain onClick={() => void found.refetch()} />
              {transfers
                .filter((action) => may('create', AddressKind, action))
                .map((action) => (
                  <Button
                    key={action}
                    variant={action === 'purge' ? 'link' : 'secondary'}
                    isDanger={action === 'purge'}
                    isDisabled={(rows?.length ?? 0) === 0}
                    onClick={() => {
                      setTransfer({ action, selection });
                    }}
                    className="em-gap"
                  >
                    {action === 'move' ? 'Move' : action === 'copy' ? 'Copy' : 'Purge'}
                    {expression ? ' selected' : ' all'}
                  </Button>
                ))}
            </FlexItem>
          </Flex>
        </StackItem>
        {selection.filter ? (
          <StackItem>
            <Label
              onClose={() => {
                search('');
              }}
              closeBtnAriaLabel="Remove the filter"
            >
              <span className="em-break">Filter: {selection.filter}</span>
            </Label>
          </StackItem>
        ) : null}
        {isSelectorWrong ? (
          <StackItem>
            <ActionError
              error={found.error}
              title={`The ${selection.filter ? 'filter' : 'selector'} cannot be read`}
            />
          </StackItem>
        ) : null}
        <StackItem>
          <DataTable
            label="Messages"
            columns={columnsOf(isOfStream, open)}
            rows={isSelectorWrong ? [] : isLooking ? undefined : rows}
            keyOf={keyOf}
            error={found.error}
            retry={() => void found.refetch()}
            empty={
              <Empty
                title={
                  found.hasNextPage
                    ? 'No message found yet'
                    : expression
                      ? 'No message matches'
                      : 'No messages'
                }
                icon={EnvelopeIcon}
                action={
                  acceptsMessages(address) && may('create', AddressKind, 'send') ? (
                    <Button
                      variant="secondary"
                      component={(props) => (
                        <Link {...props} to={addressPath(namespace, address.metadata.name, 'send')} />
                      )}
                    >
                      Send a message
                    </Button>
                  ) : null
                }
              >
                Messages that consumers hold at this moment are not shown.
              </Empty>
            }
          />
        </StackItem>
        {(rows?.length ?? 0) < LOADED_MAX ? (
          <StackItem>
            <ShowMore found={found} rows={rows?.length ?? 0} word="message" />
          </StackItem>
        ) : null}
      </Stack>
      {current ? (
        <MessageDetail
          message={current}
          onClose={() => {
            setOpened(null);
          }}
          onStep={(by) => {
            setOpened(Math.max(0, Math.min((rows?.length ?? 1) - 1, (opened ?? 0) + by)));
          }}
        />
      ) : null}
      {transfer ? (
        <TransferDialog
          address={address}
          transfer={transfer}
          onClose={() => {
            setTransfer(null);
            void found.refetch();
          }}
        />
      ) : null}
    </PageSection>
  );
}
