import { Label } from '@patternfly/react-core';
import type { UseQueryResult } from '@tanstack/react-query';
import type { Pipeline } from '@/api/types';
import { PhaseLabel } from '@/ui/States';
import { failuresOf, usePipelineReport, type Report, type State } from './report';

/** What a pipeline that runs reports of itself; undefined for one that does not run. */
export function runningState({ isSuccess, data }: UseQueryResult<Report>): State | undefined {
  return isSuccess && data.report.running ? data.report : undefined;
}

/**
 * The state of a pipeline, the same in the list and on its page. The platform runs no pipelines, so the phase of
 * one is always Pending: a report says more.
 */
export function PipelinePhase({ pipeline: { metadata, status } }: { pipeline: Pipeline }) {
  const state = runningState(usePipelineReport(metadata.namespace ?? '', metadata.name));
  if (!state) return <PhaseLabel phase={status?.phase} isReady={status?.isReady ?? false} />;
  const isFailing = failuresOf(state).length > 0;
  return (
    <Label isCompact variant="outline" status={isFailing ? 'danger' : 'success'}>
      {isFailing ? 'Failing' : 'Running'}
    </Label>
  );
}
