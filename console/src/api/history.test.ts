import { expect, it } from 'vitest';
import { HOSTILE_NAMES } from '@/test/hostileNames';
import { anyOf, matcher, matchersOf } from './history';

it('quotes label values', () => {
  expect(matcher('address', 'a"b\\c\nd')).toBe('address="a\\"b\\\\c\\nd"');
});

it('matches exactly the given names, whatever characters they have', () => {
  const expression = new RegExp(`^(?:${anyOf(HOSTILE_NAMES)})$`);
  for (const name of HOSTILE_NAMES) expect(expression.test(name)).toBe(true);
  expect(expression.test('it.s "quoted"')).toBe(false);
  expect(new RegExp(`^(?:${anyOf(['a.b'])})$`).test('axb')).toBe(false);
});

it('divides names among patterns that the platform accepts', () => {
  const names = Array.from({ length: 50 }, (_, index) => `orders/region-${String(index)}`);
  const matchers = matchersOf('address', [...names, 'L'.repeat(1024)]);
  expect(matchers).toContain(`address="${'L'.repeat(1024)}"`);
  const patterns = matchers
    .filter((one) => one.includes('=~'))
    .map((one) => JSON.parse(one.slice(9)) as string);
  expect(Math.max(...patterns.map((one) => one.length))).toBeLessThanOrEqual(256);
  expect(patterns.join('|').split('|')).toEqual(names);
});
