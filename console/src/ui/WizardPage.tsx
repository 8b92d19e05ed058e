import {
  PageSection,
  Wizard,
  WizardFooterWrapper,
  WizardStep,
  Button,
  ActionList,
  ActionListItem,
  ActionListGroup,
  useWizardContext,
} from '@patternfly/react-core';
import { useMutation } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { useNavigate } from 'react-router';
import { ActionButton } from './ActionButton';
import { Page, type Crumb } from './Page';
import { ActionError } from './States';

/** The one form of creating things in steps: each step says when it is complete, the last one shows the result. */

export interface Step {
  id: string;
  title: string;
  content: ReactNode;
  /** Whether the person may go on. */
  isComplete: boolean;
}

export interface WizardPageProps {
  title: string;
  subtitle?: string;
  crumbs: readonly Crumb[];
  steps: readonly Step[];
  /** The verb on the last button. */
  action?: string;
  cancelTo: string;
  /** Whether the platform is being asked about what was filled in last. */
  isChecking: boolean;
  run: () => Promise<unknown>;
  onDone: () => void;
}

function Footer({
  page,
  running,
}: {
  page: WizardPageProps;
  running: { isPending: boolean; start: () => void };
}) {
  const { activeStep, goToNextStep, goToPrevStep } = useWizardContext();
  const navigate = useNavigate();
  const index = page.steps.findIndex((step) => step.id === activeStep.id);
  const isLast = index === page.steps.length - 1;
  const isBlocked = page.isChecking || !(page.steps[index]?.isComplete ?? false) || running.isPending;
  return (
    <WizardFooterWrapper>
      <ActionList>
        <ActionListGroup>
          <ActionListItem>
            <Button variant="secondary" isDisabled={index === 0} onClick={() => void goToPrevStep()}>
              Back
            </Button>
          </ActionListItem>
          <ActionListItem>
            <ActionButton
              isDisabled={isBlocked}
              isLoading={running.isPending}
              onClick={() => {
                if (isLast) running.start();
                else void goToNextStep();
              }}
            >
              {isLast ? (page.action ?? 'Create') : 'Next'}
            </ActionButton>
          </ActionListItem>
        </ActionListGroup>
        <ActionListGroup>
          <ActionListItem>
            <Button variant="link" onClick={() => void navigate(page.cancelTo)}>
              Cancel
            </Button>
          </ActionListItem>
        </ActionListGroup>
      </ActionList>
    </WizardFooterWrapper>
  );
}

/**
 * Name the button that shows the steps of a narrow wizard by its text, the step. PatternFly names it "Wizard toggle"
 * and has no property for it, so a person who speaks what is on the screen could not press it (WCAG 2.5.3).
 */
function nameToggle(wizard: HTMLElement | null): void {
  wizard?.querySelector('.pf-v6-c-wizard__toggle')?.removeAttribute('aria-label');
}

export function WizardPage(page: WizardPageProps) {
  const creation = useMutation({ mutationFn: page.run, onSuccess: page.onDone });
  const running = {
    isPending: creation.isPending,
    start: () => {
      creation.mutate();
    },
  };
  return (
    <Page title={page.title} subtitle={page.subtitle} crumbs={page.crumbs}>
      <PageSection isFilled padding={{ default: 'noPadding' }} type="wizard">
        <div ref={nameToggle} className="em-fill">
          <Wizard
            isVisitRequired
            footer={<Footer page={page} running={running} />}
            navAriaLabel={`Steps: ${page.title}`}
          >
            {page.steps.map((step, index) => (
              <WizardStep
                key={step.id}
                id={step.id}
                name={step.title}
                isDisabled={page.steps.slice(0, index).some((before) => !before.isComplete)}
              >
                {step.content}
                {index === page.steps.length - 1 && creation.error ? (
                  <ActionError error={creation.error} title={`${page.action ?? 'Create'} failed`} />
                ) : null}
              </WizardStep>
            ))}
          </Wizard>
        </div>
      </PageSection>
    </Page>
  );
}
