import { Alert, Content, Label, Stack, StackItem } from '@patternfly/react-core';
import type { UseQueryResult } from '@tanstack/react-query';
import { ApiError } from '@/api/errors';
import { Code } from '@/ui/Code';
import { DataTable, type Column } from '@/ui/DataTable';
import { DetailCard } from '@/ui/DetailPage';
import { Facts } from '@/ui/Facts';
import { ActionError } from '@/ui/States';
import { NONE, count, duration, exact, moment } from '@/ui/format';
import { failuresOf, type Report, type SourceState } from './report';

/** What the process that runs a pipeline reports of itself, as a page shows it. */

const orNone = (value: number | null | undefined) => (typeof value === 'number' ? exact(value) : NONE);

const SOURCES: Column<SourceState>[] = [
  { key: 'source', title: 'Source', render: (one) => one.source },
  {
    key: 'state',
    title: 'State',
    render: (one) =>
      one.trouble ? (
        <Label isCompact status="danger">
          fails
        </Label>
      ) : (
        <Label isCompact status="success">
          reads
        </Label>
      ),
  },
  { key: 'lag', title: 'Unread', isNumeric: true, render: (one) => orNone(one.lagMessages) },
  {
    key: 'age',
    title: 'Behind',
    isNumeric: true,
    render: (one) => (typeof one.lagSeconds === 'number' ? duration(one.lagSeconds) : NONE),
  },
  { key: 'messages', title: 'Messages', isNumeric: true, render: (one) => orNone(one.messages) },
  { key: 'readings', title: 'Readings', isNumeric: true, render: (one) => orNone(one.readings) },
  { key: 'quarantined', title: 'Quarantined', isNumeric: true, render: (one) => orNone(one.quarantined) },
  {
    key: 'written',
    title: 'Rows written',
    render: (one) =>
      Object.entries(one.written ?? {})
        .map(([table, rows]) => `${table} ${exact(rows)}`)
        .join(', ') || NONE,
  },
];

function Reported({ time, report: state }: Report) {
  const incidents = Object.entries(state.incidents ?? {});
  return (
    <Stack hasGutter>
      {failuresOf(state).map(([title, trouble]) => (
        <StackItem key={title}>
          <Alert isInline variant="danger" title={`${title} failed`}>
            <Content component="p" className="em-break">
              {trouble.message ?? JSON.stringify(trouble)}
            </Content>
          </Alert>
        </StackItem>
      ))}
      <StackItem>
        <Facts
          columns={3}
          of={[
            ['Reported', moment(time)],
            ['Devices', `${orNone(state.devices)}, ${orNone(state.online)} online`],
            ['Open incidents', orNone(state.openIncidents)],
            [
              'Incidents by detector',
              incidents.map(([detector, found]) => `${detector} ${count(found)}`).join(', ') || NONE,
            ],
            state.alerts
              ? [
                  'Alerts',
                  `${exact(state.alerts.sent)} sent, ${exact(state.alerts.waiting)} waiting, ${exact(state.alerts.rejected)} rejected`,
                ]
              : null,
            state.gold
              ? [
                  'Windows behind',
                  `${exact(state.gold.versionsBehind)} versions, ${duration(state.gold.lagSeconds)}`,
                ]
              : null,
            [
              'Tables',
              <bdi key="tables" className="em-break">
                {state.tables ?? ''}
              </bdi>,
            ],
          ]}
        />
      </StackItem>
      <StackItem>
        <DataTable
          label="State of the sources"
          columns={SOURCES}
          rows={state.sources}
          keyOf={(one) => one.source}
          empty={<Content component="small">No source has read anything yet.</Content>}
        />
      </StackItem>
    </Stack>
  );
}

/** Lag, tables, devices, incidents and alerts of a pipeline that runs now. */
export function PipelineState({
  namespace,
  name,
  found,
}: {
  namespace: string;
  name: string;
  found: UseQueryResult<Report>;
}) {
  const isSilent = found.error instanceof ApiError && found.error.isMissing;
  return (
    <DetailCard title="State">
      {isSilent ? (
        <>
          <Content component="p">
            No running process reports. A pipeline runs where Spark is; with <code>--report</code> its state
            is shown here:
          </Content>
          <Code
            text={`enmasse get pipeline ${name} --namespace ${namespace} -o yaml > pipeline.yaml\nenmasse pipeline run -f pipeline.yaml --report ${namespace}`}
          />
        </>
      ) : found.error ? (
        <ActionError error={found.error} title="The state is not known" />
      ) : found.data ? (
        <Reported {...found.data} />
      ) : null}
    </DetailCard>
  );
}
