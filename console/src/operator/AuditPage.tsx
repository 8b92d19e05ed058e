import { FormSelect, FormSelectOption, Label, PageSection } from '@patternfly/react-core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { BASE } from '@/api/kinds';
import { DataTable, NoMatch, type Column } from '@/ui/DataTable';
import { ListToolbar, Pages } from '@/ui/ListToolbar';
import { Age } from '@/ui/Moment';
import { Page } from '@/ui/Page';
import { Empty } from '@/ui/States';
import { NONE } from '@/ui/format';
import { arrange, useListState } from '@/ui/listState';
import { readLines, textOf, type LogRecord } from './lines';

/** Who asked for what, and how it was decided. */

const TAIL = 5_000;
const REFRESH_MS = 5_000;
const KNOWN = new Set([
  'time',
  'who',
  'as',
  'from',
  'verb',
  'resource',
  'subresource',
  'namespace',
  'name',
  'decision',
  'status',
  'group',
  'event',
  'path',
  'agent',
]);

function what(record: LogRecord): string {
  const part = [record.resource, record.subresource].filter(Boolean).map(textOf).join('/');
  const name = [record.namespace, record.name].filter(Boolean).map(textOf).join('/');
  return [textOf(record.verb ?? record.event), part || textOf(record.path), name].filter(Boolean).join(' ');
}

function rest(record: LogRecord): string {
  return Object.entries(record)
    .filter(([name]) => !KNOWN.has(name))
    .map(([name, value]) => `${name}=${textOf(value)}`)
    .join(' ');
}

function who(record: LogRecord): string {
  return record.as ? `${textOf(record.who)} as ${textOf(record.as)}` : textOf(record.who ?? record.user);
}

const COLUMNS: Column<LogRecord>[] = [
  {
    key: 'time',
    title: 'When',
    isSortable: true,
    width: 10,
    render: (record) => <Age of={textOf(record.time)} />,
  },
  {
    key: 'who',
    title: 'Who',
    isSortable: true,
    width: 15,
    render: (record) => <bdi className="em-break">{who(record)}</bdi>,
  },
  { key: 'from', title: 'From', isSortable: true, render: (record) => textOf(record.from ?? record.peer) },
  {
    key: 'what',
    title: 'What',
    isSortable: true,
    width: 30,
    render: (record) => <bdi className="em-break">{what(record)}</bdi>,
  },
  {
    key: 'decision',
    title: 'Decision',
    isSortable: true,
    render: (record) => {
      const decision = textOf(record.decision ?? (record.reason ? 'refused' : 'allowed'));
      return (
        <Label isCompact variant="outline" status={decision === 'allowed' ? 'success' : 'danger'}>
          {decision}
        </Label>
      );
    },
  },
  {
    key: 'rest',
    title: 'Details',
    render: (record) => <bdi className="em-break">{rest(record) || NONE}</bdi>,
  },
];

function valueOf(record: LogRecord, key: string): string {
  if (key === 'who') return who(record);
  if (key === 'what') return what(record);
  return textOf(record[key]);
}

export function AuditPage() {
  const control = useListState('-time', ['decision']);
  const [of, setOf] = useState('requests');
  const found = useQuery({
    queryKey: ['audit', of],
    queryFn: ({ signal }) => readLines(`${BASE}/audit`, { tail: TAIL, of }, signal),
    refetchInterval: REFRESH_MS,
  });
  const needle = control.search.toLowerCase();
  const { decision } = control.filters;
  const arranged = found.data
    ? arrange(
        found.data,
        control,
        (record) =>
          (!decision || textOf(record.decision) === decision) &&
          (needle === '' || JSON.stringify(record).toLowerCase().includes(needle)),
        valueOf,
      )
    : undefined;
  return (
    <Page
      title="Audit"
      subtitle="Every write, every read of confidential data, every refusal, without contents."
      actions={
        <FormSelect
          aria-label="Trail"
          value={of}
          onChange={(_event, value) => {
            setOf(value);
          }}
        >
          <FormSelectOption value="requests" label="Requests to the API" />
          <FormSelectOption value="logins" label="Logins of messaging clients" />
        </FormSelect>
      }
    >
      <PageSection isFilled>
        <ListToolbar
          control={control}
          total={arranged?.total}
          placeholder="Find in records"
          facets={[{ name: 'decision', title: 'Decision', options: ['allowed', 'refused', 'failed'] }]}
        />
        <DataTable
          label="Audit records"
          columns={COLUMNS}
          rows={arranged?.rows}
          keyOf={(record) => JSON.stringify(record)}
          sort={control.sort}
          onSort={(sort) => {
            control.set({ sort });
          }}
          error={found.error}
          retry={() => void found.refetch()}
          empty={
            control.isFiltered ? (
              <NoMatch clear={control.clear} />
            ) : (
              <Empty title="No records yet">The trail begins with the first write.</Empty>
            )
          }
        />
        <Pages control={control} total={arranged?.total} />
      </PageSection>
    </Page>
  );
}
