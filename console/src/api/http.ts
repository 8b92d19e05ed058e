import { reportLost, reportReached } from './connectivity';
import { ApiError, Unreachable, errorOf } from './errors';
import { parseExact, stringifyExact } from './exactJson';

/** Every request of the console goes through `request`: it knows the session and translates errors once. */

/** Input of the person within this time makes a request count as activity of the session. */
const ACTIVE_MS = 10_000;
const GATEWAY_ERRORS = [502, 504];
const CSRF_TOKEN_REQUIRED = 'E2006';
const SESSION_OVER = 'The session is over. Log in again to go on.';

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
  /** Whose session it is; null without a session. */
  user: string | null;
  /** Sent with each write. */
  csrf: string;
  /** What follows the end of the session. */
  onEnd: () => void;
  /**
   * Take over the session of another tab, whose login replaced the cookie of all tabs, and return it. It may be of
   * another user. Throws ApiError or Unreachable.
   */
  renew: () => Promise<SessionBinding>;
}

export const NO_SESSION: SessionBinding = {
  user: null,
  csrf: '',
  onEnd: () => undefined,
  renew: () => Promise.reject(new ApiError(401, SESSION_OVER)),
};

let session = NO_SESSION;
let lastInput = Date.now();

/** Set what requests need of the session. */
export function bindSession(binding: SessionBinding): void {
  session = binding;
}

function requireUser(user: string | null, now: SessionBinding): void {
  if (now.user === user) return;
  if (now.user === null) throw new ApiError(401, SESSION_OVER);
  throw new ApiError(
    403,
    `Another account has logged in: ${now.user}. The action was stopped. Try again to do it as ${now.user}.`,
  );
}

/**
 * Begin an action of several writes. Call the returned function before each further one: it throws ApiError once the
 * session is of another user, who did not ask for the action.
 */
export function beginAction(): () => void {
  const { user } = session;
  return () => {
    requireUser(user, session);
  };
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

function headersOf(bound: SessionBinding, method: string, options: RequestOptions): Headers {
  const headers = new Headers({ Accept: options.accept ?? 'application/json' });
  if (options.body !== undefined) headers.set('Content-Type', options.type ?? 'application/json');
  if (method !== 'GET' && bound.csrf) headers.set('X-CSRF-Token', bound.csrf);
  // A request that a timer starts does not prolong the session of an absent person.
  if (Date.now() - lastInput > ACTIVE_MS) headers.set('X-Background', '1');
  return headers;
}

/**
 * Send one request and return its successful response. Throws ApiError or Unreachable.
 *
 * A write that was refused because another tab has logged in since is sent again, unless it would then be done as
 * another user. That is the user of the session in which the write began: the page may have taken over another
 * session meanwhile.
 */
export async function send(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
  const bound = session;
  try {
    return await sendOnce(bound, method, path, options);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== CSRF_TOKEN_REQUIRED) throw error;
    const renewed = await bound.renew();
    requireUser(bound.user, renewed);
    return await sendOnce(renewed, method, path, options);
  }
}

async function sendOnce(
  bound: SessionBinding,
  method: string,
  path: string,
  options: RequestOptions,
): Promise<Response> {
  const isJson = !options.type || options.type.endsWith('json');
  const body =
    options.body === undefined ? null : isJson ? stringifyExact(options.body) : (options.body as string);
  let response: Response;
  try {
    response = await fetch(withQuery(path, options.query), {
      method,
      body,
      headers: headersOf(bound, method, options),
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
  if (response.status === 401 && !path.startsWith('/console/session')) bound.onEnd();
  throw error;
}

/** Send one request and return the JSON of its answer. */
export async function request<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
  const response = await send(method, path, options);
  if (response.status === 204) return undefined as T;
  return (options.isExact ? parseExact(await response.text()) : await response.json()) as T;
}
