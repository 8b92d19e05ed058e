import { expect, it } from 'vitest';
import { age, bytes, count, duration, labelled, milliseconds, plural, rate } from './format';

it.each([
  [0, '0'],
  [99_999, '99,999'],
  [1_234_567, '1.2M'],
  [undefined, '–'],
])('count %s', (value, text) => {
  expect(count(value)).toBe(text);
});

it.each([
  [0, '0'],
  [0.04, '<0.1'],
  [2, '2'],
  [3.14, '3.1'],
  [1234.5, '1,235'],
  [20_000, '20K'],
])('rate %s', (value, text) => {
  expect(rate(value)).toBe(text);
});

it.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1536, '1.5 KiB'],
  [5 * 1024 ** 3, '5 GiB'],
])('bytes %s', (value, text) => {
  expect(bytes(value)).toBe(text);
});

it.each([
  [0, '0s'],
  [0.44, '0.4s'],
  [61, '1m 1s'],
  [93_784, '1d 2h'],
])('duration %s', (value, text) => {
  expect(duration(value)).toBe(text);
});

it('reads times', () => {
  expect(age('2026-01-01T00:00:00Z', Date.parse('2026-01-01T02:30:00Z'))).toBe('2h');
  expect(age('2026-01-01T00:00:00Z', Date.parse('2026-01-01T00:00:01Z'))).toBe('just now');
  expect(milliseconds(7 * 86_400_000)).toBe('7d');
  expect(milliseconds('7d')).toBe('7d');
  expect(plural(1, 'address', 'addresses')).toBe('1 address');
});

it('names values that read the same once on an axis', () => {
  expect(labelled([0, 0.02, 0.04, 0.2], rate)).toEqual(['0', '<0.1', '', '0.2']);
});
