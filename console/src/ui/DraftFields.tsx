import { Grid, GridItem } from '@patternfly/react-core';
import type { ReactNode } from 'react';
import {
  DURATIONS,
  NumberField,
  QuantityField,
  SIZES,
  SelectField,
  SwitchField,
  TextField,
  type Option,
  type TextFieldProps,
} from './fields';

/** Fields of a form as a list: each names the member of the draft that it edits. */

interface Common<Draft> {
  field: keyof Draft;
  label: string;
  /** The path in the document, for what the platform says of it. */
  path?: string;
  hint?: ReactNode;
  isRequired?: boolean;
  /** Whether it has a line of its own; a switch always has. */
  isWide?: boolean;
  /** Absent: the field is shown. */
  isShown?: boolean;
}

type TextOptions = Pick<TextFieldProps, 'placeholder' | 'isDisabled' | 'autoFocus' | 'rows' | 'isCode'>;

export type FieldSpec<Draft> = Common<Draft> &
  (
    | ({ kind: 'text' } & TextOptions)
    | { kind: 'duration' | 'size' | 'switch' }
    | { kind: 'number'; min?: number; max?: number }
    | { kind: 'select'; options: readonly Option[] }
  );

export interface DraftFieldsProps<Draft> {
  draft: Draft;
  set: (change: Partial<Draft>) => void;
  of: readonly FieldSpec<Draft>[];
}

function Field<Draft>({
  spec,
  draft,
  set,
}: { spec: FieldSpec<Draft> } & Omit<DraftFieldsProps<Draft>, 'of'>) {
  const { label, hint, isRequired = false } = spec;
  const common = { label, hint, isRequired, ...(spec.path ? { path: spec.path } : {}) };
  // The kind of a field is that of the member, which the list states once.
  const value = draft[spec.field];
  const onChange = (next: unknown) => {
    set({ [spec.field]: next } as Partial<Draft>);
  };
  switch (spec.kind) {
    case 'text': {
      const { kind: _kind, field: _field, isWide: _isWide, isShown: _isShown, ...text } = spec;
      return <TextField {...text} {...common} value={value as string} onChange={onChange} />;
    }
    case 'switch':
      return <SwitchField {...common} value={value as boolean} onChange={onChange} />;
    case 'select':
      return <SelectField {...common} value={value as string} onChange={onChange} options={spec.options} />;
    case 'number':
      return (
        <NumberField
          {...common}
          value={value as number | undefined}
          onChange={onChange}
          {...(spec.min === undefined ? {} : { min: spec.min })}
          {...(spec.max === undefined ? {} : { max: spec.max })}
        />
      );
    default:
      return (
        <QuantityField
          {...common}
          units={spec.kind === 'size' ? SIZES : DURATIONS}
          value={value as string | undefined}
          onChange={onChange}
        />
      );
  }
}

/** The fields in two columns; a switch has a line of its own. */
export function DraftFields<Draft>({ draft, set, of }: DraftFieldsProps<Draft>) {
  return (
    <Grid hasGutter>
      {of
        .filter(({ isShown }) => isShown !== false)
        .map((spec) => (
          <GridItem
            key={String(spec.field)}
            span={12}
            {...(spec.kind === 'switch' || spec.isWide ? {} : { md: 6 as const })}
          >
            <Field spec={spec} draft={draft} set={set} />
          </GridItem>
        ))}
    </Grid>
  );
}
