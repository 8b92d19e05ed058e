import type { Address, AddressSpec, AddressType } from '@/api/types';
import { pruned } from '@/ui/preview';
import { resourceName } from './resourceName';
import { supports, type Feature } from './types';

/** What a person has filled in for an address, and the document that it becomes. */

export interface AddressDraft {
  type: AddressType;
  address: string;
  plan: string;
  topic: string;
  maxConsumers: number | undefined;
  deadletter: string;
  expiry: string;
  ttlMinimum: string | undefined;
  ttlMaximum: string | undefined;
  attempts: number | undefined;
  delay: string | undefined;
  delayMultiplier: number | undefined;
  delayMaximum: string | undefined;
  keepsRejected: boolean;
  durability: '' | 'disk' | 'memory';
  duplicateIds: number | undefined;
  duplicateWindow: string | undefined;
  isStream: boolean;
  retentionBytes: string | undefined;
  retentionAge: string | undefined;
  partitions: number | undefined;
  limitMessages: number | undefined;
  limitBytes: string | undefined;
  limitMessageSize: string | undefined;
  limitConsumers: number | undefined;
  limitProducers: number | undefined;
  onFull: '' | 'block' | 'reject' | 'dropOldest';
  lastValueKey: string;
  singleActiveConsumer: boolean;
  groups: '' | 'none' | 'sticky' | 'perKey';
}

export const NEW_ADDRESS: AddressDraft = {
  type: 'queue',
  address: '',
  plan: '',
  topic: '',
  maxConsumers: undefined,
  deadletter: '',
  expiry: '',
  ttlMinimum: undefined,
  ttlMaximum: undefined,
  attempts: undefined,
  delay: undefined,
  delayMultiplier: undefined,
  delayMaximum: undefined,
  keepsRejected: false,
  durability: '',
  duplicateIds: undefined,
  duplicateWindow: undefined,
  isStream: false,
  retentionBytes: undefined,
  retentionAge: '7d',
  partitions: undefined,
  limitMessages: undefined,
  limitBytes: undefined,
  limitMessageSize: undefined,
  limitConsumers: undefined,
  limitProducers: undefined,
  onFull: '',
  lastValueKey: '',
  singleActiveConsumer: false,
  groups: '',
};

/** The value where the type has the field, else nothing: the form keeps what another type would use. */
function only<T>(draft: AddressDraft, feature: Feature, value: T): T | undefined {
  return supports(draft.type, draft.isStream, feature) ? value : undefined;
}

function limitsOf(draft: AddressDraft): AddressSpec['limits'] {
  return {
    messages: only(draft, 'storedLimits', draft.limitMessages),
    bytes: only(draft, 'storedLimits', draft.limitBytes),
    messageSize: only(draft, 'messageSize', draft.limitMessageSize),
    consumers: only(draft, 'consumers', draft.limitConsumers),
    producers: only(draft, 'producers', draft.limitProducers),
    onFull: only(draft, 'storedLimits', draft.onFull || undefined),
  } as AddressSpec['limits'];
}

/** The fields of a spec that a change may have too; type, address and topic cannot change. */
export function settingsOf(draft: AddressDraft): Partial<AddressSpec> {
  const isStream = draft.type === 'topic' && draft.isStream;
  return {
    plan: draft.plan,
    deadletter: only(draft, 'deadletter', draft.deadletter),
    expiry: only(draft, 'expiry', draft.expiry),
    messageTtl: only(draft, 'messageTtl', { minimum: draft.ttlMinimum, maximum: draft.ttlMaximum }),
    messageRedelivery: only(draft, 'redelivery', {
      maximumDeliveryAttempts: draft.attempts,
      redeliveryDelay: draft.delay,
      redeliveryDelayMultiplier: draft.delayMultiplier,
      maximumDeliveryDelay: draft.delayMaximum,
    }),
    treatRejectAsUnmodifiedDeliveryFailed: only(draft, 'redelivery', draft.keepsRejected || undefined),
    durability: only(draft, 'durability', draft.durability || undefined),
    duplicateDetection: only(draft, 'duplicates', { ids: draft.duplicateIds, window: draft.duplicateWindow }),
    retention: isStream ? { bytes: draft.retentionBytes, age: draft.retentionAge } : undefined,
    partitions: isStream ? draft.partitions : undefined,
    limits: limitsOf(draft),
    lastValueKey: only(draft, 'lastValueKey', draft.lastValueKey),
    singleActiveConsumer: only(draft, 'singleActiveConsumer', draft.singleActiveConsumer || undefined),
    groups: only(draft, 'groups', draft.groups || undefined),
  } as Partial<AddressSpec>;
}

export function documentOf(draft: AddressDraft, namespace: string, space: string): Address {
  return pruned({
    apiVersion: 'enmasse.io/v1beta1',
    kind: 'Address',
    metadata: { name: resourceName(space, draft.address), namespace },
    spec: {
      type: draft.type,
      address: draft.address,
      topic: only(draft, 'topic', draft.topic),
      subscription: only(draft, 'maxConsumers', { maxConsumers: draft.maxConsumers }),
      ...settingsOf(draft),
    },
  }) as Address;
}

const MILLISECOND_UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const;
const BYTE_UNITS = [
  ['GiB', 1024 ** 3],
  ['MiB', 1024 ** 2],
  ['KiB', 1024],
] as const;

/** A number in the largest unit that divides it. */
function withUnit(value: number | string | undefined, units: readonly (readonly [string, number])[]) {
  if (value === undefined || typeof value === 'string') return value;
  const [unit, size] = units.find(([, one]) => value % one === 0) ?? units.at(-1) ?? ['', 1];
  return `${String(value / size)}${unit}`;
}

const time = (value: number | string | undefined) => withUnit(value, MILLISECOND_UNITS);
const size = (value: number | string | undefined) => withUnit(value, BYTE_UNITS);

/** The draft of an address that exists. */
export function draftOf(spec: AddressSpec): AddressDraft {
  const { messageTtl, messageRedelivery, duplicateDetection, retention, limits } = spec;
  return {
    ...NEW_ADDRESS,
    type: spec.type as AddressType,
    address: spec.address,
    plan: spec.plan ?? '',
    topic: spec.topic ?? '',
    maxConsumers: spec.subscription?.maxConsumers,
    deadletter: spec.deadletter ?? '',
    expiry: spec.expiry ?? '',
    ttlMinimum: time(messageTtl?.minimum),
    ttlMaximum: time(messageTtl?.maximum),
    attempts: messageRedelivery?.maximumDeliveryAttempts,
    delay: time(messageRedelivery?.redeliveryDelay),
    delayMultiplier: messageRedelivery?.redeliveryDelayMultiplier,
    delayMaximum: time(messageRedelivery?.maximumDeliveryDelay),
    keepsRejected: spec.treatRejectAsUnmodifiedDeliveryFailed ?? false,
    durability: spec.durability ?? '',
    duplicateIds: duplicateDetection?.ids,
    duplicateWindow: time(duplicateDetection?.window),
    isStream: retention !== undefined,
    retentionBytes: size(retention?.bytes),
    retentionAge: time(retention?.age),
    partitions: spec.partitions,
    limitMessages: limits?.messages,
    limitBytes: size(limits?.bytes),
    limitMessageSize: size(limits?.messageSize),
    limitConsumers: limits?.consumers,
    limitProducers: limits?.producers,
    onFull: limits?.onFull ?? '',
    lastValueKey: spec.lastValueKey ?? '',
    singleActiveConsumer: spec.singleActiveConsumer ?? false,
    groups: spec.groups ?? '',
  };
}
