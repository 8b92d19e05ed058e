import {
  Alert,
  Button,
  Content,
  Flex,
  FlexItem,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  Stack,
  StackItem,
  ToggleGroup,
  ToggleGroupItem,
} from '@patternfly/react-core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { messageOf } from '@/api/errors';
import { stringifyExact } from '@/api/exactJson';
import type { StoredMessage } from '@/api/messages';
import { Facts } from '@/ui/Facts';
import { bytes, moment } from '@/ui/format';
import { VIEWS, bodyText, suitableView, type View } from './body';

const VIEW_TITLES: Record<View, string> = { text: 'Text', json: 'JSON', cbor: 'CBOR', hex: 'Hex' };

function Body({ message }: { message: StoredMessage }) {
  const [view, setView] = useState<View>(() => suitableView(message));
  const shown = useQuery({
    queryKey: ['body', message.id ?? message.offset, message.enqueued, view],
    queryFn: () => bodyText(message, view),
    retry: false,
    gcTime: 0,
  });
  return (
    <Stack hasGutter>
      <StackItem>
        <Flex justifyContent={{ default: 'justifyContentSpaceBetween' }}>
          <FlexItem>
            <Content component="h3">Body</Content>
          </FlexItem>
          <FlexItem>
            <ToggleGroup aria-label="View of the body" isCompact>
              {VIEWS.map((one) => (
                <ToggleGroupItem
                  key={one}
                  text={VIEW_TITLES[one]}
                  isSelected={one === view}
                  onChange={() => {
                    setView(one);
                  }}
                />
              ))}
            </ToggleGroup>
          </FlexItem>
        </Flex>
      </StackItem>
      <StackItem>
        {shown.error ? (
          <Alert
            isInline
            isPlain
            variant="warning"
            title={`Not ${VIEW_TITLES[view]}: ${messageOf(shown.error)}`}
          />
        ) : (
          <pre className="em-body em-code" tabIndex={0} aria-label="Body of the message">
            <bdi>{shown.data}</bdi>
          </pre>
        )}
      </StackItem>
    </Stack>
  );
}

function Section({ title, values }: { title: string; values: Record<string, unknown> | undefined }) {
  const entries = Object.entries(values ?? {});
  if (entries.length === 0) return null;
  return (
    <StackItem>
      <Content component="h3">{title}</Content>
      <Facts
        of={entries.map(([name, value]) => [
          name,
          <bdi key={name} className="em-break">
            {typeof value === 'string' ? value : stringifyExact(value)}
          </bdi>,
        ])}
      />
    </StackItem>
  );
}

export function titleOf(message: StoredMessage): string {
  return message.offset === undefined
    ? `Message ${String(message.id ?? '')}`
    : `Offset ${String(message.offset)} of partition ${String(message.partition ?? 0)}`;
}

export interface MessageDetailProps {
  message: StoredMessage;
  /** Absent: its number or its position in the stream. */
  title?: string;
  onClose: () => void;
  /** Open the neighbour, if there is one. */
  onStep?: ((by: -1 | 1) => void) | undefined;
}

/** One message, whole. */
export function MessageDetail({ message, title = titleOf(message), onClose, onStep }: MessageDetailProps) {
  const content = message.message;
  return (
    <Modal isOpen variant="large" onClose={onClose} aria-label={title}>
      <ModalHeader title={<bdi className="em-break">{title}</bdi>} />
      <ModalBody tabIndex={0}>
        <Stack hasGutter>
          <StackItem>
            <Facts
              columns={3}
              of={[
                ['Stored', moment(message.enqueued)],
                ['Size', bytes(message.bytes)],
                message.state ? ['State', message.state] : null,
                message.attempts === undefined ? null : ['Delivery attempts', String(message.attempts)],
                message.due ? ['Due', moment(message.due)] : null,
                message.expires ? ['Expires', moment(message.expires)] : null,
              ]}
            />
          </StackItem>
          {content ? (
            <>
              <StackItem>
                <Body key={message.id ?? message.offset} message={message} />
              </StackItem>
              <Section title="Properties" values={content.properties} />
              <Section title="Application properties" values={content.applicationProperties} />
              <Section title="Annotations" values={content.annotations} />
              <Section title="Header" values={content.header} />
            </>
          ) : (
            <StackItem>
              <Alert
                isInline
                variant="info"
                title={
                  message.problem
                    ? 'The message cannot be decoded here'
                    : 'The message is too large to be shown here'
                }
              >
                {message.problem ? `${message.problem}. ` : ''}
                Receive it with a client
                {message.problem ? null : (
                  <>
                    , or with <code>enmasse receive</code>
                  </>
                )}
                .
              </Alert>
            </StackItem>
          )}
        </Stack>
      </ModalBody>
      <ModalFooter>
        <Button onClick={onClose}>Close</Button>
        {onStep ? (
          <>
            <Button
              variant="secondary"
              onClick={() => {
                onStep(-1);
              }}
            >
              Previous
            </Button>
            <Button
              variant="secondary"
              onClick={() => {
                onStep(1);
              }}
            >
              Next
            </Button>
          </>
        ) : null}
      </ModalFooter>
    </Modal>
  );
}
