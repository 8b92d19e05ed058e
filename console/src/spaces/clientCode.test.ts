import { expect, it } from 'vitest';
import { HOSTILE_NAMES } from '@/test/hostileNames';
import { samplesFor } from './clientCode';

const TARGET = { host: '127.0.0.1', port: 5671, isTls: true, virtualHost: 'shop.shop', needsUser: true };

it.each(HOSTILE_NAMES)('quotes the address %s in every language', (address) => {
  const samples = samplesFor({ ...TARGET, address });
  expect(samples).toHaveLength(5);
  const [shell, ...others] = samples;
  expect(shell?.text).toContain(`'${address.replaceAll("'", "'\\''")}'`);
  for (const sample of others) expect(sample.text).toContain(JSON.stringify(address));
});

it('mentions a login only where one is needed', () => {
  const open = samplesFor({ ...TARGET, address: 'a', needsUser: false });
  for (const sample of open) expect(sample.text).not.toContain('PASSWORD');
});
