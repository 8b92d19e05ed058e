import type { ComponentType } from 'react';
import BullhornIcon from '@patternfly/react-icons/dist/esm/icons/bullhorn-icon';
import ExchangeIcon from '@patternfly/react-icons/dist/esm/icons/exchange-alt-icon';
import InboxIcon from '@patternfly/react-icons/dist/esm/icons/inbox-icon';
import RssIcon from '@patternfly/react-icons/dist/esm/icons/rss-icon';
import StreamIcon from '@patternfly/react-icons/dist/esm/icons/stream-icon';
import TrashIcon from '@patternfly/react-icons/dist/esm/icons/trash-restore-icon';
import type { Address, AddressSpec, AddressType } from '@/api/types';

/** What each address type is for, and which fields it has: as enmasse.resources.address_rules. */

export interface TypeFacts {
  title: string;
  text: string;
  icon: ComponentType;
}

export const TYPE_FACTS: Record<AddressType, TypeFacts> = {
  queue: { title: 'Queue', text: 'Stored until one consumer has processed each message.', icon: InboxIcon },
  topic: {
    title: 'Topic',
    text: 'Each subscription gets every message; with retention it is a stream.',
    icon: RssIcon,
  },
  subscription: { title: 'Subscription', text: 'A named, stored subscription of a topic.', icon: StreamIcon },
  anycast: {
    title: 'Anycast',
    text: 'Direct: each message to one consumer, nothing is stored.',
    icon: ExchangeIcon,
  },
  multicast: {
    title: 'Multicast',
    text: 'Direct: each message to every consumer, nothing is stored.',
    icon: BullhornIcon,
  },
  deadletter: {
    title: 'Dead letter',
    text: 'Messages that other addresses gave up, with the cause.',
    icon: TrashIcon,
  },
};

const STORED_FROM: readonly AddressType[] = ['queue', 'topic', 'subscription'];
const STORED: readonly AddressType[] = ['queue', 'topic', 'subscription', 'deadletter'];

/** Fields that a wizard offers, and the types that support them. */
export const SUPPORTED = {
  topic: ['subscription'],
  maxConsumers: ['subscription'],
  deadletter: STORED_FROM,
  expiry: STORED_FROM,
  messageTtl: ['queue', 'topic', 'deadletter'],
  redelivery: STORED_FROM,
  durability: ['queue', 'topic', 'deadletter'],
  duplicates: ['queue', 'topic'],
  retention: ['topic'],
  storedLimits: STORED,
  messageSize: ['anycast', 'multicast', 'queue', 'topic'],
  consumers: ['queue', 'topic', 'deadletter'],
  producers: ['queue', 'topic'],
  lastValueKey: ['queue', 'subscription'],
  singleActiveConsumer: ['queue', 'subscription'],
  groups: ['queue', 'subscription'],
} satisfies Record<string, readonly AddressType[]>;

const NOT_ON_STREAMS: ReadonlySet<string> = new Set([
  'deadletter',
  'expiry',
  'messageTtl',
  'redelivery',
  'storedLimits',
]);
const ONLY_ON_STREAMS: ReadonlySet<string> = new Set(['duplicates']);

export type Feature = keyof typeof SUPPORTED;

export function supports(type: AddressType, isStream: boolean, feature: Feature): boolean {
  const types: readonly AddressType[] = SUPPORTED[feature];
  if (!types.includes(type)) return false;
  if (type !== 'topic') return true;
  return isStream ? !NOT_ON_STREAMS.has(feature) : !ONLY_ON_STREAMS.has(feature);
}

export function typeOf(spec: AddressSpec): AddressType {
  return spec.type as AddressType;
}

export function isStream(address: Address): boolean {
  return address.spec.type === 'topic' && address.spec.retention !== undefined;
}

/** Whether its messages can be read and moved: it stores them one by one. */
export function holdsMessages(address: Address): boolean {
  return ['queue', 'subscription', 'deadletter'].includes(address.spec.type) || isStream(address);
}

/** Whether operations on its messages exist: on a stream only peek. */
export function isManaged(address: Address): boolean {
  return ['queue', 'subscription', 'deadletter'].includes(address.spec.type);
}

export function acceptsMessages(address: Address): boolean {
  return !['deadletter', 'subscription'].includes(address.spec.type);
}
