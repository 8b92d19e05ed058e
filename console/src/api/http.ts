import { reportLost, reportReached } from './connectivity';
import { Unreachable, errorOf } from './errors';
import { parseExact, stringifyExact } from './exactJson';

/** Every request of the console goes through `request`: it knows the session and translates errors once. */

/** Input of the person within this time makes a request count as activity of the session. */
const ACTIVE_MS = 10_000;
const GATEWAY_ERRORS = [502, 504];

export type Query = Record<string, string | number | boolean | readonly string[] | undefined>;

export interface RequestOptions {
  query?: Query;
  body?: unknown;
  /** The media type of `body`, which is sent as it is unless this is JSON. */
  type?: string;
  accept?: string;
  /** Whether large integers of the answer matter: those of messages. */
  isExact?: boolean;
  signal?: AbortSignal | undefined;
}

let csrf = '';
let lastInput = Date.now();
let onSessionEnd: () => void = () => undefined;

/** Set what the session needs in each request, and what follows its end. */
export function bindSession(token: string, ended: () => void): void {
  csrf = token;
  onSessionEnd = ended;
}

export function noteInput(): void {
  lastInput = Date.now();
}

/** A path with its query; parameters without a value are excluded, lists are repeated. */
export function withQuery(path: string, query: Query = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === '') continue;
    for (const one of Array.isArray(value) ? value : [value]) parameters.append(name, String(one));
  }
  const text = parameters.toString();
  return text ? `${path}?${text}` : path;
}

function headersOf(method: string, options: RequestOptions): Headers {
  const headers = new Headers({ Accept: options.accept ?? 'application/json' });
  if (options.body !== undefined) headers.set('Content-Type', options.type ?? 'application/json');
  if (method !== 'GET' && csrf) headers.set('X-CSRF-Token', csrf);
  // A request that a timer starts does not prolong the session of an absent person.
  if (Date.now() - lastInput > ACTIVE_MS) headers.set('X-Background', '1');
  return headers;
}

/** Send one request and return its successful response. Throws ApiError or Unreachable. */
export async function send(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
  const isJson = !options.type || options.type.endsWith('json');
  const body =
    options.body === undefined ? null : isJson ? stringifyExact(options.body) : (options.body as string);
  let response: Response;
  try {
    response = await fetch(withQuery(path, options.query), {
      method,
      body,
      headers: headersOf(method, options),
      credentials: 'same-origin',
      cache: 'no-store',
      signal: options.signal ?? null,
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    reportLost();
    throw new Unreachable();
  }
  if (GATEWAY_ERRORS.includes(response.status) && !response.headers.get('content-type')?.includes('json')) {
    reportLost();
    throw new Unreachable();
  }
  reportReached();
  if (response.ok) return response;
  const error = errorOf(response.status, await response.text());
  if (response.status === 401 && !path.startsWith('/console/session')) onSessionEnd();
  throw error;
}

/** Send one request and return the JSON of its answer. */
export async function request<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
  const response = await send(method, path, options);
  if (response.status === 204) return undefined as T;
  return (options.isExact ? parseExact(await response.text()) : await response.json()) as T;
}
