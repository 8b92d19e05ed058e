import type { components } from './generated/schema';

/** Types of the API: resources from its OpenAPI document, live values as docs/console/api.md has them. */

type Schemas = components['schemas'];

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

export interface Metadata {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
}

/** What every declared resource has. */
export interface Resource {
  apiVersion?: string;
  kind?: string;
  metadata: Metadata;
}

type Known<Name extends keyof Schemas> = Omit<Schemas[Name], 'metadata'> & { metadata: Metadata };

export interface Statistics {
  senders: number;
  receivers: number;
  waiting: number;
  stored: { messages: number; bytes: number; inFlight: number; scheduled: number; oldestAgeSeconds: number };
  enqueued: number;
  redelivered: number;
  duplicates: number;
  expired: number;
  replaced: number;
  overrun: number;
  deadLettered: { rejected: number; maximumDeliveryAttempts: number; expired: number };
  damaged: number;
  delivered: number;
  bytes: number;
  outcomes: {
    accepted: number;
    rejected: number;
    released: number;
    modified: number;
    presettled: number;
    dropped: number;
  };
  creditStalls: number;
  enqueuedPerSecond: number;
  deliveredPerSecond: number;
  bytesPerSecond: number;
}

export interface SpaceLive {
  addresses: number;
  connections: number;
  links: number;
  stored: number;
  storedBytes: number;
  messagesInPerSecond: number;
  messagesOutPerSecond: number;
  bytesInPerSecond: number;
  bytesOutPerSecond: number;
}

type AddressSchema = Known<'io.enmasse.v1beta1.Address'>;
type SpaceSchema = Known<'io.enmasse.v1beta1.AddressSpace'>;

export type AddressSpec = AddressSchema['spec'];
export type Address = AddressSchema & { status?: AddressSchema['status'] & { statistics?: Statistics } };
export type AddressSpaceSpec = SpaceSchema['spec'];
export type AddressSpace = SpaceSchema & { status?: SpaceSchema['status'] & { live?: SpaceLive } };
export type MessagingUser = Known<'io.enmasse.v1beta1.MessagingUser'>;
export type Pipeline = Known<'io.enmasse.v1beta1.Pipeline'>;
export type AddressSpaceSchema = Known<'io.enmasse.v1beta1.AddressSpaceSchema'>;
export type AddressPlan = Known<'io.enmasse.admin.v1beta2.AddressPlan'>;
export type AddressSpacePlan = Known<'io.enmasse.admin.v1beta2.AddressSpacePlan'>;
export type KubernetesEvent = Known<'io.k8s.api.core.v1.Event'>;
export type EndpointStatus = NonNullable<NonNullable<SpaceSchema['status']>['endpointStatuses']>[number];
export type Usage = NonNullable<NonNullable<SpaceSchema['status']>['usage']>[number];

export const ADDRESS_TYPES = [
  'queue',
  'topic',
  'subscription',
  'anycast',
  'multicast',
  'deadletter',
] as const;
export type AddressType = (typeof ADDRESS_TYPES)[number];

export interface Totals {
  spaces: number;
  addresses: number;
  connections: number;
  stored: number;
  storedBytes: number;
  enqueuedPerSecond: number;
  deliveredPerSecond: number;
  bytesPerSecond: number;
}

export interface Sample {
  time: string;
  windowSeconds: number;
  addresses: Record<string, Statistics>;
  spaces: Record<string, SpaceLive>;
  totals: Totals;
}

/** Outcomes of the deliveries of a link since its attach (AMQP 1.0, 3.4). */
export interface LinkOutcomes {
  accepted: number;
  rejected: number;
  released: number;
  modified: number;
}

export interface Link {
  connection: string;
  name: string;
  role: 'sender' | 'receiver';
  address: string;
  user?: string;
  container?: string;
  credit?: number;
  unsettled?: number;
  deliveries?: number;
  deliveriesPerSecond?: number;
  /** Absent for MQTT, which has none. */
  outcomes?: LinkOutcomes;
}

export interface Connection {
  id: string;
  namespace: string;
  space: string;
  user?: string;
  container?: string;
  peer?: string;
  transport: string;
  protocol: string;
  tls: boolean;
  product?: string;
  linkCount: number;
  messagesIn: number;
  bytesIn: number;
  messagesOut: number;
  bytesOut: number;
  messagesInPerSecond?: number;
  messagesOutPerSecond?: number;
  links?: Link[];
}

export interface Ranked {
  namespace: string;
  name: string;
  value: number;
}

export interface Overview {
  time: string;
  totals: Totals;
  addressSpaces: { total: number; ready: number };
  users: { total: number };
  addresses: {
    total: number;
    ready: number;
    byType: Record<string, number>;
    byPhase: Record<string, number>;
  };
  notReady: { kind: string; namespace: string; name: string; phase: string; messages: string[] }[];
  top: Partial<Record<'stored' | 'deliveredRate' | 'enqueuedRate' | 'storedBytes' | 'oldestAge', Ranked[]>>;
  certificates: { namespace: string; space: string; expires: string }[];
  node?: {
    workers: { busy: number; connections: number }[];
    journal: {
      usedBytes: number;
      aliveBytes: number;
      stopped?: string | null;
      unreadable?: string | null;
    } | null;
    disk: { freeBytes: number; sizeBytes: number } | null;
    problem: string | null;
  };
}

export interface Session {
  user: string;
  isOwner: boolean;
  roles: Record<string, string[]>;
  groups: string[];
  method: string;
  created: string;
  expires: string;
  idleSeconds: number;
  csrf: string;
  may: { operate: boolean; readAll: boolean; namespaces: string[] };
  platform: { version: string; endpoints: Record<string, { host: string; port: number }> };
}
