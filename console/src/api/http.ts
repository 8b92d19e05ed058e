import { reportLost, reportReached } from './connectivity';
import { ApiError, Unreachable, errorOf } from './errors';
import { parseExact, stringifyExact } from './exactJson';

/** Every request of the console goes through `request`: it knows the session and translates errors once. */

/** Input of the person within this time makes a request count as activity of the session. */
const ACTIVE_MS = 10_000;
const GATEWAY_ERRORS = [502, 504];
const CSRF_TOKEN_REQUIRED = 'E2006';

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

export interface SessionBinding {
  /** Sent with each write. */
  csrf: string;
  /** What follows the end of the session. */
  onEnd: () => void;
  /**
   * Take over the session of another tab, whose login replaced the cookie of all tabs. Returns whether it is of the
   * same user.
   */
  renew: () => Promise<boolean>;
}

export const NO_SESSION: SessionBinding = {
  csrf: '',
  onEnd: () => undefined,
  renew: () => Promise.resolve(false),
};

let session = NO_SESSION;
let lastInput = Date.now();

/** Set what requests need of the session. */
export function bindSession(binding: SessionBinding): void {
  session = binding;
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
  if (method !== 'GET' && session.csrf) headers.set('X-CSRF-Token', session.csrf);
  // A request that a timer starts does not prolong the session of an absent person.
  if (Date.now() - lastInput > ACTIVE_MS) headers.set('X-Background', '1');
  return headers;
}

/**
 * Send one request and return its successful response. Throws ApiError or Unreachable.
 *
 * A write that was refused because another tab has logged in since is sent again, unless it would then be done as
 * another user.
 */
export async function send(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
  try {
    return await sendOnce(method, path, options);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== CSRF_TOKEN_REQUIRED) throw error;
    if (!(await session.renew()))
      throw new ApiError(
        403,
        'Another account has logged in in this browser. Check the name at the top, then try again.',
      );
    return await sendOnce(method, path, options);
  }
}

async function sendOnce(method: string, path: string, options: RequestOptions): Promise<Response> {
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
  if (response.status === 401 && !path.startsWith('/console/session')) session.onEnd();
  throw error;
}

/** Send one request and return the JSON of its answer. */
export async function request<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
  const response = await send(method, path, options);
  if (response.status === 204) return undefined as T;
  return (options.isExact ? parseExact(await response.text()) : await response.json()) as T;
}
