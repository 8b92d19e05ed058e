import { ActionGroup, Alert, Button, Form, Stack, StackItem } from '@patternfly/react-core';
import type { UseMutationResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { ApiError } from '@/api/errors';
import type { Check } from '@/api/write';
import { ActionButton } from './ActionButton';
import { ActionError } from './States';
import { FaultsProvider, type FormFaults } from './fields';

/** Forms whose document the platform checks while it is filled in: a step of a wizard, and one that is saved. */

const ALL: readonly string[] = [''];

export interface CheckedStepProps {
  check: Check;
  /** Beginnings of the paths whose fields are on this step: they say themselves what is wrong with them. */
  onStep?: readonly string[];
  touched?: FormFaults['touched'];
  children: ReactNode;
}

function isOnStep(field: string, onStep: readonly string[]): boolean {
  return onStep.some((path) => field.startsWith(path));
}

/** One step of a wizard, below what the platform says of the fields on other steps. */
export function CheckedStep({ check, onStep = [], touched = 'all', children }: CheckedStepProps) {
  const { error } = check;
  const isElsewhere =
    error !== null &&
    (error.isQuota ||
      error.causes.length === 0 ||
      !error.causes.every(({ field }) => isOnStep(field, onStep)));
  return (
    <FaultsProvider value={{ error, touched }}>
      <Stack hasGutter>
        {error?.reason === 'AlreadyExists' ? (
          <Alert isInline variant="warning" title={error.message} />
        ) : isElsewhere ? (
          <ActionError
            error={error}
            title={error.isQuota ? 'The quota is used up' : 'The platform would refuse this'}
          />
        ) : null}
        <StackItem>{children}</StackItem>
      </Stack>
    </FaultsProvider>
  );
}

export interface SaveFormProps {
  check: Check;
  save: UseMutationResult<unknown, Error, void>;
  /** Whether it may be saved now. */
  isReady: boolean;
  action: 'Create' | 'Save';
  leave: { title: string; run: () => void; isDisabled?: boolean };
  touched?: FormFaults['touched'];
  onSubmit?: () => void;
  /** Beginnings of the paths that have fields; absent: all. */
  fields?: readonly string[];
  isWidthLimited?: boolean;
  children: ReactNode;
}

/** A form that is saved as a whole, with what the platform says of what has no field. */
export function SaveForm(props: SaveFormProps) {
  const { check, save, touched = 'all', fields = ALL, leave } = props;
  const causes = check.error?.causes ?? [];
  const isUnsaid =
    check.error !== null && (causes.length === 0 || !causes.every(({ field }) => isOnStep(field, fields)));
  const isConflict = save.error instanceof ApiError && save.error.reason === 'Conflict';
  return (
    <FaultsProvider value={{ error: check.error, touched }}>
      <Form
        isWidthLimited={props.isWidthLimited ?? false}
        onSubmit={(event) => {
          event.preventDefault();
          props.onSubmit?.();
          save.mutate();
        }}
      >
        {props.children}
        {save.error ? (
          <ActionError error={save.error} title={isConflict ? 'It was changed meanwhile' : 'Not saved'} />
        ) : isUnsaid ? (
          <ActionError error={check.error} title="The platform would refuse this" />
        ) : null}
        <ActionGroup>
          <ActionButton
            type="submit"
            isDisabled={!props.isReady || save.isPending}
            isLoading={save.isPending}
          >
            {props.action}
          </ActionButton>
          <Button variant="link" isDisabled={leave.isDisabled ?? false} onClick={leave.run}>
            {leave.title}
          </Button>
        </ActionGroup>
      </Form>
    </FaultsProvider>
  );
}
