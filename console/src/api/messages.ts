import { request } from './http';
import { AddressKind, resourcePath } from './kinds';
import { EMPTY_SLICES_MAX } from './slices';
import type { Address } from './types';

/** Operations on messages: slices of at most 1,000, repeated until there are no more. */

export interface MessageDocument {
  body?: unknown;
  properties?: Record<string, unknown>;
  applicationProperties?: Record<string, unknown>;
  annotations?: Record<string, unknown>;
  header?: Record<string, unknown>;
}

export interface StoredMessage {
  id?: number;
  offset?: number;
  partition?: number;
  state?: 'waiting' | 'scheduled' | 'delayed';
  bytes: number;
  enqueued?: string;
  attempts?: number;
  expires?: string;
  due?: string;
  message?: MessageDocument;
  raw?: { encoding: 'base64'; body: string };
  kind?: 'data' | 'value' | 'sequence' | 'none';
}

export interface OperationAnswer {
  operation: string;
  address: string;
  dryRun?: boolean;
  messages: number;
  bytes: number;
  items?: StoredMessage[];
  continue?: string;
}

export interface StreamStart {
  offset?: number;
  time?: string;
  position?: 'first' | 'last';
}

/** The messages of an address that an operation applies to: all, or those that one of the two matches. */
export interface Selection {
  /** A JMS selector. */
  selector?: string;
  /** An SQL filter expression, which also reads message annotations. */
  filter?: string;
}

export interface OperationRequest extends Selection {
  limit?: number;
  dryRun?: boolean;
  to?: string;
  continue?: string;
  form?: 'typed';
  from?: StreamStart;
  partition?: number;
  id?: number;
  edit?: { message: OutgoingMessage };
}

export interface OutgoingMessage {
  body?: unknown;
  encoding?: 'text' | 'json' | 'base64' | 'value';
  properties?: Record<string, unknown>;
  applicationProperties?: Record<string, unknown>;
  annotations?: Record<string, unknown>;
  durable?: boolean;
  ttlMs?: number;
  priority?: number;
}

export interface SendAnswer {
  outcome: 'accepted' | 'rejected' | 'released' | 'modified';
  condition?: string;
  description?: string;
  messages: number;
}

export interface DeadLetterGroup {
  cause: string;
  origin: string;
  messages: number;
  bytes: number;
  oldest: string;
  newest: string;
  description?: string;
  /** The SQL filter expression that matches this group. */
  filter: string;
  ids: number[];
}

export interface DeadLetters {
  messages: number;
  bytes: number;
  groups: DeadLetterGroup[];
  complete: boolean;
  continue?: string;
}

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
  return request<OperationAnswer>('POST', pathOf(address, operation), { body });
}

/** All slices of an operation. `onProgress` has the messages so far; `signal` ends it between two slices. */
export async function operateAll(
  address: Address,
  operation: Operation,
  body: OperationRequest,
  onProgress: (messages: number) => void = () => undefined,
  signal?: AbortSignal,
): Promise<number> {
  let messages = 0;
  let next: string | undefined;
  do {
    const answer = await operate(address, operation, next ? { ...body, continue: next } : body);
    messages += answer.messages;
    next = answer.continue;
    onProgress(messages);
  } while (next !== undefined && !signal?.aborted);
  return messages;
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
