import {
  Alert,
  AlertActionLink,
  Bullseye,
  Button,
  Content,
  EmptyState,
  EmptyStateActions,
  EmptyStateBody,
  EmptyStateFooter,
  Label,
  Skeleton,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import CheckCircleIcon from '@patternfly/react-icons/dist/esm/icons/check-circle-icon';
import ExclamationCircleIcon from '@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon';
import ExclamationTriangleIcon from '@patternfly/react-icons/dist/esm/icons/exclamation-triangle-icon';
import InProgressIcon from '@patternfly/react-icons/dist/esm/icons/in-progress-icon';
import LockIcon from '@patternfly/react-icons/dist/esm/icons/lock-icon';
import SearchIcon from '@patternfly/react-icons/dist/esm/icons/search-icon';
import TrashIcon from '@patternfly/react-icons/dist/esm/icons/trash-icon';
import type { ComponentType, ReactNode } from 'react';
import { ApiError, Unreachable, messageOf } from '@/api/errors';

/** The states that every page has: loading, empty, failed, gone; and the phase of a resource. */

const PHASES: Record<string, { status?: 'success' | 'warning' | 'danger' | 'info'; icon: ComponentType }> = {
  Active: { status: 'success', icon: CheckCircleIcon },
  Configuring: { status: 'info', icon: InProgressIcon },
  Pending: { status: 'warning', icon: ExclamationTriangleIcon },
  Failed: { status: 'danger', icon: ExclamationCircleIcon },
  Terminating: { icon: TrashIcon },
};

/** The phase as a label; `isReady` false in phase Active is worth a warning. */
export function PhaseLabel({ phase, isReady = true }: { phase: string | undefined; isReady?: boolean }) {
  const name = phase ?? 'Pending';
  const known = PHASES[name] ?? PHASES.Pending;
  const shown = name === 'Active' && !isReady ? PHASES.Pending : known;
  const Icon = shown?.icon ?? InProgressIcon;
  return (
    <Label isCompact variant="outline" {...(shown?.status ? { status: shown.status } : {})} icon={<Icon />}>
      {name}
    </Label>
  );
}

export function Loading({ lines = 5, label = 'Loading' }: { lines?: number; label?: string }) {
  return (
    <Stack hasGutter aria-busy="true">
      {Array.from({ length: lines }, (_, line) => (
        <StackItem key={line}>
          <Skeleton
            width={`${String(95 - ((line * 17) % 40))}%`}
            screenreaderText={line === 0 ? label : ''}
          />
        </StackItem>
      ))}
    </Stack>
  );
}

export interface EmptyProps {
  title: string;
  children?: ReactNode;
  icon?: ComponentType;
  action?: ReactNode;
  secondary?: ReactNode;
}

/** What there is to do where there is nothing yet. */
export function Empty({ title, children, icon = SearchIcon, action, secondary }: EmptyProps) {
  return (
    <EmptyState titleText={title} headingLevel="h2" icon={icon} variant="lg">
      {children ? <EmptyStateBody>{children}</EmptyStateBody> : null}
      {action || secondary ? (
        <EmptyStateFooter>
          {action ? <EmptyStateActions>{action}</EmptyStateActions> : null}
          {secondary ? <EmptyStateActions>{secondary}</EmptyStateActions> : null}
        </EmptyStateFooter>
      ) : null}
    </EmptyState>
  );
}

function titleOf(error: unknown): string {
  if (error instanceof Unreachable) return 'The platform does not answer';
  if (error instanceof ApiError && error.isForbidden) return 'You have no right to see this';
  if (error instanceof ApiError && error.isMissing) return 'This does not exist any more';
  return 'This could not be loaded';
}

/** A page or table whose content could not be fetched: why, and what to do. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const isForbidden = error instanceof ApiError && error.isForbidden;
  return (
    <Bullseye>
      <EmptyState
        titleText={titleOf(error)}
        headingLevel="h2"
        icon={isForbidden ? LockIcon : ExclamationCircleIcon}
        status={isForbidden ? 'warning' : 'danger'}
      >
        <EmptyStateBody className="em-break">{messageOf(error)}</EmptyStateBody>
        {retry && !isForbidden ? (
          <EmptyStateFooter>
            <EmptyStateActions>
              <Button variant="primary" onClick={retry}>
                Try again
              </Button>
            </EmptyStateActions>
          </EmptyStateFooter>
        ) : null}
      </EmptyState>
    </Bullseye>
  );
}

/** An error of an action, beside the form or dialog that asked for it. */
export function ActionError({ error, title, retry }: { error: unknown; title: string; retry?: () => void }) {
  if (!error) return null;
  const causes = error instanceof ApiError ? error.causes : [];
  const isListed = causes.length > 1;
  return (
    <Alert
      isInline
      variant={error instanceof ApiError && error.status < 500 ? 'warning' : 'danger'}
      title={title}
      actionLinks={retry ? <AlertActionLink onClick={retry}>Try again</AlertActionLink> : null}
    >
      {isListed ? (
        <ul>
          {causes.map((cause) => (
            <li key={`${cause.field}${cause.message}`} className="em-break">
              <strong>{cause.field}</strong> {cause.message}
            </li>
          ))}
        </ul>
      ) : (
        <Content component="p" className="em-break">
          {messageOf(error)}
        </Content>
      )}
    </Alert>
  );
}
