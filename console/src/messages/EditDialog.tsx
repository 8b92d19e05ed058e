import {
  Alert,
  Button,
  Content,
  Form,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
} from '@patternfly/react-core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { firstMessage, operate, type DeadLetterGroup, type StoredMessage } from '@/api/messages';
import type { Address } from '@/api/types';
import { ActionButton } from '@/ui/ActionButton';
import { ActionError, Empty, Loading } from '@/ui/States';
import { MessageFields } from './MessageFields';
import { bodyFault, draftOf, outgoing } from './messageDraft';

/** Correct one dead letter and send it back in one step: it leaves only when its origin has accepted it. */

export interface EditDialogProps {
  address: Address;
  group: DeadLetterGroup;
  onClose: () => void;
}

type EditorProps = EditDialogProps & { stored: StoredMessage };

function Editor({ address, stored, group, onClose }: EditorProps) {
  const [draft, setDraft] = useState(() => draftOf(stored));
  const redrive = useMutation({
    mutationFn: () => operate(address, 'redrive', { id: stored.id ?? 0, edit: { message: outgoing(draft) } }),
  });
  return (
    <>
      <ModalBody tabIndex={0}>
        <Content component="p">
          Message {stored.id} goes back to <bdi>{group.origin}</bdi> as it is written here.
        </Content>
        <Form>
          <MessageFields
            draft={draft}
            set={(change) => {
              setDraft({ ...draft, ...change });
            }}
          />
        </Form>
        {redrive.error ? <ActionError error={redrive.error} title="The message was not sent back" /> : null}
        {redrive.isSuccess ? <Alert isInline variant="success" title="The message was sent back." /> : null}
      </ModalBody>
      <ModalFooter>
        {redrive.isSuccess ? (
          <ActionButton onClick={onClose}>Close</ActionButton>
        ) : (
          <>
            <ActionButton
              isLoading={redrive.isPending}
              isDisabled={redrive.isPending || bodyFault(draft) !== undefined}
              onClick={() => {
                redrive.mutate();
              }}
            >
              Redrive
            </ActionButton>
            <Button variant="link" onClick={onClose}>
              Cancel
            </Button>
          </>
        )}
      </ModalFooter>
    </>
  );
}

export function EditDialog(props: EditDialogProps) {
  const { address, group, onClose } = props;
  const first = useQuery({
    queryKey: ['first-of-group', address.metadata.uid, group.filter],
    queryFn: () => firstMessage(address, { filter: group.filter }),
    gcTime: 0,
    retry: false,
  });
  const stored = first.data;
  return (
    <Modal isOpen variant="medium" onClose={onClose} aria-label="Edit and redrive">
      <ModalHeader title="Edit and redrive" />
      {stored?.message ? (
        <Editor {...props} stored={stored} />
      ) : (
        <ModalBody>
          {first.isPending ? <Loading /> : null}
          {first.error ? <ActionError error={first.error} title="The message could not be read" /> : null}
          {first.isSuccess ? (
            <Empty title="No message can be edited">
              The messages of this group are gone, held by a consumer, larger than 64 KiB, cannot be decoded,
              or were not found in time.
            </Empty>
          ) : null}
        </ModalBody>
      )}
    </Modal>
  );
}
