import { parseExact, stringifyExact } from '@/api/exactJson';
import type { MessageDocument, OutgoingMessage, StoredMessage } from '@/api/messages';

/** A message that a person writes or edits, and the request it becomes. */

export interface NamedValue {
  name: string;
  value: string;
}

export interface MessageDraft {
  body: string;
  encoding: 'text' | 'data' | 'json' | 'base64' | 'value' | 'none';
  messageId: string;
  correlationId: string;
  subject: string;
  contentType: string;
  contentEncoding: string;
  to: string;
  replyTo: string;
  groupId: string;
  properties: NamedValue[];
  annotations: NamedValue[];
  durable: boolean;
  ttl: number | undefined;
  priority: number | undefined;
}

export const NEW_MESSAGE: MessageDraft = {
  body: '',
  encoding: 'text',
  messageId: '',
  correlationId: '',
  subject: '',
  contentType: '',
  contentEncoding: '',
  to: '',
  replyTo: '',
  groupId: '',
  properties: [],
  annotations: [],
  durable: true,
  ttl: undefined,
  priority: undefined,
};

const PROPERTIES = [
  ['message_id', 'messageId'],
  ['correlation_id', 'correlationId'],
  ['subject', 'subject'],
  ['content_type', 'contentType'],
  ['content_encoding', 'contentEncoding'],
  ['to', 'to'],
  ['reply_to', 'replyTo'],
  ['group_id', 'groupId'],
] as const satisfies readonly (readonly [string, keyof MessageDraft])[];

/** A number, a truth value or a text, as it is written; quotes make a text of anything. */
export function valueOf(text: string): string | number | bigint | boolean {
  const trimmed = text.trim();
  if (trimmed === 'true' || trimmed === 'false') return trimmed === 'true';
  if (/^-?\d+$/.test(trimmed) && !Number.isSafeInteger(Number(trimmed))) return BigInt(trimmed);
  if (/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(trimmed) && Number.isFinite(Number(trimmed)))
    return Number(trimmed);
  if (/^".*"$/s.test(trimmed)) return trimmed.slice(1, -1);
  return text;
}

function named(values: readonly NamedValue[]): Record<string, string | number | boolean> {
  return Object.fromEntries(
    // A BigInt is written with all of its digits.
    values.filter(({ name }) => name !== '').map(({ name, value }) => [name, valueOf(value) as number]),
  );
}

/** The error of a body that its encoding cannot have. */
export function bodyFault(draft: MessageDraft): string | undefined {
  if (draft.encoding === 'json' || draft.encoding === 'value') {
    try {
      JSON.parse(draft.body);
    } catch (error) {
      return `is not JSON: ${error instanceof Error ? error.message : ''}`;
    }
  }
  if (draft.encoding === 'base64' && !/^[A-Za-z0-9+/\s]*={0,2}\s*$/.test(draft.body)) return 'is not base64';
  return undefined;
}

export function outgoing(draft: MessageDraft): OutgoingMessage {
  const isJson = draft.encoding === 'json' || draft.encoding === 'value';
  const properties: Record<string, unknown> = {};
  for (const [name, field] of PROPERTIES) if (draft[field] !== '') properties[name] = draft[field];
  const applicationProperties = named(draft.properties);
  const annotations = named(draft.annotations);
  return {
    ...(draft.encoding === 'none' ? {} : { body: isJson ? parseExact(draft.body) : draft.body }),
    encoding: draft.encoding,
    ...(Object.keys(properties).length > 0 ? { properties } : {}),
    ...(Object.keys(applicationProperties).length > 0 ? { applicationProperties } : {}),
    ...(Object.keys(annotations).length > 0 ? { annotations } : {}),
    durable: draft.durable,
    ...(draft.ttl === undefined ? {} : { ttlMs: draft.ttl }),
    ...(draft.priority === undefined ? {} : { priority: draft.priority }),
  };
}

function text(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : stringifyExact(value);
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}

/** A text that `valueOf` reads back as the same value. */
function written(value: unknown): string {
  return typeof value === 'string' && valueOf(value) !== value ? `"${value}"` : text(value);
}

/** A body of data as the text that it is; one that is no text in base64. Nothing of it changes unless a person does. */
function dataDraft(base64: string): Pick<MessageDraft, 'body' | 'encoding'> {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  try {
    return {
      body: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes),
      encoding: 'data',
    };
  } catch {
    return { body: base64, encoding: 'base64' };
  }
}

function bodyDraft({ kind, raw, message }: StoredMessage): Pick<MessageDraft, 'body' | 'encoding'> {
  const body = message?.body;
  if (kind === 'none') return { body: '', encoding: 'none' };
  if (kind === 'data' && raw) return dataDraft(raw.body);
  return typeof body === 'string'
    ? { body, encoding: 'text' }
    : { body: stringifyExact(body ?? null, 2), encoding: 'value' };
}

/** The draft of a stored message in its typed form, without what the platform added to it. */
export function draftOf(stored: StoredMessage): MessageDraft {
  const message: Partial<MessageDocument> = stored.message ?? {};
  const properties = message.properties ?? {};
  return {
    ...NEW_MESSAGE,
    ...bodyDraft(stored),
    messageId: text(properties.message_id),
    correlationId: text(properties.correlation_id),
    subject: text(properties.subject),
    contentType: text(properties.content_type),
    contentEncoding: text(properties.content_encoding),
    to: text(properties.to),
    replyTo: text(properties.reply_to),
    groupId: text(properties.group_id),
    properties: Object.entries(message.applicationProperties ?? {}).map(([name, value]) => ({
      name,
      value: written(value),
    })),
    annotations: Object.entries(message.annotations ?? {})
      .filter(([name]) => !name.startsWith('x-opt-dead-letter'))
      .map(([name, value]) => ({ name, value: written(value) })),
    durable: message.header?.durable !== false,
    priority: numberOf(message.header?.priority),
  };
}
