import { expect, it } from 'vitest';
import { ADDRESS_TYPES } from '@/api/types';
import { HOSTILE_NAMES } from '@/test/hostileNames';
import { NEW_ADDRESS, documentOf, draftOf, type AddressDraft } from './draft';
import { resourceName } from './resourceName';

/** Every field filled in, as a person who tried all types would leave them. */
const FULL: AddressDraft = {
  ...NEW_ADDRESS,
  address: 'orders',
  plan: 'some',
  topic: 'prices',
  maxConsumers: 3,
  deadletter: 'dead',
  expiry: 'dead',
  ttlMinimum: '1s',
  ttlMaximum: '7d',
  attempts: 3,
  delay: '1s',
  delayMultiplier: 2,
  delayMaximum: '1m',
  keepsRejected: true,
  durability: 'memory',
  duplicateIds: 100,
  duplicateWindow: '1h',
  retentionBytes: '1GiB',
  partitions: 3,
  limitMessages: 10,
  limitBytes: '1MiB',
  limitMessageSize: '64KiB',
  limitConsumers: 5,
  limitProducers: 6,
  onFull: 'dropOldest',
  lastValueKey: 'key',
  singleActiveConsumer: true,
  groups: 'sticky',
};

const EXPECTED: Record<string, string[]> = {
  queue: [
    'deadletter',
    'duplicateDetection',
    'durability',
    'expiry',
    'groups',
    'lastValueKey',
    'limits',
    'messageRedelivery',
    'messageTtl',
    'singleActiveConsumer',
    'treatRejectAsUnmodifiedDeliveryFailed',
  ],
  topic: [
    'deadletter',
    'durability',
    'expiry',
    'limits',
    'messageRedelivery',
    'messageTtl',
    'treatRejectAsUnmodifiedDeliveryFailed',
  ],
  subscription: [
    'deadletter',
    'expiry',
    'groups',
    'lastValueKey',
    'limits',
    'messageRedelivery',
    'singleActiveConsumer',
    'subscription',
    'topic',
    'treatRejectAsUnmodifiedDeliveryFailed',
  ],
  anycast: ['limits'],
  multicast: ['limits'],
  deadletter: ['durability', 'limits', 'messageTtl'],
};

it.each(ADDRESS_TYPES)('%s has only the fields of its type', (type) => {
  const { spec } = documentOf({ ...FULL, type }, 'shop', 'shop');
  const fields = Object.keys(spec).filter((name) => !['type', 'address', 'plan'].includes(name));
  expect(fields.sort()).toEqual(EXPECTED[type]);
});

it('a stream has retention, partitions and duplicate detection', () => {
  const { spec } = documentOf({ ...FULL, type: 'topic', isStream: true }, 'shop', 'shop');
  expect(spec).toMatchObject({ retention: { age: '7d', bytes: '1GiB' }, partitions: 3 });
  expect(spec.deadletter).toBeUndefined();
  expect(spec.duplicateDetection).toEqual({ ids: 100, window: '1h' });
});

it('an empty form is a plain document', () => {
  expect(documentOf({ ...NEW_ADDRESS, address: 'orders' }, 'shop', 'web')).toEqual({
    apiVersion: 'enmasse.io/v1beta1',
    kind: 'Address',
    metadata: { name: 'web.orders', namespace: 'shop' },
    spec: { type: 'queue', address: 'orders' },
  });
});

it('reads its own documents back', () => {
  const { spec } = documentOf({ ...FULL, type: 'queue' }, 'shop', 'shop');
  expect(documentOf(draftOf(spec), 'shop', 'shop').spec).toEqual(spec);
});

it('shows numbers of the API in units', () => {
  const draft = draftOf({
    type: 'queue',
    address: 'a',
    messageTtl: { maximum: 604_800_000 },
    limits: { bytes: 1_048_576 },
  });
  expect([draft.ttlMaximum, draft.limitBytes]).toEqual(['7d', '1MiB']);
});

it('names resources as the command line does', () => {
  expect(resourceName('shop', 'orders')).toBe('shop.orders');
  // enmasse.resources.naming.resource_name gives these
  expect(resourceName('shop', 'Orders/New')).toBe('shop.orders-new-700307eb');
  for (const name of HOSTILE_NAMES) expect(resourceName('shop', name)).toMatch(/^shop\.[a-z0-9-]{8,60}$/);
});
