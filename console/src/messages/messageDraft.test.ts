import { expect, it } from 'vitest';
import { NEW_MESSAGE, bodyFault, draftOf, outgoing, valueOf } from './messageDraft';

it.each([
  ['5', 5],
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
  const draft = draftOf({ body: null, properties: { subject: 's' } }, 'none');
  expect(bodyFault(draft)).toBeUndefined();
  expect(outgoing(draft)).toEqual({ encoding: 'none', properties: { subject: 's' }, durable: true });
  expect(outgoing(draftOf({ body: null }, 'value'))).toMatchObject({ body: null, encoding: 'value' });
});

it('edits a stored message without what the platform added', () => {
  const message = {
    body: { a: 1 },
    properties: { message_id: 'm1', content_type: 'application/json' },
    applicationProperties: { size: 5, text: '5' },
    annotations: { 'x-opt-dead-letter-cause': 'rejected', 'x-opt-mine': 'kept' },
  };
  const edited = outgoing(draftOf(message, 'value'));
  expect(edited).toMatchObject({
    body: { a: 1 },
    encoding: 'value',
    applicationProperties: { size: 5, text: '5' },
  });
  expect(edited.annotations).toEqual({ 'x-opt-mine': 'kept' });
});
