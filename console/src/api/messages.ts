import type { components } from './generated/schema';
import { request } from './http';
import { AddressKind, resourcePath } from './kinds';
import { EMPTY_SLICES_MAX, inParts } from './slices';
import type { Address } from './types';

/** Operations on messages: slices of at most 1,000, repeated until there are no more. */

type Schemas = components['schemas'];

export type OperationAnswer = Schemas['io.enmasse.v1beta1.OperationAnswer'];
export type StoredMessage = NonNullable<OperationAnswer['items']>[number];
export type MessageDocument = NonNullable<StoredMessage['message']>;
export type SendAnswer = Schemas['io.enmasse.v1beta1.SendAnswer'];
/** What a form shows of an answer; "Try it" has no other. */
export type SendResult = Pick<SendAnswer, 'outcome' | 'messages' | 'condition' | 'description'>;
export type DeadLetters = Schemas['io.enmasse.v1beta1.DeadLettersAnswer'];
export type DeadLetterGroup = DeadLetters['groups'][number];

/** A message that a request contains; what has a default may be absent. */
export type OutgoingMessage = Partial<Schemas['io.enmasse.v1beta1.SendRequest']['message']>;

type StreamPeek = Partial<Schemas['io.enmasse.v1beta1.StreamPeek']>;
export type StreamStart = NonNullable<StreamPeek['from']>;
type StoredRequest = Omit<Partial<Schemas['io.enmasse.v1beta1.OperationRequest']>, 'edit'>;

/** Of streams a peek has `from` and `partition`, of others a selection. */
export interface OperationRequest extends StoredRequest, Pick<StreamPeek, 'from' | 'partition'> {
  edit?: { message: OutgoingMessage };
}

/** The messages of an address that an operation applies to: all, or those that one of the two matches. */
export type Selection = Pick<OperationRequest, 'selector' | 'filter'>;

export type Operation = 'purge' | 'peek' | 'move' | 'copy' | 'redrive';

function pathOf(address: Address, operation: string): string {
  return resourcePath(AddressKind, address.metadata.namespace ?? '', address.metadata.name, operation);
}

/** One slice of an operation. */
export function operate(
  address: Address,
  operation: Operation,
  body: OperationRequest,
): Promise<OperationAnswer> {
  return request<OperationAnswer>('POST', pathOf(address, operation), { body, isExact: true });
}

/** All slices of an operation. `onProgress` has the messages so far; `signal` ends it between two slices. */
export async function operateAll(
  address: Address,
  operation: Operation,
  body: OperationRequest,
  onProgress: (messages: number) => void = () => undefined,
  signal?: AbortSignal,
): Promise<number> {
  return inParts(
    (next) => operate(address, operation, next ? { ...body, continue: next } : body),
    onProgress,
    signal,
  );
}

/** The first message of a selection; null if there is none, or none within the first slices. */
export async function firstMessage(address: Address, selection: Selection): Promise<StoredMessage | null> {
  let next: string | undefined;
  for (let slices = 0; slices < EMPTY_SLICES_MAX; slices += 1) {
    const rest = next ? { continue: next } : {};
    const answer = await operate(address, 'peek', { ...selection, limit: 1, form: 'typed', ...rest });
    const first = answer.items?.[0];
    if (first || !answer.continue) return first ?? null;
    next = answer.continue;
  }
  return null;
}

export function sendMessage(address: Address, message: OutgoingMessage, count: number): Promise<SendAnswer> {
  return request<SendAnswer>('POST', pathOf(address, 'send'), { body: { message, count } });
}

export function deadLetters(address: Address, limit = 10_000): Promise<DeadLetters> {
  return request<DeadLetters>('POST', pathOf(address, 'deadletters'), { body: { limit } });
}
