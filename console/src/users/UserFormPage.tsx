import {
  ActionGroup,
  Button,
  Card,
  CardBody,
  CardHeader,
  CardTitle,
  Content,
  Flex,
  FlexItem,
  Form,
  FormGroup,
  FormSection,
  PageSection,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import PlusIcon from '@patternfly/react-icons/dist/esm/icons/plus-circle-icon';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate, useParams } from 'react-router';
import { UserKind } from '@/api/kinds';
import { useResource } from '@/api/list';
import type { MessagingUser } from '@/api/types';
import { create, patch, useDryRun } from '@/api/write';
import { useNotify } from '@/app/notices';
import { spacePath } from '@/spaces/paths';
import { CodeTabs } from '@/ui/Code';
import { Page } from '@/ui/Page';
import { ActionError, Failure, Loading } from '@/ui/States';
import { CheckField, FaultsProvider, SelectField, TextField } from '@/ui/fields';
import { previewsOf } from '@/ui/preview';
import { userPath } from './UserListPage';
import {
  NEW_USER,
  OPERATIONS,
  OPERATION_TEXTS,
  newPassword,
  userDocument,
  userDraftOf,
  type RightDraft,
  type UserDraft,
} from './userDraft';

function RightFields({
  right,
  index,
  set,
  remove,
}: {
  right: RightDraft;
  index: number;
  set: (change: Partial<RightDraft>) => void;
  remove: () => void;
}) {
  return (
    <Card isCompact>
      <CardHeader
        actions={{
          actions: (
            <Button variant="link" isInline isDanger onClick={remove}>
              Remove
            </Button>
          ),
        }}
      >
        <CardTitle>Right {index + 1}</CardTitle>
      </CardHeader>
      <CardBody>
        <Stack hasGutter>
          <StackItem>
            <FormGroup label="May" role="group">
              <Flex>
                {OPERATIONS.map((operation) => (
                  <FlexItem key={operation}>
                    <CheckField
                      label={operation}
                      value={right.operations.includes(operation)}
                      onChange={(isGiven) => {
                        set({
                          operations: OPERATIONS.filter((one) =>
                            one === operation ? isGiven : right.operations.includes(one),
                          ),
                        });
                      }}
                    />
                  </FlexItem>
                ))}
              </Flex>
            </FormGroup>
            <Content component="small">
              {right.operations.map((one) => OPERATION_TEXTS[one]).join('. ')}
            </Content>
          </StackItem>
          <StackItem>
            <TextField
              label="Addresses"
              path={`spec.authorization[${String(index)}].addresses`}
              rows={3}
              isCode
              placeholder="all addresses"
              value={right.addresses}
              onChange={(addresses) => {
                set({ addresses });
              }}
              hint="One name or pattern a line: * or + is one level, # any number, ord* a prefix. Empty: all addresses."
            />
          </StackItem>
        </Stack>
      </CardBody>
    </Card>
  );
}

interface FormProps {
  namespace: string;
  space: string;
  existing: MessagingUser | null;
}

function Login({
  draft,
  set,
  isNew,
}: {
  draft: UserDraft;
  set: (change: Partial<UserDraft>) => void;
  isNew: boolean;
}) {
  return (
    <FormSection title="Login">
      <SelectField
        label="By"
        path="spec.authentication.type"
        value={draft.type}
        onChange={(type) => {
          set({ type });
        }}
        options={[
          { value: 'password', title: 'password' },
          { value: 'federated', title: 'token or client certificate (no password)' },
        ]}
      />
      {draft.type === 'password' ? (
        <>
          <TextField
            label={isNew ? 'Password' : 'New password'}
            path="spec.authentication.password"
            value={draft.password}
            onChange={(password) => {
              set({ password });
            }}
            hint={
              isNew
                ? 'Shown here only: the platform keeps a verifier and never the password.'
                : 'Empty: the password stays as it is.'
            }
          />
          <div>
            <Button
              variant="link"
              isInline
              onClick={() => {
                set({ password: newPassword(), secret: '' });
              }}
            >
              Make one that cannot be guessed
            </Button>
          </div>
          <TextField
            label="Or the Secret that has it"
            path="spec.authentication.passwordSecret"
            value={draft.secret}
            onChange={(secret) => {
              set({ secret });
            }}
            hint={
              <>
                Name of a Secret of the namespace with the key <code>password</code>. Its changes apply at
                once.
              </>
            }
          />
        </>
      ) : null}
    </FormSection>
  );
}

function UserForm({ namespace, space, existing }: FormProps) {
  const [draft, setDraft] = useState<UserDraft>(() => (existing ? userDraftOf(existing) : NEW_USER));
  const [touched, setTouched] = useState<ReadonlySet<string> | 'all'>(new Set());
  const document = userDocument(draft, namespace, space);
  const isNew = existing === null;
  const check = useDryRun(UserKind, isNew && draft.username ? document : null);
  const client = useQueryClient();
  const navigate = useNavigate();
  const notify = useNotify();
  const change = {
    spec: {
      authentication: document.spec.authentication,
      authorization: document.spec.authorization ?? null,
    },
  };
  const save = useMutation({
    mutationFn: () =>
      isNew ? create(UserKind, document) : patch(UserKind, namespace, existing.metadata.name, change),
    onSuccess: () => {
      notify(`User ${draft.username} was ${isNew ? 'created' : 'changed'}.`);
      void client.invalidateQueries({ queryKey: [UserKind.plural] });
      void navigate(userPath(namespace, space, existing?.metadata.name ?? document.metadata.name));
    },
  });
  const set = (part: Partial<UserDraft>) => {
    setDraft((before) => ({ ...before, ...part }));
    setTouched((before) =>
      before === 'all'
        ? before
        : new Set([
            ...before,
            ...('username' in part
              ? ['spec.username']
              : ['spec.authentication.password', 'spec.authentication.passwordSecret']),
          ]),
    );
  };
  const setRight = (index: number, part: Partial<RightDraft>) => {
    set({ rights: draft.rights.map((one, at) => (at === index ? { ...one, ...part } : one)) });
  };
  const shown = {
    ...document,
    spec: {
      ...document.spec,
      authentication: {
        ...document.spec.authentication,
        ...(draft.password ? { password: '<base64 of the password>' } : {}),
      },
    },
  };
  return (
    <FaultsProvider value={{ error: check.error, touched }}>
      <Form
        isWidthLimited
        onSubmit={(event) => {
          event.preventDefault();
          setTouched('all');
          save.mutate();
        }}
      >
        <TextField
          label="User name"
          path="spec.username"
          value={draft.username}
          isRequired
          autoFocus={isNew}
          isDisabled={!isNew}
          onChange={(username) => {
            set({ username });
          }}
        />
        <Login draft={draft} set={set} isNew={isNew} />
        <FormSection title="Rights">
          {draft.rights.map((right, index) => (
            <RightFields
              key={index}
              right={right}
              index={index}
              set={(part) => {
                setRight(index, part);
              }}
              remove={() => {
                set({ rights: draft.rights.filter((_one, at) => at !== index) });
              }}
            />
          ))}
          <div>
            <Button
              variant="link"
              isInline
              icon={<PlusIcon />}
              onClick={() => {
                set({ rights: [...draft.rights, { addresses: '', operations: ['recv'] }] });
              }}
            >
              Add a right
            </Button>
          </div>
        </FormSection>
        {(save.error ?? (check.error && check.error.causes.length === 0 ? check.error : null)) ? (
          <ActionError error={save.error ?? check.error} title="The platform refuses this" />
        ) : null}
        {isNew ? <CodeTabs label="Forms of the document" choices={previewsOf(shown)} /> : null}
        <ActionGroup>
          <Button
            type="submit"
            isDisabled={draft.username === '' || save.isPending || (isNew && !check.isAccepted)}
            isLoading={save.isPending}
          >
            {isNew ? 'Create' : 'Save'}
          </Button>
          <Button
            variant="link"
            onClick={() =>
              void navigate(
                existing
                  ? userPath(namespace, space, existing.metadata.name)
                  : spacePath(namespace, space, 'users'),
              )
            }
          >
            Cancel
          </Button>
        </ActionGroup>
      </Form>
    </FaultsProvider>
  );
}

/** Create a user, or change one. */
export function UserFormPage() {
  const { namespace = '', space = '', user: name } = useParams();
  const found = useResource<MessagingUser>(UserKind, namespace, name ?? '', { enabled: name !== undefined });
  const title = name ? `Edit ${found.data?.spec.username ?? name}` : 'Create user';
  return (
    <Page
      title={title}
      crumbs={[
        { title: 'Address spaces', to: '/spaces' },
        { title: space, to: spacePath(namespace, space) },
        { title: 'Users', to: spacePath(namespace, space, 'users') },
        { title: name ? 'Edit' : 'Create' },
      ]}
    >
      <PageSection isFilled>
        {name && found.error && !found.data ? (
          <Failure error={found.error} retry={() => void found.refetch()} />
        ) : name && !found.data ? (
          <Loading />
        ) : (
          <UserForm namespace={namespace} space={space} existing={found.data ?? null} />
        )}
      </PageSection>
    </Page>
  );
}
