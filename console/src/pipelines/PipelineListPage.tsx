import { PageSection } from '@patternfly/react-core';
import StreamIcon from '@patternfly/react-icons/dist/esm/icons/project-diagram-icon';
import { PipelineKind } from '@/api/kinds';
import { useList } from '@/api/list';
import type { Pipeline } from '@/api/types';
import { useSession } from '@/app/session';
import { Code } from '@/ui/Code';
import { DataTable, NoMatch, type Column } from '@/ui/DataTable';
import { ListToolbar, Pages } from '@/ui/ListToolbar';
import { Age } from '@/ui/Moment';
import { Name } from '@/ui/Name';
import { Page } from '@/ui/Page';
import { Empty } from '@/ui/States';
import { count } from '@/ui/format';
import { arrange, useListState } from '@/ui/listState';
import { PipelinePhase } from './PipelinePhase';

/** Declared pipelines. The platform keeps them; `enmasse pipeline run` runs them, on Spark. */

export function pipelinePath(namespace: string, name: string): string {
  return `/pipelines/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

const COLUMNS: Column<Pipeline>[] = [
  {
    key: 'name',
    title: 'Name',
    isSortable: true,
    render: (one) => (
      <Name to={pipelinePath(one.metadata.namespace ?? '', one.metadata.name)}>{one.metadata.name}</Name>
    ),
  },
  { key: 'namespace', title: 'Namespace', isSortable: true, render: (one) => one.metadata.namespace },
  {
    key: 'phase',
    title: 'Status',
    render: (one) => <PipelinePhase pipeline={one} />,
  },
  {
    key: 'sources',
    title: 'Sources',
    render: (one) => one.spec.sources.map((source) => source.address).join(', '),
  },
  {
    key: 'detectors',
    title: 'Detectors',
    isNumeric: true,
    render: (one) => count(one.spec.detectors?.length ?? 0),
  },
  {
    key: 'created',
    title: 'Age',
    isSortable: true,
    render: (one) => <Age of={one.metadata.creationTimestamp} />,
  },
];

function valueOf(one: Pipeline, key: string): string {
  if (key === 'namespace') return one.metadata.namespace ?? '';
  if (key === 'created') return one.metadata.creationTimestamp ?? '';
  return one.metadata.name;
}

export function PipelineListPage() {
  const { may } = useSession();
  const control = useListState('name', ['namespace']);
  const namespace = control.filters.namespace ?? (may.readAll ? undefined : may.namespaces[0]);
  const list = useList<Pipeline>(PipelineKind, { namespace, query: { limit: 1000 } });
  const needle = control.search.toLowerCase();
  const arranged = list.data
    ? arrange(list.data.items, control, (one) => one.metadata.name.includes(needle), valueOf)
    : undefined;
  return (
    <Page title="Pipelines" subtitle="From streams to tables, live state and alerts.">
      <PageSection isFilled>
        <ListToolbar
          control={control}
          total={arranged?.total}
          facets={[{ name: 'namespace', title: 'Namespace', options: may.namespaces }]}
        />
        <DataTable
          label="Pipelines"
          columns={COLUMNS}
          rows={arranged?.rows}
          keyOf={(one) => `${one.metadata.namespace ?? ''}/${one.metadata.name}`}
          sort={control.sort}
          onSort={(sort) => {
            control.set({ sort });
          }}
          error={list.error}
          retry={() => void list.refetch()}
          empty={
            control.isFiltered ? (
              <NoMatch clear={control.clear} />
            ) : (
              <Empty title="No pipelines declared" icon={StreamIcon}>
                A pipeline reads streams and writes tables and alerts. Declare one and run it:
                <Code
                  text={
                    'enmasse apply -f pipeline.yaml\nenmasse pipeline run -f pipeline.yaml --report NAMESPACE'
                  }
                />
              </Empty>
            )
          }
        />
        <Pages control={control} total={arranged?.total} />
      </PageSection>
    </Page>
  );
}
