import {
  Button,
  Content,
  Flex,
  FlexItem,
  FormGroup,
  FormSection,
  PageSection,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams } from 'react-router';
import { isDeleted } from '@/api/errors';
import { AddressSpaceKind, UserKind } from '@/api/kinds';
import { useResource } from '@/api/list';
import type { AddressSpace, MessagingUser } from '@/api/types';
import { create, patch, useDryRun } from '@/api/write';
import { useNotify } from '@/app/notices';
import { spacePath } from '@/spaces/paths';
import { CardList } from '@/ui/CardList';
import { SaveForm } from '@/ui/CheckedForm';
import { CodeTabs } from '@/ui/Code';
import { DraftFields, type FieldSpec } from '@/ui/DraftFields';
import { Page } from '@/ui/Page';
import { Failure, Loading } from '@/ui/States';
import { useDraft, type DraftPaths } from '@/ui/draft';
import { CheckField } from '@/ui/fields';
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

function addressesOf(index: number): FieldSpec<RightDraft>[] {
  return [
    {
      kind: 'text',
      field: 'addresses',
      label: 'Addresses',
      path: `spec.authorization[${String(index)}].addresses`,
      rows: 3,
      isCode: true,
      isWide: true,
      placeholder: 'all addresses',
      hint: 'One name or pattern a line: * or + is one level, # any number, ord* a prefix. Empty: all addresses.',
    },
  ];
}

interface RightProps {
  right: RightDraft;
  index: number;
  set: (change: Partial<RightDraft>) => void;
}

function RightFields({ right, index, set }: RightProps) {
  return (
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
        <Content component="small">{right.operations.map((one) => OPERATION_TEXTS[one]).join('. ')}</Content>
      </StackItem>
      <StackItem>
        <DraftFields draft={right} set={set} of={addressesOf(index)} />
      </StackItem>
    </Stack>
  );
}

function loginFields({ type }: UserDraft, isNew: boolean): FieldSpec<UserDraft>[] {
  const hasPassword = type === 'password';
  return [
    {
      kind: 'text',
      field: 'username',
      label: 'User name',
      path: 'spec.username',
      isRequired: true,
      autoFocus: isNew,
      isDisabled: !isNew,
    },
    {
      kind: 'select',
      field: 'type',
      label: 'Login by',
      path: 'spec.authentication.type',
      options: [
        { value: 'password', title: 'password' },
        { value: 'federated', title: 'token or client certificate (no password)' },
      ],
    },
    {
      kind: 'text',
      field: 'password',
      label: isNew ? 'Password' : 'New password',
      path: 'spec.authentication.password',
      isShown: hasPassword,
      hint: isNew
        ? 'Shown here only: the platform keeps a verifier and never the password.'
        : 'Empty: the password stays as it is.',
    },
    {
      kind: 'text',
      field: 'secret',
      label: 'Or the Secret that has it',
      path: 'spec.authentication.passwordSecret',
      isShown: hasPassword,
      hint: (
        <>
          Name of a Secret of the namespace with the key <code>password</code>. Its changes apply at once.
        </>
      ),
    },
  ];
}

const LOGIN_PATHS = ['spec.authentication.password', 'spec.authentication.passwordSecret'];
const PATHS: DraftPaths<UserDraft> = {
  type: LOGIN_PATHS,
  password: LOGIN_PATHS,
  secret: LOGIN_PATHS,
  rights: [...LOGIN_PATHS, 'spec.authorization'],
};

interface FormProps {
  namespace: string;
  space: string;
  existing: MessagingUser | null;
}

function UserForm({ namespace, space, existing }: FormProps) {
  const { draft, set, touched, touchAll } = useDraft<UserDraft>(
    () => (existing ? userDraftOf(existing) : NEW_USER),
    PATHS,
  );
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
  const back = existing
    ? userPath(namespace, space, existing.metadata.name)
    : spacePath(namespace, space, 'users');
  return (
    <SaveForm
      isWidthLimited
      check={check}
      save={save}
      isReady={draft.username !== '' && (!isNew || check.isAccepted)}
      action={isNew ? 'Create' : 'Save'}
      leave={{ title: 'Cancel', run: () => void navigate(back) }}
      touched={touched}
      onSubmit={touchAll}
    >
      <FormSection title="Login">
        <DraftFields draft={draft} set={set} of={loginFields(draft, isNew)} />
        {draft.type === 'password' ? (
          <div>
            <Button
              variant="link"
              isInline
              onClick={() => {
                set({ password: newPassword(), secret: '' });
              }}
            >
              Make a password that cannot be guessed
            </Button>
          </div>
        ) : null}
      </FormSection>
      <FormSection title="Rights">
        <CardList
          items={draft.rights}
          onChange={(rights) => {
            set({ rights });
          }}
          titleOf={(_right, index) => `Right ${String(index + 1)}`}
          addTitle="Add a right"
          newItem={(): RightDraft => ({ addresses: '', operations: ['recv'] })}
          fields={(right, index, setRight) => <RightFields right={right} index={index} set={setRight} />}
        />
      </FormSection>
      {isNew ? <CodeTabs label="Forms of the document" choices={previewsOf(shown)} /> : null}
    </SaveForm>
  );
}

/** Create a user, or change one. */
export function UserFormPage() {
  const { namespace = '', space = '', user: name } = useParams();
  const found = useResource<MessagingUser>(UserKind, namespace, name ?? '', { enabled: name !== undefined });
  const within = useResource<AddressSpace>(AddressSpaceKind, namespace, space, {
    enabled: name === undefined,
  });
  // A form for a space that does not exist could only be refused at its end.
  const needed = name ? found : within;
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
        {needed.error && (!needed.data || isDeleted(needed.error)) ? (
          <Failure error={needed.error} retry={() => void needed.refetch()} />
        ) : !needed.data ? (
          <Loading />
        ) : (
          <UserForm namespace={namespace} space={space} existing={found.data ?? null} />
        )}
      </PageSection>
    </Page>
  );
}
