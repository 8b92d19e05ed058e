import { Alert, Button, Form, Grid, GridItem } from '@patternfly/react-core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useParams } from 'react-router';
import { request } from '@/api/http';
import { AddressSpaceKind, UserKind, resourcePath } from '@/api/kinds';
import { useResource } from '@/api/list';
import { useMay } from '@/api/rights';
import type { MessagingUser } from '@/api/types';
import { useDebounced } from '@/api/write';
import { spacePath } from '@/spaces/paths';
import { Conditions } from '@/spaces/conditions';
import { DataTable, type Column } from '@/ui/DataTable';
import { Facts } from '@/ui/Facts';
import { Age } from '@/ui/Moment';
import { DetailCard, DetailPage } from '@/ui/DetailPage';
import { ActionError, Empty } from '@/ui/States';
import { SelectField, TextField } from '@/ui/fields';
import { OPERATIONS } from './userDraft';
import { userPath } from './UserListPage';

interface Right {
  addresses?: string[] | undefined;
  operations: string[];
}

interface Review {
  allowed: boolean;
  reason: string;
  declared: boolean;
  pattern?: string;
}

const COLUMNS: Column<Right>[] = [
  { key: 'operations', title: 'May', render: (right) => right.operations.join(', ') },
  {
    key: 'addresses',
    title: 'On',
    render: (right) => (
      <bdi className="em-break">{(right.addresses ?? []).join(', ') || 'all addresses'}</bdi>
    ),
  },
];

/** "May USER do X on Y", answered by the rules that the node applies. */
function RightsTester({
  namespace,
  space,
  username,
}: {
  namespace: string;
  space: string;
  username: string;
}) {
  const [operation, setOperation] = useState('send');
  const [address, setAddress] = useState('');
  const asked = useDebounced(address);
  const review = useQuery({
    queryKey: ['access-review', namespace, space, username, operation, asked],
    queryFn: () =>
      request<Review>('POST', resourcePath(AddressSpaceKind, namespace, space, 'accessreviews'), {
        body: { user: username, operation, address: asked },
      }),
    enabled: asked !== '',
    retry: false,
  });
  return (
    <Form>
      <Grid hasGutter md={6}>
        <GridItem>
          <SelectField
            label={`May ${username}`}
            value={operation}
            onChange={setOperation}
            options={OPERATIONS.map((one) => ({ value: one, title: one }))}
          />
        </GridItem>
        <GridItem>
          <TextField label="on the address" value={address} onChange={setAddress} placeholder="orders" />
        </GridItem>
      </Grid>
      {review.error ? <ActionError error={review.error} title="This could not be answered" /> : null}
      {review.data && asked !== '' ? (
        <Alert
          isInline
          isLiveRegion
          variant={review.data.allowed ? 'success' : 'danger'}
          title={review.data.allowed ? 'Yes' : 'No'}
        >
          {review.data.reason.replace(/[^.]$/, '$&.')}
          {review.data.pattern ? ` The right is that on ${review.data.pattern}.` : ''}
          {review.data.declared ? '' : ' No such address is declared now.'}
        </Alert>
      ) : null}
    </Form>
  );
}

export function UserPage() {
  const { namespace = '', space = '', user: name = '' } = useParams();
  const found = useResource<MessagingUser>(UserKind, namespace, name);
  const may = useMay(namespace);
  const title = found.data?.spec.username ?? name;
  return (
    <DetailPage
      found={found}
      title={title}
      subtitle={(user) => `logs in by ${user.spec.authentication.type}`}
      crumbs={[
        { title: 'Address spaces', to: '/spaces' },
        { title: space, to: spacePath(namespace, space) },
        { title: 'Users', to: spacePath(namespace, space, 'users') },
        { title },
      ]}
      actions={() =>
        may('patch', UserKind) ? (
          <Button
            variant="secondary"
            component={(props) => <Link {...props} to={userPath(namespace, space, name, 'edit')} />}
          >
            Edit
          </Button>
        ) : null
      }
    >
      {(user) => (
        <>
          <Conditions of={user.status?.conditions} />
          <DetailCard title="Rights">
            <DataTable
              label="Rights"
              columns={COLUMNS}
              rows={(user.spec.authorization ?? []) as Right[]}
              keyOf={(right) => JSON.stringify(right)}
              empty={
                <Empty title="No rights">
                  The user can log in and do nothing. Edit it to give it rights.
                </Empty>
              }
            />
          </DetailCard>
          <DetailCard title="Test the rights">
            <RightsTester namespace={namespace} space={space} username={user.spec.username} />
          </DetailCard>
          <DetailCard title="Details">
            <Facts
              of={[
                [
                  'User name',
                  <bdi key="u" className="em-break">
                    {user.spec.username}
                  </bdi>,
                ],
                ['Secret of the password', user.spec.authentication.passwordSecret?.name ?? 'none'],
                ['Resource', user.metadata.name],
                ['Age', <Age key="age" of={user.metadata.creationTimestamp} />],
              ]}
            />
          </DetailCard>
        </>
      )}
    </DetailPage>
  );
}
