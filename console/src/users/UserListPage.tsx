import { Button, PageSection } from '@patternfly/react-core';
import UsersIcon from '@patternfly/react-icons/dist/esm/icons/users-icon';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';
import { UserKind } from '@/api/kinds';
import { useList } from '@/api/list';
import type { MessagingUser } from '@/api/types';
import { remove } from '@/api/write';
import { useNotify } from '@/app/notices';
import { useSpace } from '@/spaces/SpaceLayout';
import { spacePath } from '@/spaces/paths';
import { Confirm } from '@/ui/Confirm';
import { DataTable, NoMatch, type Column } from '@/ui/DataTable';
import { ListToolbar, Pages } from '@/ui/ListToolbar';
import { Age } from '@/ui/Moment';
import { Name } from '@/ui/Name';
import { Empty, PhaseLabel } from '@/ui/States';
import { arrange, useListState } from '@/ui/listState';

/** The users of a space. */

const LISTED_MAX = 10_000;

export function userPath(namespace: string, space: string, name: string, below = ''): string {
  return spacePath(namespace, space, `users/${encodeURIComponent(name)}${below ? `/${below}` : ''}`);
}

/** Rights in one line: `send, recv on orders, events/#`. */
export function rightsLine(user: MessagingUser): string {
  return (user.spec.authorization ?? [])
    .map(
      (right) => `${right.operations.join(', ')} on ${(right.addresses ?? []).join(', ') || 'all addresses'}`,
    )
    .join('; ');
}

function valueOf(user: MessagingUser, key: string): string {
  if (key === 'type') return user.spec.authentication.type;
  if (key === 'created') return user.metadata.creationTimestamp ?? '';
  return user.spec.username;
}

function columnsOf(namespace: string, space: string): Column<MessagingUser>[] {
  return [
    {
      key: 'name',
      title: 'User',
      isSortable: true,
      width: 20,
      render: (user) => <Name to={userPath(namespace, space, user.metadata.name)}>{user.spec.username}</Name>,
    },
    { key: 'type', title: 'Login', isSortable: true, render: (user) => user.spec.authentication.type },
    {
      key: 'phase',
      title: 'Status',
      render: (user) => <PhaseLabel phase={user.status?.phase} isReady={user.status?.isReady ?? false} />,
    },
    {
      key: 'rights',
      title: 'Rights',
      width: 40,
      render: (user) => <span className="em-break">{rightsLine(user) || 'none'}</span>,
    },
    {
      key: 'created',
      title: 'Age',
      isSortable: true,
      render: (user) => <Age of={user.metadata.creationTimestamp} />,
    },
  ];
}

export function UserListPage() {
  const { namespace, name: space, may } = useSpace();
  const control = useListState('name');
  const [leaving, setLeaving] = useState<MessagingUser | null>(null);
  const client = useQueryClient();
  const notify = useNotify();
  const list = useList<MessagingUser>(UserKind, {
    namespace,
    query: { fieldSelector: `metadata.space=${space}`, limit: LISTED_MAX },
  });
  const needle = control.search.toLowerCase();
  const arranged = list.data
    ? arrange(list.data.items, control, (user) => user.spec.username.toLowerCase().includes(needle), valueOf)
    : undefined;
  const create = may('create', UserKind) ? (
    <Button component={(props) => <Link {...props} to={spacePath(namespace, space, 'users/new')} />}>
      Create user
    </Button>
  ) : null;
  return (
    <PageSection isFilled>
      <ListToolbar control={control} total={arranged?.total} placeholder="Find a user" actions={create} />
      <DataTable
        label="Users"
        columns={columnsOf(namespace, space)}
        rows={arranged?.rows}
        keyOf={(user) => user.metadata.name}
        nameOf={(user) => user.spec.username}
        sort={control.sort}
        onSort={(sort) => {
          control.set({ sort });
        }}
        error={list.error}
        retry={() => void list.refetch()}
        actions={(user) =>
          may('delete', UserKind)
            ? [
                {
                  title: 'Delete',
                  onClick: () => {
                    setLeaving(user);
                  },
                },
              ]
            : []
        }
        empty={
          control.isFiltered ? (
            <NoMatch clear={control.clear} />
          ) : (
            <Empty title="No users yet" icon={UsersIcon} action={create}>
              Clients log in as users, who may do what their rights say. Without users a space may be open to
              every client.
            </Empty>
          )
        }
      />
      <Pages control={control} total={arranged?.total} />
      {leaving ? (
        <Confirm
          title="Delete user?"
          action="Delete"
          run={() => remove(UserKind, leaving)}
          onDone={() => {
            notify(`User ${leaving.spec.username} was deleted.`);
            void client.invalidateQueries({ queryKey: [UserKind.plural] });
          }}
          onClose={() => {
            setLeaving(null);
          }}
        >
          <bdi>{leaving.spec.username}</bdi> can no longer log in, and its connections end.
        </Confirm>
      ) : null}
    </PageSection>
  );
}
