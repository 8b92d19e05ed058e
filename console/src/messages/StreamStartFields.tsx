import { Flex, FlexItem, FormSelect, FormSelectOption, TextInput } from '@patternfly/react-core';
import type { OperationRequest } from '@/api/messages';

/** Where reading of a stream begins: at an end, an offset or a time. */

export interface StreamStartDraft {
  by: 'first' | 'last' | 'offset' | 'time';
  offset: string;
  time: string;
  partition: string;
}

export const FROM_FIRST: StreamStartDraft = { by: 'first', offset: '0', time: '', partition: '' };

export function startOf(draft: StreamStartDraft): Pick<OperationRequest, 'from' | 'partition'> {
  const partition = draft.partition === '' ? {} : { partition: Number(draft.partition) };
  switch (draft.by) {
    case 'offset':
      return { from: { offset: Number(draft.offset) || 0 }, ...partition };
    case 'time':
      return { from: { time: new Date(draft.time || Date.now()).toISOString() }, ...partition };
    default:
      return { from: { position: draft.by }, ...partition };
  }
}

export interface StreamStartFieldsProps {
  draft: StreamStartDraft;
  partitions: number;
  onChange: (draft: StreamStartDraft) => void;
}

export function StreamStartFields({ draft, partitions, onChange }: StreamStartFieldsProps) {
  return (
    <Flex>
      <FlexItem>
        <FormSelect
          aria-label="Read from"
          value={draft.by}
          onChange={(_event, by) => {
            onChange({ ...draft, by: by as StreamStartDraft['by'] });
          }}
        >
          <FormSelectOption value="first" label="from the first message" />
          <FormSelectOption value="last" label="the last message" />
          <FormSelectOption value="offset" label="from an offset" />
          <FormSelectOption value="time" label="from a time" />
        </FormSelect>
      </FlexItem>
      {draft.by === 'offset' ? (
        <FlexItem>
          <TextInput
            aria-label="Offset"
            inputMode="numeric"
            value={draft.offset}
            onChange={(_event, offset) => {
              onChange({ ...draft, offset: offset.replace(/\D/g, '') });
            }}
          />
        </FlexItem>
      ) : null}
      {draft.by === 'time' ? (
        <FlexItem>
          <TextInput
            aria-label="Time"
            type="datetime-local"
            step="1"
            value={draft.time}
            onChange={(_event, time) => {
              onChange({ ...draft, time });
            }}
          />
        </FlexItem>
      ) : null}
      {partitions > 1 ? (
        <FlexItem>
          <FormSelect
            aria-label="Partition"
            value={draft.partition}
            onChange={(_event, partition) => {
              onChange({ ...draft, partition });
            }}
          >
            <FormSelectOption value="" label="all partitions" isDisabled={draft.by === 'offset'} />
            {Array.from({ length: partitions }, (_, index) => (
              <FormSelectOption key={index} value={String(index)} label={`partition ${String(index)}`} />
            ))}
          </FormSelect>
        </FlexItem>
      ) : null}
    </Flex>
  );
}
