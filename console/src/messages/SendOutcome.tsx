import { Alert } from '@patternfly/react-core';
import type { SendResult } from '@/api/messages';
import { ActionError } from '@/ui/States';
import { plural } from '@/ui/format';

/** What became of a message that was sent. */
export function SendOutcome({ error, answer }: { error: unknown; answer: SendResult | undefined }) {
  if (error) return <ActionError error={error} title="The message was not sent" />;
  if (!answer) return null;
  const isAccepted = answer.outcome === 'accepted';
  const condition = answer.condition ? ` (${answer.condition})` : '';
  return (
    <Alert
      isInline
      isLiveRegion
      variant={isAccepted ? 'success' : 'warning'}
      title={
        isAccepted
          ? `${plural(answer.messages, 'message')} accepted.`
          : `The address answered: ${answer.outcome}${condition}`
      }
    >
      {answer.description}
    </Alert>
  );
}
