import {
  Alert,
  Button,
  Content,
  Form,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  Progress,
  Spinner,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { AddressKind } from '@/api/kinds';
import { useList } from '@/api/list';
import { operateAll, type Operation, type Selection } from '@/api/messages';
import type { Address } from '@/api/types';
import { spaceOf } from '@/spaces/paths';
import { ActionButton } from '@/ui/ActionButton';
import { ActionError } from '@/ui/States';
import { SelectField } from '@/ui/fields';
import { exact, plural } from '@/ui/format';

/** Move, copy, purge or redrive a selection: first a dry run, then slices with progress. */

export interface Transfer {
  action: Extract<Operation, 'move' | 'copy' | 'purge' | 'redrive'>;
  selection: Selection;
}

const WORDS: Record<Transfer['action'], { title: string; verb: string; done: string; text: string }> = {
  move: {
    title: 'Move messages',
    verb: 'Move',
    done: 'moved',
    text: 'They leave this address and keep their properties.',
  },
  copy: {
    title: 'Copy messages',
    verb: 'Copy',
    done: 'copied',
    text: 'They stay here, and the copies keep their properties.',
  },
  purge: {
    title: 'Purge messages',
    verb: 'Purge',
    done: 'purged',
    text: 'They are lost. This cannot be undone.',
  },
  redrive: {
    title: 'Redrive dead letters',
    verb: 'Redrive',
    done: 'sent back',
    text: 'Each returns to the address that gave it up, with new attempts.',
  },
};

const TARGETS_MAX = 500;

/** Queues and topics of the space, without the source. */
function useTargets(address: Address, isNeeded: boolean): string[] {
  const { namespace = '', name } = address.metadata;
  const select = `metadata.space=${spaceOf(name)}`;
  const list = useList<Address>(AddressKind, {
    namespace,
    query: { fieldSelector: select, limit: TARGETS_MAX },
    enabled: isNeeded,
  });
  return (list.data?.items ?? [])
    .filter((one) => ['queue', 'topic'].includes(one.spec.type) && one.metadata.name !== name)
    .map((one) => one.spec.address)
    .sort();
}

export interface TransferDialogProps {
  address: Address;
  transfer: Transfer;
  onClose: () => void;
}

export function TransferDialog({ address, transfer, onClose }: TransferDialogProps) {
  const { action, selection } = transfer;
  const expression = selection.selector ?? selection.filter;
  const words = WORDS[action];
  const needsTarget = action === 'move' || action === 'copy';
  const targets = useTargets(address, needsTarget);
  const [to, setTo] = useState('');
  const [progress, setProgress] = useState(0);
  const abort = useRef(new AbortController());
  const dryRun = useQuery({
    queryKey: ['dry-run', 'messages', address.metadata.uid, action, selection],
    // A dry run of purge counts what each of these operations would take.
    queryFn: () =>
      operateAll(address, action === 'redrive' ? 'redrive' : 'purge', { ...selection, dryRun: true }),
    gcTime: 0,
    retry: false,
  });
  const total = dryRun.data;
  const running = useMutation({
    mutationFn: () =>
      operateAll(
        address,
        action,
        { ...selection, ...(needsTarget ? { to } : {}) },
        setProgress,
        abort.current.signal,
      ),
  });
  const isRunning = running.isPending;
  const close = () => {
    abort.current.abort();
    onClose();
  };
  return (
    <Modal isOpen variant="small" onClose={close} aria-label={words.title}>
      <ModalHeader
        title={words.title}
        {...(action === 'purge' ? { titleIconVariant: 'warning' as const } : {})}
      />
      <ModalBody>
        <Stack hasGutter>
          <StackItem>
            {dryRun.isPending ? (
              <>
                <Spinner size="sm" aria-label="Counting messages" /> Counting …
              </>
            ) : dryRun.error ? (
              <ActionError error={dryRun.error} title="The messages could not be counted" />
            ) : (
              <Content component="p">
                <strong>{exact(total ?? 0)}</strong> {total === 1 ? 'message' : 'messages'}
                {expression ? (
                  <>
                    {' '}
                    that match <code className="em-break">{expression}</code>
                  </>
                ) : null}
                . {words.text}
              </Content>
            )}
          </StackItem>
          {needsTarget && !running.isSuccess ? (
            <StackItem>
              <Form>
                <SelectField
                  label="To"
                  value={to}
                  onChange={setTo}
                  isDisabled={isRunning}
                  options={[
                    {
                      value: '',
                      title:
                        targets.length > 0 ? 'Choose an address' : 'The space has no other queue or topic',
                    },
                    ...targets.map((name) => ({ value: name, title: name })),
                  ]}
                />
              </Form>
            </StackItem>
          ) : null}
          {isRunning ? (
            <StackItem>
              <Progress
                aria-label="Progress"
                value={total ? Math.min(100, (progress / total) * 100) : 0}
                title={`${exact(progress)} of ${exact(total ?? 0)}`}
              />
            </StackItem>
          ) : null}
          {running.error ? (
            <StackItem>
              <ActionError error={running.error} title={`Stopped after ${plural(progress, 'message')}`} />
            </StackItem>
          ) : null}
          {running.isSuccess ? (
            <StackItem>
              <Alert isInline variant="success" title={`${plural(running.data, 'message')} ${words.done}.`} />
            </StackItem>
          ) : null}
        </Stack>
      </ModalBody>
      <ModalFooter>
        {running.isSuccess ? (
          <ActionButton onClick={close}>Close</ActionButton>
        ) : (
          <>
            <ActionButton
              variant={action === 'purge' ? 'danger' : 'primary'}
              isLoading={isRunning}
              isDisabled={isRunning || !total || (needsTarget && to === '')}
              onClick={() => {
                running.mutate();
              }}
            >
              {words.verb}
            </ActionButton>
            <Button variant="link" onClick={close}>
              {isRunning ? 'Stop' : 'Cancel'}
            </Button>
          </>
        )}
      </ModalFooter>
    </Modal>
  );
}
