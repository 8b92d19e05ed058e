import { Content } from '@patternfly/react-core';
import { useParams } from 'react-router';
import { PipelineKind } from '@/api/kinds';
import { useResource } from '@/api/list';
import type { Pipeline } from '@/api/types';
import { Conditions } from '@/spaces/conditions';
import { Code } from '@/ui/Code';
import { DataTable, type Column } from '@/ui/DataTable';
import { DetailCard, DetailPage } from '@/ui/DetailPage';
import { Name } from '@/ui/Name';
import { yamlOf } from '@/ui/preview';
import { PipelinePhase, runningState } from './PipelinePhase';
import { PipelineState } from './PipelineState';
import { usePipelineReport } from './report';

type Source = Pipeline['spec']['sources'][number];
type Detector = NonNullable<Pipeline['spec']['detectors']>[number];

const SOURCES: Column<Source>[] = [
  { key: 'name', title: 'Source', render: (source) => source.name },
  { key: 'address', title: 'Address', render: (source) => <Name>{source.address}</Name> },
  { key: 'url', title: 'Server', render: (source) => <code>{source.url}</code> },
  { key: 'format', title: 'Format', render: (source) => source.format },
];

const DETECTORS: Column<Detector>[] = [
  { key: 'name', title: 'Detector', render: (detector) => detector.name },
  {
    key: 'metric',
    title: 'Metric',
    render: (detector) => ('metric' in detector ? String(detector.metric ?? 'device') : 'device'),
  },
  {
    key: 'source',
    title: 'Source',
    render: (detector) => ('source' in detector ? String(detector.source ?? 'all') : 'all'),
  },
];

/** One declared pipeline: what it reads and detects, and how to run it. */
export function PipelinePage() {
  const { namespace = '', pipeline: name = '' } = useParams();
  const found = useResource<Pipeline>(PipelineKind, namespace, name);
  const report = usePipelineReport(namespace, name);
  return (
    <DetailPage
      found={found}
      title={name}
      labels={(pipeline) => <PipelinePhase pipeline={pipeline} />}
      subtitle={() => `Pipeline · namespace ${namespace}`}
      crumbs={[{ title: 'Pipelines', to: '/pipelines' }, { title: name }]}
    >
      {(pipeline) => (
        <>
          {runningState(report) ? null : <Conditions of={pipeline.status?.conditions} />}
          <PipelineState namespace={namespace} name={name} found={report} />
          <DetailCard title="Sources">
            <DataTable
              label="Sources"
              columns={SOURCES}
              rows={pipeline.spec.sources}
              keyOf={(source) => source.name}
              empty={null}
            />
          </DetailCard>
          <DetailCard title="Detectors">
            <DataTable
              label="Detectors"
              columns={DETECTORS}
              rows={pipeline.spec.detectors ?? []}
              keyOf={(detector) => detector.name}
              empty={<Content component="small">None: the pipeline only writes tables.</Content>}
            />
          </DetailCard>
          <DetailCard title="Document">
            <Code
              text={yamlOf({
                apiVersion: 'enmasse.io/v1beta1',
                kind: 'Pipeline',
                metadata: { name, namespace },
                spec: pipeline.spec,
              })}
            />
          </DetailCard>
        </>
      )}
    </DetailPage>
  );
}
