import { expect, it } from 'vitest';
import { encode } from 'cborg';
import type { StoredMessage } from '@/api/messages';
import { bodyLine, bodyText, hexOf, suitableView } from './body';

function stored(body: unknown, contentType?: string, raw?: Uint8Array): StoredMessage {
  return {
    bytes: 1,
    message: { body, ...(contentType ? { properties: { content_type: contentType } } : {}) },
    ...(raw ? { raw: { encoding: 'base64' as const, body: btoa(String.fromCharCode(...raw)) } } : {}),
  };
}

it('chooses a view by content type, then by content', () => {
  expect(suitableView(stored('{"a":1}', 'application/json'))).toBe('json');
  expect(suitableView(stored('plain'))).toBe('text');
  expect(suitableView(stored('[1, 2]'))).toBe('json');
  expect(suitableView(stored('[not json'))).toBe('text');
  expect(suitableView(stored('a\ufffdb'))).toBe('hex');
  expect(suitableView(stored({ a: 1 }))).toBe('json');
  expect(suitableView(stored('', 'application/cbor'))).toBe('cbor');
});

it('shows JSON indented, and says why a text is none', async () => {
  expect(await bodyText(stored('{"a":[1]}'), 'json')).toBe('{\n  "a": [\n    1\n  ]\n}');
  await expect(bodyText(stored('{'), 'json')).rejects.toThrow();
});

it('decodes CBOR from the bytes', async () => {
  const raw = encode({ temperature: 21.5, id: new Uint8Array([1, 255]) });
  expect(JSON.parse(await bodyText(stored('?', undefined, raw), 'cbor'))).toEqual({
    temperature: 21.5,
    id: "h'01ff'",
  });
});

it('shows bytes with their characters', () => {
  expect(hexOf(new TextEncoder().encode('<b>\n'))).toBe(`00000000  3c 62 3e 0a${' '.repeat(36)}  <b>.`);
});

it('puts a body on one short line', () => {
  expect(bodyLine(stored('a\n  b'))).toBe('a b');
  expect(bodyLine(stored('x'.repeat(1000)))).toHaveLength(200);
});

it('says on the line that a message cannot be decoded', () => {
  expect(bodyLine({ bytes: 9, problem: 'it nests deeper than 32 levels' })).toBe(
    'Cannot be decoded: it nests deeper than 32 levels',
  );
});
