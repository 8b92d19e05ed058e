import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { request } from '@/api/http';
import { PipelineKind, resourcePath } from '@/api/kinds';

/** What the process that runs a pipeline reports of itself, every ten seconds. */

export interface Trouble {
  since?: string;
  message?: string;
}

export interface SourceState {
  source: string;
  messages?: number;
  readings?: number;
  quarantined?: number;
  late?: number;
  lagMessages?: number | null;
  lagSeconds?: number | null;
  written?: Record<string, number>;
  trouble?: Trouble | null;
}

export interface State {
  running: boolean;
  tables?: string;
  sources: SourceState[];
  gold?: { versionsBehind: number; lagSeconds: number; trouble: Trouble | null };
  devices?: number;
  online?: number;
  unknown?: number;
  incidents?: Record<string, number>;
  openIncidents?: number;
  alerts?: { sent: number; waiting: number; rejected: number };
  refusingAddresses?: Record<string, Trouble>;
}

export interface Report {
  time: string;
  report: State;
}

const REFRESH_MS = 5_000;

/** The report of a pipeline; 404 while no process sends one. */
export function usePipelineReport(namespace: string, name: string): UseQueryResult<Report> {
  return useQuery({
    queryKey: ['pipeline-report', namespace, name],
    queryFn: () => request<Report>('GET', resourcePath(PipelineKind, namespace, name, 'report')),
    refetchInterval: REFRESH_MS,
    retry: false,
  });
}

/** What fails in a pipeline now, with its title. */
export function failuresOf(state: State): [string, Trouble][] {
  return [
    ...state.sources.flatMap((one): [string, Trouble][] =>
      one.trouble ? [[`Source ${one.source}`, one.trouble]] : [],
    ),
    ...(state.gold?.trouble ? [['The windows (gold)', state.gold.trouble] as [string, Trouble]] : []),
    ...Object.entries(state.refusingAddresses ?? {}).map(([address, trouble]): [string, Trouble] => [
      `Alerts to ${address}`,
      trouble,
    ]),
  ];
}
