import { send } from '@/api/http';
import { linesOf } from '@/api/watch';

/** Records of the log and of the audit trails: lines of JSON, the newest kept up to a bound. */

export type LogRecord = Record<string, unknown>;

export function parseLine(line: string): LogRecord {
  try {
    const parsed: unknown = JSON.parse(line);
    if (typeof parsed === 'object' && parsed !== null) return parsed as LogRecord;
  } catch {
    // A line that is no JSON is shown as it is.
  }
  return { event: line };
}

/** Follow a path of lines until `signal` aborts; at its end or an error the promise settles. */
export async function followLines(
  path: string,
  query: Record<string, string | number | boolean>,
  onRecord: (record: LogRecord) => void,
  signal: AbortSignal,
): Promise<void> {
  const response = await send('GET', path, { query, accept: 'application/x-ndjson', signal });
  if (!response.body) return;
  for await (const line of linesOf(response.body)) onRecord(parseLine(line));
}

export async function readLines(
  path: string,
  query: Record<string, string | number>,
  signal?: AbortSignal,
): Promise<LogRecord[]> {
  const response = await send('GET', path, { query, accept: 'application/x-ndjson', signal });
  return (await response.text()).split('\n').filter(Boolean).map(parseLine);
}

/** A value of a record as text. */
export function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
