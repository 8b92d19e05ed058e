import { expect, it } from 'vitest';
import type { MessageDocument, StoredMessage } from '@/api/messages';
import { NEW_MESSAGE, bodyFault, draftOf, outgoing, valueOf } from './messageDraft';

function stored(
  message: MessageDocument,
  kind: NonNullable<StoredMessage['kind']>,
  raw?: string,
): StoredMessage {
  const bytes = raw === undefined ? {} : { raw: { encoding: 'base64' as const, body: btoa(raw) } };
  return { bytes: 1, enqueued: '2026-01-01T00:00:00Z', message, kind, ...bytes };
}

it.each([
  ['5', 5],
  ['9223372036854775807', 9223372036854775807n],
  ['-1.5e3', -1500],
  ['true', true],
  ['"5"', '5'],
  ['red', 'red'],
  ['', ''],
  [' padded ', ' padded '],
])('reads the value %j', (text, value) => {
  expect(valueOf(text)).toBe(value);
});

it('sends what was filled in and nothing else', () => {
  const draft = {
    ...NEW_MESSAGE,
    body: 'hi',
    subject: 's',
    properties: [
      { name: 'size', value: '5' },
      { name: '', value: 'x' },
    ],
  };
  expect(outgoing(draft)).toEqual({
    body: 'hi',
    encoding: 'text',
    properties: { subject: 's' },
    applicationProperties: { size: 5 },
    durable: true,
  });
});

it('refuses a body that is not what it says', () => {
  expect(bodyFault({ ...NEW_MESSAGE, encoding: 'json', body: '{' })).toMatch(/is not JSON/);
  expect(bodyFault({ ...NEW_MESSAGE, encoding: 'base64', body: 'a-b' })).toBe('is not base64');
  expect(bodyFault({ ...NEW_MESSAGE, encoding: 'value', body: '[1]' })).toBeUndefined();
});

it('keeps a message without a body as one', () => {
  const draft = draftOf(stored({ body: null, properties: { subject: 's' } }, 'none'));
  expect(bodyFault(draft)).toBeUndefined();
  expect(outgoing(draft)).toEqual({ encoding: 'none', properties: { subject: 's' }, durable: true });
  expect(outgoing(draftOf(stored({ body: null }, 'value')))).toMatchObject({ body: null, encoding: 'value' });
});

it('edits a stored message without what the platform added', () => {
  const message = {
    body: { a: 1 },
    properties: {
      message_id: 'm1',
      content_type: 'application/json',
      content_encoding: 'gzip',
      to: 'orders',
    },
    applicationProperties: { size: 5, text: '5' },
    annotations: { 'x-opt-dead-letter-cause': 'rejected', 'x-opt-mine': 'kept' },
  };
  const edited = outgoing(draftOf(stored(message, 'value')));
  expect(edited).toMatchObject({
    body: { a: 1 },
    encoding: 'value',
    applicationProperties: { size: 5, text: '5' },
  });
  expect(edited.properties).toEqual(message.properties);
  expect(edited.annotations).toEqual({ 'x-opt-mine': 'kept' });
});

it.each([
  ['text', 'plain text', undefined],
  ['text of a content type', 'a;b', 'text/csv'],
  ['JSON with a number that JavaScript cannot hold', '{"id": 12345678901234567890}', 'application/json'],
  ['text that begins with a mark of its order of bytes', '\u00ef\u00bb\u00bfx', undefined],
])('keeps a body of data as it is: %s', (_name, raw, contentType) => {
  const properties = contentType === undefined ? {} : { content_type: contentType };
  const edited = outgoing(draftOf(stored({ body: 'as JSON shows it', properties }, 'data', raw)));
  const sent = String.fromCharCode(...new TextEncoder().encode(String(edited.body)));
  expect([edited.encoding, sent]).toEqual(['data', raw]);
});

it('keeps a body of data that is no text', () => {
  const edited = outgoing(draftOf(stored({ body: '\ufffd' }, 'data', '\u00ff\u0000')));
  expect(edited).toMatchObject({ encoding: 'base64', body: btoa('\u00ff\u0000') });
});

it('keeps the priority of a message', () => {
  expect(outgoing(draftOf(stored({ body: 'x', header: { priority: 7 } }, 'value'))).priority).toBe(7);
});

it('keeps each digit of a large number in an edited body', () => {
  const edited = outgoing(draftOf(stored({ body: { id: 9223372036854775807n } }, 'value')));
  expect(edited.body).toEqual({ id: 9223372036854775807n });
});
