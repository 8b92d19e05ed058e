import {
  Button,
  ExpandableSection,
  FormGroup,
  Grid,
  GridItem,
  Split,
  SplitItem,
  TextInput,
} from '@patternfly/react-core';
import MinusIcon from '@patternfly/react-icons/dist/esm/icons/minus-circle-icon';
import { DraftFields, type FieldSpec } from '@/ui/DraftFields';
import { ItemList } from '@/ui/ItemList';
import { bodyFault, type MessageDraft, type NamedValue } from './messageDraft';

/** The fields of a message that a person writes. */

/** Properties and header, in the order of the standard (AMQP 1.0, 3.2). */
const MORE: FieldSpec<MessageDraft>[] = [
  { kind: 'text', field: 'messageId', label: 'Message id' },
  { kind: 'text', field: 'correlationId', label: 'Correlation id' },
  { kind: 'text', field: 'contentType', label: 'Content type' },
  { kind: 'text', field: 'contentEncoding', label: 'Content encoding' },
  { kind: 'text', field: 'to', label: 'To' },
  { kind: 'text', field: 'replyTo', label: 'Reply to' },
  { kind: 'text', field: 'groupId', label: 'Group id' },
  { kind: 'number', field: 'priority', label: 'Priority', max: 9 },
  { kind: 'number', field: 'ttl', label: 'Time to live, in milliseconds' },
  { kind: 'switch', field: 'durable', label: 'Durable' },
];

export interface MessageFieldsProps {
  draft: MessageDraft;
  set: (change: Partial<MessageDraft>) => void;
}

interface NamedValuesProps {
  title: string;
  values: readonly NamedValue[];
  onChange: (values: NamedValue[]) => void;
}

function NamedValues({ title, values, onChange }: NamedValuesProps) {
  return (
    <FormGroup label={title} role="group">
      <ItemList
        items={values}
        onChange={onChange}
        addTitle={`Add to ${title.toLowerCase()}`}
        newItem={() => ({ name: '', value: '' })}
        render={(one, index, { set, remove }) => (
          <Split hasGutter>
            <SplitItem isFilled>
              <TextInput
                aria-label={`Name ${String(index + 1)} of ${title}`}
                placeholder="name"
                value={one.name}
                onChange={(_event, name) => {
                  set({ name });
                }}
              />
            </SplitItem>
            <SplitItem isFilled>
              <TextInput
                aria-label={`Value ${String(index + 1)} of ${title}`}
                placeholder={'text, 5, true or "5"'}
                value={one.value}
                onChange={(_event, value) => {
                  set({ value });
                }}
              />
            </SplitItem>
            <SplitItem>
              <Button
                variant="plain"
                aria-label={`Remove ${one.name || 'this one'}`}
                icon={<MinusIcon />}
                onClick={remove}
              />
            </SplitItem>
          </Split>
        )}
      />
    </FormGroup>
  );
}

function contentFields(draft: MessageDraft): FieldSpec<MessageDraft>[] {
  const fault = bodyFault(draft);
  return [
    {
      kind: 'text',
      field: 'body',
      label: 'Body',
      rows: 8,
      isCode: true,
      isWide: true,
      isShown: draft.encoding !== 'none',
      hint: fault && draft.body !== '' ? `The body ${fault}.` : undefined,
    },
    {
      kind: 'select',
      field: 'encoding',
      label: 'The body is',
      options: [
        { value: 'text', title: 'text' },
        { value: 'data', title: 'text, sent as data' },
        { value: 'json', title: 'JSON, sent as data' },
        { value: 'value', title: 'JSON, sent as an AMQP value' },
        { value: 'base64', title: 'base64, sent as data' },
        { value: 'none', title: 'absent' },
      ],
    },
    { kind: 'text', field: 'subject', label: 'Subject' },
  ];
}

export function MessageFields({ draft, set }: MessageFieldsProps) {
  return (
    <>
      <DraftFields draft={draft} set={set} of={contentFields(draft)} />
      <NamedValues
        title="Application properties"
        values={draft.properties}
        onChange={(properties) => {
          set({ properties });
        }}
      />
      <ExpandableSection toggleText="More properties" isIndented>
        <Grid hasGutter md={6}>
          <GridItem span={12}>
            <DraftFields draft={draft} set={set} of={MORE} />
          </GridItem>
          <GridItem span={12}>
            <NamedValues
              title="Annotations"
              values={draft.annotations}
              onChange={(annotations) => {
                set({ annotations });
              }}
            />
          </GridItem>
        </Grid>
      </ExpandableSection>
    </>
  );
}
