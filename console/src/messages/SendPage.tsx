import {
  ActionGroup,
  Alert,
  Button,
  Card,
  CardBody,
  CardTitle,
  Form,
  PageSection,
} from '@patternfly/react-core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { sendMessage } from '@/api/messages';
import { useAddress } from '@/addresses/AddressLayout';
import { ActionError } from '@/ui/States';
import { NumberField } from '@/ui/fields';
import { plural } from '@/ui/format';
import { MessageFields } from './MessageFields';
import { NEW_MESSAGE, bodyFault, outgoing } from './messageDraft';

/** Send a test message, with any property. */
export function SendPage() {
  const { address } = useAddress();
  const [draft, setDraft] = useState({ ...NEW_MESSAGE, body: 'hello' });
  const [copies, setCopies] = useState<number | undefined>(1);
  const sending = useMutation({ mutationFn: () => sendMessage(address, outgoing(draft), copies ?? 1) });
  const answer = sending.data;
  return (
    <PageSection isFilled>
      <Card isCompact>
        <CardTitle>Send a message</CardTitle>
        <CardBody>
          <Form
            isWidthLimited
            onSubmit={(event) => {
              event.preventDefault();
              sending.mutate();
            }}
          >
            <MessageFields
              draft={draft}
              set={(change) => {
                setDraft({ ...draft, ...change });
              }}
            />
            <NumberField label="How often" min={1} max={100} value={copies} onChange={setCopies} />
            {sending.error ? <ActionError error={sending.error} title="The message was not sent" /> : null}
            {answer ? (
              <Alert
                isInline
                isLiveRegion
                variant={answer.outcome === 'accepted' ? 'success' : 'warning'}
                title={
                  answer.outcome === 'accepted'
                    ? `${plural(answer.messages, 'message')} accepted.`
                    : `The address answered: ${answer.outcome}${answer.condition ? ` (${answer.condition})` : ''}`
                }
              >
                {answer.description}
              </Alert>
            ) : null}
            <ActionGroup>
              <Button
                type="submit"
                isLoading={sending.isPending}
                isDisabled={sending.isPending || bodyFault(draft) !== undefined}
              >
                Send
              </Button>
            </ActionGroup>
          </Form>
        </CardBody>
      </Card>
    </PageSection>
  );
}
