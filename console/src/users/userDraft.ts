import type { MessagingUser } from '@/api/types';
import { pruned } from '@/ui/preview';
import { resourceName } from '@/addresses/resourceName';

/** A user as a form has it, and the document that it becomes. */

export const OPERATIONS = ['send', 'recv', 'view', 'create', 'manage'] as const;
export type Operation = (typeof OPERATIONS)[number];

export const OPERATION_TEXTS: Record<Operation, string> = {
  send: 'Send to the addresses',
  recv: 'Receive from them, and browse',
  view: 'See the state of addresses (management)',
  create: 'Have addresses created by links, where the space allows it',
  manage: 'Kept for manifests; has no effect here',
};

export interface RightDraft {
  /** One pattern a line; empty: all addresses. */
  addresses: string;
  operations: Operation[];
}

export interface UserDraft {
  username: string;
  type: string;
  password: string;
  secret: string;
  rights: RightDraft[];
}

export const NEW_USER: UserDraft = {
  username: '',
  type: 'password',
  password: '',
  secret: '',
  rights: [{ addresses: '', operations: ['send', 'recv'] }],
};

function encoded(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

export function userDraftOf(user: MessagingUser): UserDraft {
  const { username, authentication, authorization } = user.spec;
  return {
    username,
    type: authentication.type,
    password: '',
    secret: authentication.passwordSecret?.name ?? '',
    rights: (authorization ?? []).map((right) => ({
      addresses: (right.addresses ?? []).join('\n'),
      operations: [...(right.operations as Operation[])],
    })),
  };
}

export function userDocument(draft: UserDraft, namespace: string, space: string): MessagingUser {
  const isPassword = draft.type === 'password';
  return pruned({
    apiVersion: 'user.enmasse.io/v1beta1',
    kind: 'MessagingUser',
    metadata: { name: resourceName(space, draft.username), namespace },
    spec: {
      username: draft.username,
      authentication: {
        type: draft.type,
        password: isPassword && draft.password ? encoded(draft.password) : undefined,
        passwordSecret: isPassword && !draft.password && draft.secret ? { name: draft.secret } : undefined,
      },
      authorization: draft.rights
        .filter((right) => right.operations.length > 0)
        .map((right) => ({
          addresses: right.addresses
            .split('\n')
            .map((line) => line.trim())
            .filter(Boolean),
          operations: right.operations,
        })),
    },
  }) as unknown as MessagingUser;
}

const PASSWORD_BYTES = 18;

/** A password that cannot be guessed, in characters that survive every shell and URL. */
export function newPassword(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(PASSWORD_BYTES));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_');
}
