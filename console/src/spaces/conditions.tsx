import { Alert, AlertGroup, Content } from '@patternfly/react-core';
import type { Condition } from '@/api/types';
import { Age } from '@/ui/Moment';

/** Conditions in words. The platform's message has the cause and the remedy; a title says what it means. */

const TITLES: Record<string, string> = {
  Ready: 'Not ready',
  MessagesIntact: 'Messages were lost on disk',
  Sending: 'Clients cannot send',
  CertificateProvided: 'The certificate of an endpoint is not the one asked for',
  EndpointsExposed: 'An endpoint is not reachable as declared',
  Exported: 'An export is missing',
  NetworkPolicyEnforced: 'The network policy has no effect',
  ConnectorsReady: 'Connectors have no effect',
  ForwardersReady: 'Forwarders have no effect',
  ProviderLinked: 'The identity provider has no effect',
  AllFieldsServed: 'Some fields have no effect',
};

/** Conditions that say that something declared is not implemented: worth a note, not a warning. */
const NOTES = new Set([
  'NetworkPolicyEnforced',
  'ConnectorsReady',
  'ForwardersReady',
  'ProviderLinked',
  'AllFieldsServed',
]);

export function Conditions({ of }: { of: readonly Condition[] | undefined }) {
  const unmet = (of ?? []).filter((condition) => condition.status === 'False');
  if (unmet.length === 0) return null;
  return (
    <AlertGroup>
      {unmet.map((condition) => (
        <Alert
          key={condition.type}
          isInline
          variant={NOTES.has(condition.type) ? 'info' : 'warning'}
          title={`${TITLES[condition.type] ?? condition.type}${condition.reason ? ` (${condition.reason})` : ''}`}
        >
          <Content component="p" className="em-break">
            {condition.message ?? 'The platform gives no reason.'}
          </Content>
          <Content component="small">
            For <Age of={condition.lastTransitionTime} />
          </Content>
        </Alert>
      ))}
    </AlertGroup>
  );
}
