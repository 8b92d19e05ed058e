import { ExpandableSection, FormSection, Grid, GridItem } from '@patternfly/react-core';
import type { ReactNode } from 'react';
import {
  DURATIONS,
  NumberField,
  QuantityField,
  SIZES,
  SelectField,
  SwitchField,
  TextField,
} from '@/ui/fields';
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

function Half({ children }: { children: ReactNode }) {
  return (
    <GridItem md={6} span={12}>
      {children}
    </GridItem>
  );
}

function Part({ title, text, children }: { title: string; text?: string; children: ReactNode }) {
  return (
    <ExpandableSection toggleText={text ? `${title} – ${text}` : title} isIndented>
      <Grid hasGutter>{children}</Grid>
    </ExpandableSection>
  );
}

function options(names: readonly string[]) {
  return [{ value: '', title: 'None' }, ...names.map((name) => ({ value: name, title: name }))];
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
      {draft.isStream ? (
        <Grid hasGutter>
          <Half>
            <QuantityField
              label="Keep messages for"
              path="spec.retention.age"
              units={DURATIONS}
              value={draft.retentionAge}
              onChange={(retentionAge) => {
                set({ retentionAge });
              }}
            />
          </Half>
          <Half>
            <QuantityField
              label="Keep at most, in each partition"
              path="spec.retention.bytes"
              units={SIZES}
              value={draft.retentionBytes}
              onChange={(retentionBytes) => {
                set({ retentionBytes });
              }}
            />
          </Half>
          <Half>
            <NumberField
              label="Partitions"
              path="spec.partitions"
              min={1}
              value={draft.partitions}
              onChange={(partitions) => {
                set({ partitions });
              }}
              hint="Order holds within a partition. The number can only grow."
            />
          </Half>
        </Grid>
      ) : null}
    </FormSection>
  );
}

function Redelivery({ draft, set, deadletters }: AddressFieldsProps) {
  return (
    <Part title="Failed deliveries" text="attempts, delays, dead letters">
      <Half>
        <SelectField
          label="Dead letters go to"
          path="spec.deadletter"
          value={draft.deadletter}
          options={options(deadletters)}
          onChange={(deadletter) => {
            set({ deadletter });
          }}
          hint={deadletters.length === 0 ? 'The space has no address of type deadletter yet.' : undefined}
        />
      </Half>
      <Half>
        <SelectField
          label="Expired messages go to"
          path="spec.expiry"
          value={draft.expiry}
          options={options(deadletters)}
          onChange={(expiry) => {
            set({ expiry });
          }}
        />
      </Half>
      <Half>
        <NumberField
          label="Delivery attempts"
          path="spec.messageRedelivery.maximumDeliveryAttempts"
          min={-1}
          value={draft.attempts}
          onChange={(attempts) => {
            set({ attempts });
          }}
          hint="-1: without a limit"
        />
      </Half>
      <Half>
        <QuantityField
          label="Delay before the second attempt"
          path="spec.messageRedelivery.redeliveryDelay"
          units={DURATIONS}
          value={draft.delay}
          onChange={(delay) => {
            set({ delay });
          }}
        />
      </Half>
      <Half>
        <NumberField
          label="Each delay is so many times the one before"
          path="spec.messageRedelivery.redeliveryDelayMultiplier"
          min={1}
          value={draft.delayMultiplier}
          onChange={(delayMultiplier) => {
            set({ delayMultiplier });
          }}
        />
      </Half>
      <Half>
        <QuantityField
          label="Longest delay"
          path="spec.messageRedelivery.maximumDeliveryDelay"
          units={DURATIONS}
          value={draft.delayMaximum}
          onChange={(delayMaximum) => {
            set({ delayMaximum });
          }}
        />
      </Half>
      <GridItem>
        <SwitchField
          label="A rejected message stays and counts as a failed delivery"
          path="spec.treatRejectAsUnmodifiedDeliveryFailed"
          value={draft.keepsRejected}
          onChange={(keepsRejected) => {
            set({ keepsRejected });
          }}
        />
      </GridItem>
    </Part>
  );
}

function Limits({ draft, set, has }: AddressFieldsProps & { has: (feature: Feature) => boolean }) {
  return (
    <Part title="Limits" text="what it holds, who uses it">
      {has('storedLimits') ? (
        <>
          <Half>
            <NumberField
              label="Stored messages"
              path="spec.limits.messages"
              value={draft.limitMessages}
              onChange={(limitMessages) => {
                set({ limitMessages });
              }}
            />
          </Half>
          <Half>
            <QuantityField
              label="Stored bytes"
              path="spec.limits.bytes"
              units={SIZES}
              value={draft.limitBytes}
              onChange={(limitBytes) => {
                set({ limitBytes });
              }}
            />
          </Half>
          <Half>
            <SelectField
              label="When it is full"
              path="spec.limits.onFull"
              value={draft.onFull}
              onChange={(onFull) => {
                set({ onFull: onFull as AddressDraft['onFull'] });
              }}
              options={[
                { value: '', title: 'The default of the plan' },
                { value: 'block', title: 'Producers wait', isDisabled: draft.type === 'deadletter' },
                { value: 'reject', title: 'Messages are rejected', isDisabled: draft.type === 'deadletter' },
                { value: 'dropOldest', title: 'The oldest message is dropped' },
              ]}
            />
          </Half>
        </>
      ) : null}
      {has('messageSize') ? (
        <Half>
          <QuantityField
            label="Size of a message"
            path="spec.limits.messageSize"
            units={SIZES}
            value={draft.limitMessageSize}
            onChange={(limitMessageSize) => {
              set({ limitMessageSize });
            }}
          />
        </Half>
      ) : null}
      {has('consumers') ? (
        <Half>
          <NumberField
            label="Consumers"
            path="spec.limits.consumers"
            min={1}
            value={draft.limitConsumers}
            onChange={(limitConsumers) => {
              set({ limitConsumers });
            }}
          />
        </Half>
      ) : null}
      {has('producers') ? (
        <Half>
          <NumberField
            label="Producers"
            path="spec.limits.producers"
            min={1}
            value={draft.limitProducers}
            onChange={(limitProducers) => {
              set({ limitProducers });
            }}
          />
        </Half>
      ) : null}
    </Part>
  );
}

function Ordering({ draft, set }: AddressFieldsProps) {
  return (
    <Part title="Order of consumers" text="groups, one active consumer, last values">
      <Half>
        <SelectField
          label="Messages with the same group-id"
          path="spec.groups"
          value={draft.groups}
          onChange={(groups) => {
            set({ groups: groups as AddressDraft['groups'] });
          }}
          options={[
            { value: '', title: 'The default' },
            { value: 'none', title: 'are not treated apart' },
            { value: 'sticky', title: 'go to the same consumer' },
            { value: 'perKey', title: 'keep their order only' },
          ]}
        />
      </Half>
      <Half>
        <TextField
          label="Last value key"
          path="spec.lastValueKey"
          value={draft.lastValueKey}
          onChange={(lastValueKey) => {
            set({ lastValueKey });
          }}
          hint="An application property: only the newest message of each value is kept."
        />
      </Half>
      <GridItem>
        <SwitchField
          label="One consumer at a time; the others wait to take over"
          path="spec.singleActiveConsumer"
          value={draft.singleActiveConsumer}
          onChange={(singleActiveConsumer) => {
            set({ singleActiveConsumer });
          }}
        />
      </GridItem>
    </Part>
  );
}

export function AddressFields(props: AddressFieldsProps) {
  const { draft, set, isNew } = props;
  const has = (feature: Feature) => supports(draft.type, draft.isStream, feature);
  const hasLimits = has('storedLimits') || has('messageSize') || has('consumers') || has('producers');
  return (
    <>
      {has('maxConsumers') && isNew ? (
        <NumberField
          label="Consumers at the same time"
          path="spec.subscription.maxConsumers"
          min={1}
          value={draft.maxConsumers}
          onChange={(maxConsumers) => {
            set({ maxConsumers });
          }}
          hint="1 by default; cannot change later."
        />
      ) : null}
      <Stream {...props} />
      {has('messageTtl') ? (
        <Grid hasGutter>
          <Half>
            <QuantityField
              label="Longest time to live"
              path="spec.messageTtl.maximum"
              units={DURATIONS}
              value={draft.ttlMaximum}
              onChange={(ttlMaximum) => {
                set({ ttlMaximum });
              }}
              hint="Also that of messages without one."
            />
          </Half>
          <Half>
            <QuantityField
              label="Shortest time to live"
              path="spec.messageTtl.minimum"
              units={DURATIONS}
              value={draft.ttlMinimum}
              onChange={(ttlMinimum) => {
                set({ ttlMinimum });
              }}
            />
          </Half>
        </Grid>
      ) : null}
      {has('durability') && isNew ? (
        <SelectField
          label="Accepted messages are"
          path="spec.durability"
          value={draft.durability}
          onChange={(durability) => {
            set({ durability: durability as AddressDraft['durability'] });
          }}
          options={[
            { value: '', title: 'on disk before they are accepted (default)' },
            { value: 'memory', title: 'in memory only: faster, lost with the process' },
          ]}
        />
      ) : null}
      {has('redelivery') && has('deadletter') ? <Redelivery {...props} /> : null}
      {hasLimits ? <Limits {...props} has={has} /> : null}
      {has('groups') ? <Ordering {...props} /> : null}
      {has('duplicates') ? (
        <Part title="Duplicates" text="messages with an id that was seen">
          <Half>
            <NumberField
              label="Remembered ids"
              path="spec.duplicateDetection.ids"
              min={1}
              value={draft.duplicateIds}
              onChange={(duplicateIds) => {
                set({ duplicateIds });
              }}
            />
          </Half>
          <Half>
            <QuantityField
              label="Remembered for"
              path="spec.duplicateDetection.window"
              units={DURATIONS}
              value={draft.duplicateWindow}
              onChange={(duplicateWindow) => {
                set({ duplicateWindow });
              }}
            />
          </Half>
        </Part>
      ) : null}
    </>
  );
}
