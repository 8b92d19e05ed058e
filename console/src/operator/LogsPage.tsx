import {
  Button,
  FormSelect,
  FormSelectOption,
  Label,
  PageSection,
  SearchInput,
  Toolbar,
  ToolbarContent,
  ToolbarItem,
  Switch,
} from '@patternfly/react-core';
import { useEffect, useRef, useState } from 'react';
import { messageOf } from '@/api/errors';
import { BASE } from '@/api/kinds';
import { DataTable, type Column } from '@/ui/DataTable';
import { Page } from '@/ui/Page';
import { Empty, Failure } from '@/ui/States';
import { followLines, textOf, type LogRecord } from './lines';

/** The latest records of the platform's log, as they are written. */

const SHOWN_MAX = 2_000;
const FLUSH_MS = 250;
const LEVELS = ['debug', 'info', 'warning', 'error', 'critical'];
const HEAD = new Set(['timestamp', 'level', 'event']);

interface Numbered {
  number: number;
  record: LogRecord;
}

const STATUS: Record<string, 'info' | 'warning' | 'danger'> = {
  info: 'info',
  warning: 'warning',
  error: 'danger',
  critical: 'danger',
};

function rest(record: LogRecord): string {
  return Object.entries(record)
    .filter(([name]) => !HEAD.has(name))
    .map(([name, value]) => `${name}=${textOf(value)}`)
    .join(' ');
}

const COLUMNS: Column<Numbered>[] = [
  {
    key: 'time',
    title: 'Time',
    width: 20,
    render: ({ record }) => (
      <code className="em-nowrap">{textOf(record.timestamp).replace('T', ' ').slice(0, 23)}</code>
    ),
  },
  {
    key: 'level',
    title: 'Level',
    width: 10,
    render: ({ record }) => {
      const status = STATUS[textOf(record.level)];
      return (
        <Label isCompact variant="outline" {...(status ? { status } : {})}>
          {textOf(record.level)}
        </Label>
      );
    },
  },
  {
    key: 'event',
    title: 'Event',
    width: 25,
    render: ({ record }) => <bdi className="em-break">{textOf(record.event)}</bdi>,
  },
  { key: 'rest', title: 'Details', render: ({ record }) => <bdi className="em-break">{rest(record)}</bdi> },
];

/** The last records, in batches: a burst of lines is one change of the page. */
function useRecords(isFollowing: boolean): { records: Numbered[]; error: string | null } {
  const [records, setRecords] = useState<Numbered[]>([]);
  const [error, setError] = useState<string | null>(null);
  const number = useRef(0);
  useEffect(() => {
    if (!isFollowing) return;
    const abort = new AbortController();
    let waiting: Numbered[] = [];
    const timer = setInterval(() => {
      if (waiting.length === 0) return;
      const batch = waiting;
      waiting = [];
      setRecords((before) => [...before, ...batch].slice(-SHOWN_MAX));
    }, FLUSH_MS);
    const take = (record: LogRecord) => {
      number.current += 1;
      waiting.push({ number: number.current, record });
    };
    followLines(
      `${BASE}/logs`,
      { tail: number.current === 0 ? SHOWN_MAX : 0, follow: true },
      take,
      abort.signal,
    ).catch((failure: unknown) => {
      if (!abort.signal.aborted) setError(messageOf(failure));
    });
    return () => {
      abort.abort();
      clearInterval(timer);
    };
  }, [isFollowing]);
  return { records, error };
}

export function LogsPage() {
  const [isFollowing, setIsFollowing] = useState(true);
  const [level, setLevel] = useState('debug');
  const [search, setSearch] = useState('');
  const { records, error } = useRecords(isFollowing);
  const needle = search.toLowerCase();
  const least = LEVELS.indexOf(level);
  const rows = records
    .filter(({ record }) => LEVELS.indexOf(textOf(record.level)) >= least)
    .filter(({ record }) => needle === '' || JSON.stringify(record).toLowerCase().includes(needle))
    .reverse();
  return (
    <Page title="Logs" subtitle="The latest 2,000 records, newest first, without secrets.">
      <PageSection isFilled>
        <Toolbar inset={{ default: 'insetNone' }}>
          <ToolbarContent alignItems="center">
            <ToolbarItem className="em-search">
              <SearchInput
                aria-label="Find in records"
                placeholder="Find in records"
                value={search}
                onChange={(_event, value) => {
                  setSearch(value);
                }}
                onClear={() => {
                  setSearch('');
                }}
              />
            </ToolbarItem>
            <ToolbarItem>
              <FormSelect
                aria-label="Lowest level"
                value={level}
                onChange={(_event, value) => {
                  setLevel(value);
                }}
              >
                {LEVELS.map((one) => (
                  <FormSelectOption key={one} value={one} label={`${one} and above`} />
                ))}
              </FormSelect>
            </ToolbarItem>
            <ToolbarItem>
              <Switch
                label="Follow"
                isChecked={isFollowing}
                onChange={(_event, value) => {
                  setIsFollowing(value);
                }}
              />
            </ToolbarItem>
          </ToolbarContent>
        </Toolbar>
        {error ? (
          <Failure error={new Error(error)} />
        ) : (
          <DataTable
            label="Log records"
            columns={COLUMNS}
            rows={rows}
            keyOf={({ number }) => String(number)}
            empty={
              <Empty
                title={records.length === 0 ? 'No records yet' : 'Nothing matches'}
                action={
                  records.length === 0 ? null : (
                    <Button
                      variant="link"
                      onClick={() => {
                        setSearch('');
                        setLevel('debug');
                      }}
                    >
                      Clear the filters
                    </Button>
                  )
                }
              />
            }
          />
        )}
      </PageSection>
    </Page>
  );
}
