import { Button, Modal, ModalBody, ModalFooter, ModalHeader, Stack, StackItem } from '@patternfly/react-core';
import { useMutation } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { ActionButton } from './ActionButton';
import { ActionError } from './States';

/** A question before an action that cannot be undone. It names what is affected, and stays open on an error. */

export interface ConfirmProps<T> {
  title: string;
  children: ReactNode;
  /** The verb: `Delete`, `Purge`, `Close`. */
  action: string;
  isDanger?: boolean;
  isDisabled?: boolean;
  run: () => Promise<T>;
  onDone?: (result: T) => void;
  onClose: () => void;
}

export function Confirm<T>(props: ConfirmProps<T>) {
  const { title, children, action, isDanger = true, isDisabled = false, run, onDone, onClose } = props;
  const running = useMutation({
    mutationFn: run,
    onSuccess: (result) => {
      onDone?.(result);
      onClose();
    },
  });
  return (
    <Modal isOpen variant="small" onClose={onClose} aria-label={title}>
      <ModalHeader title={title} {...(isDanger ? { titleIconVariant: 'warning' as const } : {})} />
      <ModalBody>
        <Stack hasGutter>
          <StackItem className="em-break">{children}</StackItem>
          {running.error ? (
            <StackItem>
              <ActionError error={running.error} title={`${action} failed`} />
            </StackItem>
          ) : null}
        </Stack>
      </ModalBody>
      <ModalFooter>
        <ActionButton
          variant={isDanger ? 'danger' : 'primary'}
          isLoading={running.isPending}
          isDisabled={running.isPending || isDisabled}
          onClick={() => {
            running.mutate();
          }}
        >
          {action}
        </ActionButton>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
}
