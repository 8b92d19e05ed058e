import { expect, it } from 'vitest';
import { parseExact, stringifyExact } from './exactJson';

it.each([
  '9223372036854775807',
  '[-18446744073709551615]',
  '{"a":{"id":12345678901234567890}}',
  '1.5',
  '"1"',
  'null',
])('writes %s as it was read', (text) => {
  expect(stringifyExact(parseExact(text))).toBe(text);
});

it('reads numbers that JavaScript has as numbers', () => {
  expect(parseExact('[1, 1e300, 9007199254740991]')).toEqual([1, 1e300, 9007199254740991]);
});
