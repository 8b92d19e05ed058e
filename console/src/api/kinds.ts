/** The kinds of the API and their paths. */

export interface Kind {
  readonly kind: string;
  readonly plural: string;
  readonly group: string;
  readonly version: string;
  readonly namespaced: boolean;
  /** The name for people, singular. */
  readonly title: string;
}

function kindOf(kind: string, plural: string, group: string, version: string, title: string): Kind {
  return { kind, plural, group, version, namespaced: true, title };
}

const TENANT = ['enmasse.io', 'v1beta1'] as const;
const ADMIN = ['admin.enmasse.io', 'v1beta1'] as const;
const PLANS = ['admin.enmasse.io', 'v1beta2'] as const;

export const AddressSpaceKind = kindOf('AddressSpace', 'addressspaces', ...TENANT, 'address space');
export const AddressKind = kindOf('Address', 'addresses', ...TENANT, 'address');
export const UserKind = kindOf('MessagingUser', 'messagingusers', ...TENANT, 'user');
export const PipelineKind = kindOf('Pipeline', 'pipelines', ...TENANT, 'pipeline');
export const SchemaKind: Kind = {
  ...kindOf('AddressSpaceSchema', 'addressspaceschemas', ...TENANT, 'schema'),
  namespaced: false,
};
export const AddressPlanKind = kindOf('AddressPlan', 'addressplans', ...PLANS, 'address plan');
export const AddressSpacePlanKind = kindOf(
  'AddressSpacePlan',
  'addressspaceplans',
  ...PLANS,
  'address space plan',
);
export const StandardInfraKind = kindOf(
  'StandardInfraConfig',
  'standardinfraconfigs',
  ...ADMIN,
  'infra config',
);
export const BrokeredInfraKind = kindOf(
  'BrokeredInfraConfig',
  'brokeredinfraconfigs',
  ...ADMIN,
  'infra config',
);
export const AuthServiceKind = kindOf(
  'AuthenticationService',
  'authenticationservices',
  ...ADMIN,
  'authentication service',
);
export const NodeKind = kindOf('MessagingNode', 'messagingnodes', ...ADMIN, 'node');
export const NamespaceKind: Kind = {
  ...kindOf('Namespace', 'namespaces', '', 'v1', 'namespace'),
  namespaced: false,
};
export const SecretKind = kindOf('Secret', 'secrets', '', 'v1', 'secret');
export const EventKind = kindOf('Event', 'events', '', 'v1', 'event');

export const BASE = '/apis/enmasse.io/v1beta1';

export function apiVersionOf(kind: Kind): string {
  return kind.group ? `${kind.group}/${kind.version}` : kind.version;
}

/** The path of a collection, of all namespaces if none is given. */
export function collectionPath(kind: Kind, namespace?: string): string {
  const base = kind.group ? `/apis/${kind.group}/${kind.version}` : `/api/${kind.version}`;
  const within = kind.namespaced && namespace ? `/namespaces/${encodeURIComponent(namespace)}` : '';
  return `${base}${within}/${kind.plural}`;
}

export function resourcePath(kind: Kind, namespace: string, name: string, below = ''): string {
  return `${collectionPath(kind, namespace)}/${encodeURIComponent(name)}${below ? `/${below}` : ''}`;
}
