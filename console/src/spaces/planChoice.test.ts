import { describe, expect, it } from 'vitest';
import { limitTexts, periodOf, usageOf } from './planChoice';

const LAST_OF_2026 = '2026-12-31T23:59:59.999Z';

describe('the period of usage', () => {
  it('is the month, or the day of a daily allowance, in UTC', () => {
    expect(periodOf(LAST_OF_2026, undefined)).toBe('2026-12');
    expect(periodOf('2027-01-01T00:30:00+00:00', { period: 'month' })).toBe('2027-01');
    expect(periodOf(LAST_OF_2026, { period: 'day' })).toBe('2026-12-31');
  });

  it('begins at zero: the last record may be of an earlier period', () => {
    const before = usageOf(undefined, '2026-12');
    const records = [{ ...before, messagesIn: 9 }];
    expect(usageOf(records, '2026-12').messagesIn).toBe(9);
    expect(usageOf(records, '2027-01')).toMatchObject({ period: '2027-01', messagesIn: 0 });
  });
});

describe('limits in words', () => {
  it('name the period of the allowance', () => {
    expect(
      limitTexts({ connections: 10, allowance: { period: 'day', messages: 1000, bytes: 1 << 30 } }),
    ).toEqual(['10 connections', '1,000 messages a day', '1 GiB a day']);
    expect(limitTexts(undefined)).toEqual([]);
  });
});
