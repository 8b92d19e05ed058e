import { ExpandableSection, FormSection } from '@patternfly/react-core';
import { DraftFields, type FieldSpec } from '@/ui/DraftFields';
import { SwitchField } from '@/ui/fields';
import type { AddressDraft } from './draft';
import { supports, type Feature } from './types';

/** The settings of an address; only those that its type has. */

export interface AddressFieldsProps {
  draft: AddressDraft;
  set: (change: Partial<AddressDraft>) => void;
  /** Addresses of type deadletter in the space. */
  deadletters: readonly string[];
  /** Some fields cannot change once the address exists. */
  isNew: boolean;
}

type Fields = FieldSpec<AddressDraft>[];

function options(names: readonly string[]) {
  return [{ value: '', title: 'None' }, ...names.map((name) => ({ value: name, title: name }))];
}

const STREAM: Fields = [
  { kind: 'duration', field: 'retentionAge', label: 'Keep messages for', path: 'spec.retention.age' },
  {
    kind: 'size',
    field: 'retentionBytes',
    label: 'Keep at most, in each partition',
    path: 'spec.retention.bytes',
  },
  {
    kind: 'number',
    field: 'partitions',
    label: 'Partitions',
    path: 'spec.partitions',
    min: 1,
    hint: 'Order holds within a partition. The number can only grow.',
  },
];

const TIME_TO_LIVE: Fields = [
  {
    kind: 'duration',
    field: 'ttlMaximum',
    label: 'Longest time to live',
    path: 'spec.messageTtl.maximum',
    hint: 'Also that of messages without one.',
  },
  {
    kind: 'duration',
    field: 'ttlMinimum',
    label: 'Shortest time to live',
    path: 'spec.messageTtl.minimum',
  },
];

const MAXIMUM_CONSUMERS: Fields = [
  {
    kind: 'number',
    field: 'maxConsumers',
    label: 'Consumers at the same time',
    path: 'spec.subscription.maxConsumers',
    min: 1,
    hint: '1 by default; cannot change later.',
  },
];

const DURABILITY: Fields = [
  {
    kind: 'select',
    field: 'durability',
    label: 'Accepted messages are',
    path: 'spec.durability',
    options: [
      { value: '', title: 'on disk before they are accepted (default)' },
      { value: 'memory', title: 'in memory only: faster, lost with the process' },
    ],
  },
];

const ORDERING: Fields = [
  {
    kind: 'select',
    field: 'groups',
    label: 'Messages with the same group-id',
    path: 'spec.groups',
    options: [
      { value: '', title: 'The default' },
      { value: 'none', title: 'are not treated apart' },
      { value: 'sticky', title: 'go to the same consumer' },
      { value: 'perKey', title: 'keep their order only' },
    ],
  },
  {
    kind: 'text',
    field: 'lastValueKey',
    label: 'Last value key',
    path: 'spec.lastValueKey',
    hint: 'An application property: only the newest message of each value is kept.',
  },
  {
    kind: 'switch',
    field: 'singleActiveConsumer',
    label: 'One consumer at a time; the others wait to take over',
    path: 'spec.singleActiveConsumer',
  },
];

const DUPLICATES: Fields = [
  {
    kind: 'number',
    field: 'duplicateIds',
    label: 'Remembered ids',
    path: 'spec.duplicateDetection.ids',
    min: 1,
  },
  {
    kind: 'duration',
    field: 'duplicateWindow',
    label: 'Remembered for',
    path: 'spec.duplicateDetection.window',
  },
];

function redelivery(deadletters: readonly string[]): Fields {
  const path = 'spec.messageRedelivery';
  return [
    {
      kind: 'select',
      field: 'deadletter',
      label: 'Dead letters go to',
      path: 'spec.deadletter',
      options: options(deadletters),
      hint: deadletters.length === 0 ? 'The space has no address of type deadletter yet.' : undefined,
    },
    {
      kind: 'select',
      field: 'expiry',
      label: 'Expired messages go to',
      path: 'spec.expiry',
      options: options(deadletters),
    },
    {
      kind: 'number',
      field: 'attempts',
      label: 'Delivery attempts',
      path: `${path}.maximumDeliveryAttempts`,
      min: -1,
      hint: '-1: without a limit',
    },
    {
      kind: 'duration',
      field: 'delay',
      label: 'Delay before the second attempt',
      path: `${path}.redeliveryDelay`,
    },
    {
      kind: 'number',
      field: 'delayMultiplier',
      label: 'Each delay is so many times the one before',
      path: `${path}.redeliveryDelayMultiplier`,
      min: 1,
    },
    { kind: 'duration', field: 'delayMaximum', label: 'Longest delay', path: `${path}.maximumDeliveryDelay` },
    {
      kind: 'switch',
      field: 'keepsRejected',
      label: 'A rejected message stays and counts as a failed delivery',
      path: 'spec.treatRejectAsUnmodifiedDeliveryFailed',
    },
  ];
}

function limits(has: (feature: Feature) => boolean, isDeadletter: boolean): Fields {
  const [isStored, path] = [has('storedLimits'), 'spec.limits'];
  return [
    {
      kind: 'number',
      field: 'limitMessages',
      label: 'Stored messages',
      path: `${path}.messages`,
      isShown: isStored,
    },
    { kind: 'size', field: 'limitBytes', label: 'Stored bytes', path: `${path}.bytes`, isShown: isStored },
    {
      kind: 'select',
      field: 'onFull',
      label: 'When it is full',
      path: `${path}.onFull`,
      isShown: isStored,
      options: [
        { value: '', title: 'The default of the plan' },
        { value: 'block', title: 'Producers wait', isDisabled: isDeadletter },
        { value: 'reject', title: 'Messages are rejected', isDisabled: isDeadletter },
        { value: 'dropOldest', title: 'The oldest message is dropped' },
      ],
    },
    {
      kind: 'size',
      field: 'limitMessageSize',
      label: 'Size of a message',
      path: `${path}.messageSize`,
      isShown: has('messageSize'),
    },
    {
      kind: 'number',
      field: 'limitConsumers',
      label: 'Consumers',
      path: `${path}.consumers`,
      min: 1,
      isShown: has('consumers'),
    },
    {
      kind: 'number',
      field: 'limitProducers',
      label: 'Producers',
      path: `${path}.producers`,
      min: 1,
      isShown: has('producers'),
    },
  ];
}

function Stream({ draft, set, isNew }: AddressFieldsProps) {
  if (draft.type !== 'topic') return null;
  return (
    <FormSection title="Stream">
      {isNew ? (
        <SwitchField
          label="Keep messages as a stream"
          value={draft.isStream}
          onChange={(isStream) => {
            set({ isStream });
          }}
          hint="Consumers read from any offset or time, as often as they like, until retention removes the messages."
        />
      ) : null}
      {draft.isStream ? <DraftFields draft={draft} set={set} of={STREAM} /> : null}
    </FormSection>
  );
}

interface Section {
  title: string;
  text: string;
  fields: Fields;
}

export function AddressFields(props: AddressFieldsProps) {
  const { draft, set, deadletters, isNew } = props;
  const has = (feature: Feature) => supports(draft.type, draft.isStream, feature);
  const hasLimits = has('storedLimits') || has('messageSize') || has('consumers') || has('producers');
  const sections: (Section | null)[] = [
    has('redelivery') && has('deadletter')
      ? {
          title: 'Failed deliveries',
          text: 'attempts, delays, dead letters',
          fields: redelivery(deadletters),
        }
      : null,
    hasLimits
      ? {
          title: 'Limits',
          text: 'what it holds, who uses it',
          fields: limits(has, draft.type === 'deadletter'),
        }
      : null,
    has('groups')
      ? {
          title: 'Order of consumers',
          text: 'groups, one active consumer, last values',
          fields: ORDERING,
        }
      : null,
    has('duplicates')
      ? { title: 'Duplicates', text: 'messages with an id that was seen', fields: DUPLICATES }
      : null,
  ];
  return (
    <>
      {has('maxConsumers') && isNew ? <DraftFields draft={draft} set={set} of={MAXIMUM_CONSUMERS} /> : null}
      <Stream {...props} />
      {has('messageTtl') ? <DraftFields draft={draft} set={set} of={TIME_TO_LIVE} /> : null}
      {has('durability') && isNew ? <DraftFields draft={draft} set={set} of={DURABILITY} /> : null}
      {sections
        .filter((section) => section !== null)
        .map(({ title, text, fields }) => (
          <ExpandableSection key={title} toggleText={`${title} – ${text}`} isIndented>
            <DraftFields draft={draft} set={set} of={fields} />
          </ExpandableSection>
        ))}
    </>
  );
}
