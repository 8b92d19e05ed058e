import { expect, it } from 'vitest';
import { HOSTILE_NAMES } from '@/test/hostileNames';
import { anyOf, matcher } from './history';

it('quotes label values', () => {
  expect(matcher('address', 'a"b\\c\nd')).toBe('address="a\\"b\\\\c\\nd"');
});

it('matches exactly the given names, whatever characters they have', () => {
  const expression = new RegExp(`^(?:${anyOf(HOSTILE_NAMES)})$`);
  for (const name of HOSTILE_NAMES) expect(expression.test(name)).toBe(true);
  expect(expression.test('it.s "quoted"')).toBe(false);
  expect(new RegExp(`^(?:${anyOf(['a.b'])})$`).test('axb')).toBe(false);
});
