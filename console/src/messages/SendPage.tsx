import { ActionGroup, Card, CardBody, CardTitle, Form, PageSection } from '@patternfly/react-core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { sendMessage } from '@/api/messages';
import { useAddress } from '@/addresses/AddressLayout';
import { ActionButton } from '@/ui/ActionButton';
import { NumberField } from '@/ui/fields';
import { MessageFields } from './MessageFields';
import { SendOutcome } from './SendOutcome';
import { NEW_MESSAGE, bodyFault, outgoing } from './messageDraft';

/** Send a test message, with any property. */
export function SendPage() {
  const { address } = useAddress();
  const [draft, setDraft] = useState({ ...NEW_MESSAGE, body: 'hello' });
  const [copies, setCopies] = useState<number | undefined>(1);
  const sending = useMutation({ mutationFn: () => sendMessage(address, outgoing(draft), copies ?? 1) });
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
            <SendOutcome error={sending.error} answer={sending.data} />
            <ActionGroup>
              <ActionButton
                type="submit"
                isLoading={sending.isPending}
                isDisabled={sending.isPending || bodyFault(draft) !== undefined}
              >
                Send
              </ActionButton>
            </ActionGroup>
          </Form>
        </CardBody>
      </Card>
    </PageSection>
  );
}
