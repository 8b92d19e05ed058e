import { Button, Label, PageSection, Stack, StackItem } from '@patternfly/react-core';
import CheckIcon from '@patternfly/react-icons/dist/esm/icons/check-circle-icon';
import HourglassIcon from '@patternfly/react-icons/dist/esm/icons/hourglass-half-icon';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';
import { AddressKind } from '@/api/kinds';
import { deadLetters, type DeadLetterGroup } from '@/api/messages';
import { useAddress } from '@/addresses/AddressLayout';
import { addressPath } from '@/spaces/paths';
import { DataTable, type Column } from '@/ui/DataTable';
import { Age } from '@/ui/Moment';
import { Name } from '@/ui/Name';
import { Empty } from '@/ui/States';
import { bytes, count, plural } from '@/ui/format';
import { EditDialog } from './EditDialog';
import { TransferDialog, type Transfer } from './TransferDialog';

/** Dead letters by why and where they were given up, and the way back. */

const CAUSES: Record<string, { title: string; status: 'warning' | 'danger' | 'info' }> = {
  rejected: { title: 'Rejected by a consumer', status: 'danger' },
  expired: { title: 'Expired', status: 'info' },
  'maximum-delivery-attempts': { title: 'Attempts used up', status: 'warning' },
};

const REFRESH_MS = 10_000;

function columnsOf(pathOf: (filter: string) => string): Column<DeadLetterGroup>[] {
  return [
    {
      key: 'cause',
      title: 'Cause',
      render: (group) => (
        <Label isCompact status={CAUSES[group.cause]?.status ?? 'info'}>
          {CAUSES[group.cause]?.title ?? group.cause}
        </Label>
      ),
    },
    {
      key: 'origin',
      title: 'Given up by',
      width: 20,
      render: (group) => (group.origin ? <Name>{group.origin}</Name> : 'unknown'),
    },
    {
      key: 'description',
      title: 'Reason',
      width: 30,
      render: (group) => <bdi className="em-break">{group.description ?? '–'}</bdi>,
    },
    {
      key: 'messages',
      title: 'Messages',
      isNumeric: true,
      render: (group) => <Link to={pathOf(group.filter)}>{count(group.messages)}</Link>,
    },
    { key: 'bytes', title: 'Size', isNumeric: true, render: (group) => bytes(group.bytes) },
    { key: 'oldest', title: 'First', render: (group) => <Age of={group.oldest} /> },
    { key: 'newest', title: 'Last', render: (group) => <Age of={group.newest} /> },
  ];
}

export function DeadLettersPage() {
  const { address, namespace, may } = useAddress();
  const found = useQuery({
    queryKey: ['deadletters', address.metadata.uid],
    queryFn: () => deadLetters(address),
    refetchInterval: REFRESH_MS,
  });
  const [transfer, setTransfer] = useState<Transfer | null>(null);
  const [editing, setEditing] = useState<DeadLetterGroup | null>(null);
  const pathOf = (filter: string) =>
    `${addressPath(namespace, address.metadata.name, 'messages')}?filter=${encodeURIComponent(filter)}`;
  const mayRedrive = may('create', AddressKind, 'redrive');
  return (
    <PageSection isFilled>
      <Stack hasGutter>
        {found.data && found.data.groups.length > 0 && mayRedrive ? (
          <StackItem>
            <Button
              onClick={() => {
                setTransfer({ action: 'redrive', selection: {} });
              }}
            >
              Redrive all {plural(found.data.messages, 'message')}
            </Button>{' '}
            {found.data.complete ? null : (
              <Label status="info">
                Only the first {plural(found.data.messages, 'message')}{' '}
                {found.data.messages === 1 ? 'is' : 'are'} grouped
              </Label>
            )}
          </StackItem>
        ) : null}
        <StackItem>
          <DataTable
            label="Dead letters by cause"
            columns={columnsOf(pathOf)}
            rows={found.data?.groups}
            keyOf={(group) => `${group.cause} ${group.origin} ${group.description ?? ''}`}
            nameOf={(group) => `${group.cause} from ${group.origin}`}
            error={found.error}
            retry={() => void found.refetch()}
            actions={(group) => [
              ...(mayRedrive
                ? [
                    {
                      title: 'Redrive',
                      onClick: () => {
                        setTransfer({ action: 'redrive', selection: { filter: group.filter } });
                      },
                    },
                    {
                      title: 'Edit and redrive one',
                      onClick: () => {
                        setEditing(group);
                      },
                    },
                  ]
                : []),
              ...(['move', 'copy', 'purge'] as const)
                .filter((action) => may('create', AddressKind, action))
                .map((action) => ({
                  title: action === 'move' ? 'Move' : action === 'copy' ? 'Copy' : 'Purge',
                  onClick: () => {
                    setTransfer({ action, selection: { filter: group.filter } });
                  },
                })),
            ]}
            empty={
              found.data?.complete === false ? (
                <Empty title="No dead letter could be read yet" icon={HourglassIcon}>
                  The disk of the node is slow. The page asks again every 10 seconds.
                </Empty>
              ) : (
                <Empty title="No dead letters" icon={CheckIcon}>
                  Messages arrive here when a queue, topic or subscription that names this address gives them
                  up.
                </Empty>
              )
            }
          />
        </StackItem>
      </Stack>
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
      {editing ? (
        <EditDialog
          address={address}
          group={editing}
          onClose={() => {
            setEditing(null);
            void found.refetch();
          }}
        />
      ) : null}
    </PageSection>
  );
}
