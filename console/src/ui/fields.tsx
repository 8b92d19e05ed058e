import {
  Button,
  Checkbox,
  FormGroup,
  FormHelperText,
  FormSelect,
  FormSelectOption,
  HelperText,
  HelperTextItem,
  InputGroup,
  InputGroupItem,
  NumberInput,
  Popover,
  Switch,
  TextArea,
  TextInput,
} from '@patternfly/react-core';
import HelpIcon from '@patternfly/react-icons/dist/esm/icons/outlined-question-circle-icon';
import { createContext, useContext, useId, type ReactNode } from 'react';
import type { ApiError } from '@/api/errors';

/** Fields of forms. A field named by its path in the document shows what the platform says of that path. */

export interface FormFaults {
  error: ApiError | null;
  /** Paths that the person has filled in, with what is below them; the others are not marked before the end. */
  touched: ReadonlySet<string> | 'all';
}

const Faults = createContext<FormFaults>({ error: null, touched: 'all' });
export const FaultsProvider = Faults.Provider;

function covers(path: string, field: string): boolean {
  return field === path || field.startsWith(`${path}.`) || field.startsWith(`${path}[`);
}

/** What the platform says of a field and what is below it. */
export function faultOf(error: ApiError | null, path: string | undefined): string | undefined {
  if (!path) return undefined;
  return error?.causes.find((cause) => covers(path, cause.field))?.message;
}

function useFault(path: string | undefined): string | undefined {
  const { error, touched } = useContext(Faults);
  if (path && touched !== 'all' && ![...touched].some((one) => covers(one, path))) return undefined;
  return faultOf(error, path);
}

export interface FieldProps {
  label: string;
  /** The path in the document, such as `spec.address`. */
  path?: string;
  help?: ReactNode;
  /** One line below the field. */
  hint?: ReactNode;
  isRequired?: boolean;
}

function FieldGroup({ field, id, children }: { field: FieldProps; id: string; children: ReactNode }) {
  const fault = useFault(field.path);
  return (
    <FormGroup
      label={field.label}
      fieldId={id}
      isRequired={field.isRequired ?? false}
      {...(field.help
        ? {
            labelHelp: (
              <Popover bodyContent={field.help} headerContent={field.label}>
                <Button
                  variant="plain"
                  hasNoPadding
                  aria-label={`About ${field.label}`}
                  icon={<HelpIcon />}
                />
              </Popover>
            ),
          }
        : {})}
    >
      {children}
      {(fault ?? field.hint) ? (
        <FormHelperText>
          <HelperText>
            <HelperTextItem variant={fault ? 'error' : 'default'} id={`${id}-text`} className="em-break">
              {fault ?? field.hint}
            </HelperTextItem>
          </HelperText>
        </FormHelperText>
      ) : null}
    </FormGroup>
  );
}

interface ValueProps<T> extends FieldProps {
  value: T;
  onChange: (value: T) => void;
}

export interface TextFieldProps extends ValueProps<string> {
  type?: 'text' | 'password';
  placeholder?: string;
  isDisabled?: boolean;
  autoFocus?: boolean;
  rows?: number;
  isCode?: boolean;
}

export function TextField(props: TextFieldProps) {
  const id = useId();
  const fault = useFault(props.path);
  const common = {
    id,
    value: props.value,
    validated: fault ? ('error' as const) : ('default' as const),
    isRequired: props.isRequired ?? false,
    placeholder: props.placeholder ?? '',
    'aria-describedby': `${id}-text`,
    className: props.isCode ? 'em-code' : '',
    onChange: (_event: unknown, value: string) => {
      props.onChange(value);
    },
  };
  return (
    <FieldGroup field={props} id={id}>
      {props.rows ? (
        <TextArea {...common} rows={props.rows} resizeOrientation="vertical" spellCheck={false} />
      ) : (
        <TextInput
          {...common}
          type={props.type ?? 'text'}
          dir="auto"
          isDisabled={props.isDisabled ?? false}
          autoComplete="off"
          spellCheck={false}
          autoFocus={props.autoFocus ?? false}
        />
      )}
    </FieldGroup>
  );
}

export interface Option {
  value: string;
  title: string;
  isDisabled?: boolean;
}

export function SelectField(
  props: ValueProps<string> & { options: readonly Option[]; isDisabled?: boolean },
) {
  const id = useId();
  const fault = useFault(props.path);
  return (
    <FieldGroup field={props} id={id}>
      <FormSelect
        id={id}
        value={props.value}
        validated={fault ? 'error' : 'default'}
        isDisabled={props.isDisabled ?? false}
        aria-describedby={`${id}-text`}
        onChange={(_event, value) => {
          props.onChange(value);
        }}
      >
        {props.options.map((option) => (
          <FormSelectOption
            key={option.value}
            value={option.value}
            label={option.title}
            isDisabled={option.isDisabled ?? false}
          />
        ))}
      </FormSelect>
    </FieldGroup>
  );
}

/** A whole number, or none. */
export function NumberField(
  props: ValueProps<number | undefined> & { min?: number; max?: number; unit?: string },
) {
  const id = useId();
  const { value, onChange, min = 0, max } = props;
  const step = (by: number) => {
    onChange(Math.max(min, (value ?? min) + by));
  };
  return (
    <FieldGroup field={props} id={id}>
      <NumberInput
        inputName={id}
        inputProps={{ id, placeholder: 'none' }}
        inputAriaLabel={props.label}
        {...(value === undefined ? {} : { value })}
        min={min}
        {...(max === undefined ? {} : { max })}
        {...(props.unit ? { unit: props.unit } : {})}
        onMinus={() => {
          step(-1);
        }}
        onPlus={() => {
          step(1);
        }}
        onChange={(event) => {
          const text = event.currentTarget.value;
          onChange(text === '' ? undefined : Number(text));
        }}
        minusBtnAriaLabel={`Less ${props.label}`}
        plusBtnAriaLabel={`More ${props.label}`}
      />
    </FieldGroup>
  );
}

/** A quantity with a unit, or none: `7d`, `64MiB`. The platform reads the text as it is. */
export function QuantityField(
  props: ValueProps<string | undefined> & { units: readonly { unit: string; title: string }[] },
) {
  const id = useId();
  const text = props.value ?? '';
  const [, amount = '', unit = ''] = /^([\d.]*)\s*(.*)$/.exec(text) ?? [];
  const chosen = unit || (props.units[0]?.unit ?? '');
  const fault = useFault(props.path);
  const put = (nextAmount: string, nextUnit: string) => {
    props.onChange(nextAmount === '' ? undefined : `${nextAmount}${nextUnit}`);
  };
  return (
    <FieldGroup field={props} id={id}>
      <InputGroup>
        <InputGroupItem isFill>
          <TextInput
            id={id}
            inputMode="decimal"
            value={amount}
            placeholder="none"
            validated={fault ? 'error' : 'default'}
            aria-describedby={`${id}-text`}
            onChange={(_event, value) => {
              put(value.replace(/[^\d.]/g, ''), chosen);
            }}
          />
        </InputGroupItem>
        <InputGroupItem className="em-unit">
          <FormSelect
            aria-label={`Unit of ${props.label}`}
            value={chosen}
            onChange={(_event, value) => {
              put(amount, value);
            }}
          >
            {props.units.map((one) => (
              <FormSelectOption key={one.unit} value={one.unit} label={one.title} />
            ))}
          </FormSelect>
        </InputGroupItem>
      </InputGroup>
    </FieldGroup>
  );
}

export const DURATIONS = [
  { unit: 's', title: 'seconds' },
  { unit: 'm', title: 'minutes' },
  { unit: 'h', title: 'hours' },
  { unit: 'd', title: 'days' },
] as const;

export const SIZES = [
  { unit: 'KiB', title: 'KiB' },
  { unit: 'MiB', title: 'MiB' },
  { unit: 'GiB', title: 'GiB' },
] as const;

export function SwitchField(props: ValueProps<boolean>) {
  const id = useId();
  return (
    <FieldGroup field={{ ...props, label: '' }} id={id}>
      <Switch
        id={id}
        label={props.label}
        isChecked={props.value}
        onChange={(_event, value) => {
          props.onChange(value);
        }}
      />
    </FieldGroup>
  );
}

export function CheckField(props: ValueProps<boolean> & { isDisabled?: boolean }) {
  const id = useId();
  return (
    <Checkbox
      id={id}
      label={props.label}
      description={props.hint}
      isChecked={props.value}
      isDisabled={props.isDisabled ?? false}
      onChange={(_event, value) => {
        props.onChange(value);
      }}
    />
  );
}
